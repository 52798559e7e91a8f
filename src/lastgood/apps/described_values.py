"""The values that a description names: from options of the command, from files, or as they stand there."""

import glob
import json
import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from lastgood.apps.description import words_in
from lastgood.apps.description_tables import Source
from lastgood.core.errors import UsageError

_MOST_BYTES = 2**26
"""Of a file in which a value is looked for."""


class NotGivenError(UsageError):
    """One of our words has nothing to stand for yet: there is no checkpoint, or no step or total is told."""


class Values:
    """Fills the braces of a description for one command."""

    def __init__(self, sources: Mapping[str, Source], command: Sequence[str], name: str) -> None:
        self._sources = sources
        self._command = list(command)
        self._name = name

    def fill(self, template: str, given: Mapping[str, str] | None = None, *, is_glob: bool = False) -> str:
        """The template with its words replaced. Raises UsageError for a value that is not to be had, and OSError."""
        given = {} if given is None else given
        words = {word: given[word] if word in given else self._value(word, given) for word in words_in(template)}
        return template.format_map({w: glob.escape(v) for w, v in words.items()} if is_glob else words)

    def of(self, source: Source, given: Mapping[str, str] | None = None) -> str | None:
        """What a source gives, its default where that is nothing; None without one. Raises as `fill` does."""
        given = {} if given is None else given
        found = self._found(source, given)
        if found is None and source.default is not None:
            return self.fill(source.default, given)
        return found

    def number_of(self, source: Source, given: Mapping[str, str] | None = None) -> int | None:
        """The same as a whole number; None where it is none."""
        text = self.of(source, given)
        try:
            return None if text is None else int(float(text.strip().replace("d", "e").replace("D", "e")))
        except (ValueError, OverflowError):
            return None

    def _value(self, word: str, given: Mapping[str, str]) -> str:
        source = self._sources.get(word)
        value = None if source is None else self.of(source, given)
        if value is not None:
            return value
        if source is None:
            raise NotGivenError(
                f"{self._name}: {{{word}}} is known only where there is a checkpoint, or a step and a total",
                safe="nothing was started",
            )
        if source.option:
            why = f"the command has no {' or '.join(source.option)}, which gives {{{word}}}"
        else:
            what = source.pattern or source.json
            why = f"{self.fill(source.file, given)} has no {what!r}, or is not there; it gives {{{word}}}"
        raise UsageError(f"{self._name}: {why}", safe="nothing was started", remedy="complete the command, or the file")

    def _found(self, source: Source, given: Mapping[str, str]) -> str | None:
        if source.text is not None:
            return self.fill(source.text, given)
        if source.option:
            return self._option(source.option)
        text = read_text(self.fill(source.file, given))
        if text is None:
            return None
        return _member(text, source.json) if source.json else _last_match(text, source.pattern)

    def _option(self, names: Sequence[str]) -> str | None:
        """The last one counts, as most programs have it."""
        found = None
        for word, following in zip_longest(self._command, self._command[1:]):
            name, is_joined, value = word.partition("=")
            if word in names:
                found = following
            elif is_joined and name in names:
                found = value
        return found


def read_text(path: str) -> str | None:
    """The begin of a file, bytes that are no UTF-8 as escapes; None if it is not there. Raises OSError."""
    try:
        with open(path, "rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "backslashreplace")
    except (FileNotFoundError, NotADirectoryError):
        return None


def _last_match(text: str, pattern: str) -> str | None:
    found = None
    for match in re.finditer(pattern, text):
        found = match[1] if match.re.groups else match[0]
    return found


def _member(text: str, keys: str) -> str | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    for key in keys.split("."):
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return value if isinstance(value, str) else json.dumps(value)
