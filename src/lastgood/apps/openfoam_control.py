"""The text of an OpenFOAM dictionary such as system/controlDict: what it says, and edits that leave all else as it is.

The syntax is `keyword value;` and `keyword { ... }`, with comments as in C++. Of two entries with the same keyword the
later one counts; dictionaries of the same name are merged. What `#include` and macros bring in is not in the text: such
a file is read by `foamDictionary -expand`, which costs a process.
"""

import os
import re
import subprocess
from collections.abc import Iterator

import msgspec

_ADDED = "// added by lastgood"
_QUESTION_S = 60.0
_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<code>\#\{.*?(?:\#\}|\Z))
    |(?P<text>"(?:\\.|[^"\\])*(?:"|\Z))
    |(?P<mark>[;{}()\[\]])
    |(?P<word>(?:(?!//|/\*)[^\s;{}()\[\]"])+)""",
    re.VERBOSE | re.DOTALL,
)
_OPENING = {"(": ")", "{": "}", "[": "]"}


class Entry(msgspec.Struct, frozen=True):
    """One `keyword value;` or `keyword { ... }` of a text, by positions in it."""

    key: str
    begin: int
    """Of the value's first character, or of what is between the braces."""
    end: int
    is_dictionary: bool = False


class Entries(msgspec.Struct, frozen=True):
    found: list[Entry]
    unseen_from: int | None = None
    """Where the last directive or macro is that brings in what is not in the text; None if there is none."""

    def last(self, key: str) -> Entry | None:
        return next((entry for entry in reversed(self.found) if entry.key == key), None)


class Tokens:
    """The words and marks of a text, one after the other, without comments."""

    def __init__(self, text: str, begin: int, end: int) -> None:
        self._matches = self._of(text, begin, end)
        self.last_end = begin

    @staticmethod
    def _of(text: str, begin: int, end: int) -> "Iterator[re.Match[str]]":
        while begin < end and (match := _TOKEN.match(text, begin, end)) is not None:
            begin = match.end()
            if match.lastgroup != "skip":
                yield match

    def take(self) -> "re.Match[str] | None":
        match = next(self._matches, None)
        if match is not None:
            self.last_end = match.end()
        return match

    def skip_to(self, closing: str) -> int | None:
        """Where the mark is that ends what was begun; None if it does not come."""
        awaited = [closing]
        while (match := self.take()) is not None:
            mark = match[0] if match.lastgroup == "mark" else ""
            if mark == awaited[-1]:
                awaited.pop()
                if not awaited:
                    return match.start()
            elif mark in _OPENING:
                awaited.append(_OPENING[mark])
        return None


def entries(text: str, begin: int = 0, end: int | None = None) -> Entries:
    """The entries of a dictionary's text, not those inside its own dictionaries.

    >>> text = "endTime 3; // s" + chr(10) + "functions { endTime 4; }"
    >>> [(entry.key, text[entry.begin : entry.end]) for entry in entries(text).found]
    [('endTime', '3'), ('functions', ' endTime 4; ')]
    """
    tokens = Tokens(text, begin, len(text) if end is None else end)
    found: list[Entry] = []
    unseen: int | None = None
    while (match := tokens.take()) is not None:
        if match.lastgroup not in ("word", "text"):
            continue
        key = match[0].strip('"')
        if key.startswith(("#", "$")):
            unseen = match.start()
            if key.startswith("#") and key != "#remove":
                tokens.take()  # what it includes
            continue
        entry = _entry(text, key, tokens)
        if entry is None:
            break
        found.append(entry)
    return Entries(found, unseen)


def _entry(text: str, key: str, tokens: Tokens) -> Entry | None:
    first = tokens.take()
    if first is None:
        return None
    if first[0] == ";":
        return Entry(key, first.start(), first.start())
    if first[0] == "{":
        closing = tokens.skip_to("}")
        return None if closing is None else Entry(key, first.end(), closing, is_dictionary=True)
    if first[0] in _OPENING and tokens.skip_to(_OPENING[first[0]]) is None:
        return None
    end = tokens.last_end
    while (match := tokens.take()) is not None:
        if match[0] == ";":
            return Entry(key, first.start(), end)
        if match[0] in _OPENING and tokens.skip_to(_OPENING[match[0]]) is None:
            return None
        end = tokens.last_end
    return None


def value_of(text: str, key: str, inside: str = "") -> str | None:
    """What a keyword is set to, `inside` a dictionary where one is named; None if the text does not set it.

    >>> value_of("a { b 1; } a { c 2; }", "b", inside="a"), value_of("a 1;", "b")
    ('1', None)
    """
    if not inside:
        entry = entries(text).last(key)
        return None if entry is None or entry.is_dictionary else text[entry.begin : entry.end].strip('"')
    for entry in reversed(entries(text).found):
        if entry.key == inside and entry.is_dictionary:
            inner = entries(text, entry.begin, entry.end).last(key)
            if inner is not None:
                return text[inner.begin : inner.end].strip('"')
    return None


def is_whole_in_text(text: str) -> bool:
    """False if something that is not in the text may set or change a value."""
    if entries(text).unseen_from is not None:
        return False
    return not any(text[e.begin :].startswith(("$", "#")) for e in entries(text).found if not e.is_dictionary)


def with_value(text: str, key: str, value: str, inside: str = "") -> str:
    """The text with a keyword set to a value; everything else stays, to the byte.

    >>> with_value("stopAt writeNow; // by hand", "stopAt", "endTime")
    'stopAt endTime; // by hand'
    """
    if value_of(text, key, inside) == value and entries(text).unseen_from is None:
        return text
    top = entries(text)
    if not inside:
        entry = top.last(key)
        if entry is None or entry.is_dictionary or (top.unseen_from or -1) > entry.begin:
            return f"{_ended(text)}{key} {value};  {_ADDED}\n"
        return _replaced(text, entry, value)
    # A later dictionary of the same name is merged into an earlier one, and wins.
    around = top.last(inside)
    if around is None or not around.is_dictionary or (top.unseen_from or -1) > around.begin:
        return f"{_ended(text)}{inside}  {_ADDED}\n{{\n    {key} {value};\n}}\n"
    entry = entries(text, around.begin, around.end).last(key)
    if entry is not None:
        return _replaced(text, entry, value)
    line = text.rfind("\n", 0, around.end) + 1
    if line > around.begin and not text[line : around.end].strip():
        return f"{text[:line]}    {key} {value};  {_ADDED}\n{text[line:]}"
    return f"{text[: around.end]}\n    {key} {value};  {_ADDED}\n{text[around.end :]}"


def _replaced(text: str, entry: Entry, value: str) -> str:
    space = " " if entry.begin == entry.end else ""
    return f"{text[: entry.begin]}{space}{value}{text[entry.end :]}"


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def expanded(path: str, case: str) -> str:
    """A dictionary's text with all that it includes, as OpenFOAM's own tool reads it; empty where that cannot be had."""
    try:
        done = subprocess.run(
            ["foamDictionary", "-expand", os.path.abspath(path)],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            cwd=case,
            timeout=_QUESTION_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("latin-1") if done.returncode == 0 else ""
