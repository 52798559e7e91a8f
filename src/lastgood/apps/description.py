"""Reads the file that describes an application, and says what is wrong with one that breaks the rules.

It is TOML. Nothing of it is guessed: an unknown key, a value of another type, a pattern that does not compile or a
`{word}` that nothing gives is an error that names the file, the line where it can be told, the key and what is allowed.
"""

import contextlib
import re
import string
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from lastgood.apps.description_tables import OF_LASTGOOD, OUTCOMES, SIGNALS, Description, Source, Stop, Table
from lastgood.core.errors import UsageError

FORMAT = 1
_OF_A_CHECKPOINT = ("checkpoint", "step", "total", "remaining")
_GIVEN: dict[tuple[str, ...], tuple[str, ...]] = {
    ("checkpoints", "glob"): (),
    ("checkpoints", "step"): ("checkpoint",),
    ("checkpoints", "total"): ("checkpoint",),
    ("check", "command"): _OF_A_CHECKPOINT,
    ("start", "fresh"): ("total", "interval_s"),
    ("stop", "file"): (),
    ("save", "file"): (),
    ("refuse", "file"): (),
    ("finished", "exists"): _OF_A_CHECKPOINT,
    ("finished", "file"): _OF_A_CHECKPOINT,
}
"""Which words of ours can be given at some places; at all others any can be."""
T = TypeVar("T")


def read_description(path: str) -> Description:
    """Raises UsageError, which names what is wrong and where."""
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"cannot read the description {path}: {why}", safe="nothing was started") from error
    return parse_description(text, path)


def parse_description(text: str, path: str) -> Description:
    """Raises UsageError."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _wrong(path, f"it is not TOML: {error}") from error
    if tables.get("format", FORMAT) != FORMAT:
        raise _wrong(_place(path, text, ["format"]), f"format = {tables['format']!r}: this version reads {FORMAT} only")
    values = tables.get("values")
    for name, value in values.items() if isinstance(values, dict) else ():
        # Each by itself: msgspec does not tell the key of a table whose keys are free.
        _converted(value, Source, ["values", name], text, path)
    description = _converted(tables, Description, [], text, path)
    for keys, problem in _problems(description):
        raise _wrong(_place(path, text, keys), f"{_dotted(keys)}: {problem}")
    return description


def words_in(template: str) -> list[str]:
    """The names that stand in braces. Raises ValueError.

    >>> words_in("{outdir}/{prefix}.save")
    ['outdir', 'prefix']
    """
    return [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]


def _wrong(place: str, what: str) -> UsageError:
    return UsageError(
        f"{place}: {what}", safe="nothing was started", remedy="docs/how-to/describe-an-application.md lists the keys"
    )


def _converted(value: Any, kind: type[T], above: list[str], text: str, path: str) -> T:
    try:
        return msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError as error:
        raise _explained(str(error), above, text, path) from error


def _explained(message: str, above: list[str], text: str, path: str) -> UsageError:
    """msgspec names the value as `$.check.files[0]`; people want the line, and what they may write."""
    what, _, where = message.partition(" - at `")
    keys = above + [key for key in re.split(r"\.|\[[^\]]*\]", where.rstrip("`").removeprefix("$")) if key]
    unknown = re.search(r"unknown field `([^`]*)`", what)
    missing = re.search(r"missing required field `([^`]*)`", what)
    allowed = ", ".join(_fields_at(keys))
    if unknown:
        return _wrong(
            _place(path, text, [*keys, unknown[1]]),
            f"{_dotted([*keys, unknown[1]])} is no key of a description; allowed here: {allowed}",
        )
    if missing:
        return _wrong(_place(path, text, keys), f"{_dotted([*keys, missing[1]])} is missing; allowed here: {allowed}")
    return _wrong(_place(path, text, keys), f"{_dotted(keys)}: {what[0].lower()}{what[1:]}")


def _fields_at(keys: list[str]) -> list[str]:
    """The keys of the table that is reached by these."""
    if keys[:1] == ["values"]:
        return list(Source.__struct_fields__)
    here: Any = Description
    for key in keys:
        known = {field.name: field.type for field in msgspec.structs.fields(here)} if _is_table(here) else {}
        here = _inner(known.get(key))
    return list(here.__struct_fields__) if _is_table(here) else []


def _inner(kind: Any) -> Any:
    arguments = [argument for argument in getattr(kind, "__args__", ()) if _is_table(argument)]
    return arguments[0] if arguments else kind


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Table)


def _dotted(keys: list[str]) -> str:
    return ".".join(keys) or "the description"


def _place(path: str, text: str, keys: list[str]) -> str:
    """The file, and the line of a key where it can be told."""
    table: list[str] = []
    nearest = 0
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if header := re.match(r"\[\[?([^\[\]]+)\]\]?", stripped):
            table = [part.strip().strip("\"'") for part in header[1].split(".")]
            here = table
        elif key := re.match(r"([\w.\"'-]+)\s*=", stripped):
            here = [*table, *key[1].replace('"', "").replace("'", "").split(".")]
        else:
            continue
        if here == keys:
            return f"{path}:{number}"
        if keys[: len(here)] == here:
            nearest = number
    return f"{path}:{nearest}" if nearest else path


def _problems(given: Description) -> Iterator[tuple[list[str], str]]:
    """What types do not say."""
    if not re.fullmatch(r"[^\x00-\x1f/]+", given.name):
        yield ["name"], "give a name on one line, without a slash"
    if not given.checkpoints.glob:
        yield ["checkpoints", "glob"], "give a pattern at least, such as ['out/*.chk']"
    if not given.finished:
        yield ["finished"], "give a test: an exit code alone never tells that the work is done"
    if given.checkpoints.order == "step" and given.checkpoints.step is None:
        yield ["checkpoints", "order"], 'order = "step" needs a [checkpoints.step]'
    if given.check.least_bytes < 0 or given.check.command_limit_s <= 0:
        yield ["check"], "least_bytes and command_limit_s are not negative"
    for key, asked in (("stop", given.stop), ("save", given.save or Stop())):
        if asked.signal and asked.signal not in SIGNALS:
            yield [key, "signal"], f"{asked.signal!r} is not one of {', '.join(SIGNALS)}"
    if given.save and (given.save.wait or bool(given.save.signal) == bool(given.save.file)):
        yield ["save"], "give one of signal and file"
    if (bool(given.stop.signal), bool(given.stop.file), given.stop.wait).count(True) != 1:
        yield ["stop"], "give one of signal, file and wait = true"
    for line in given.log:
        if line.outcome not in OUTCOMES:
            yield ["log", "outcome"], f"{line.outcome!r} is not one of {', '.join(OUTCOMES)}"
    for test in given.finished:
        if not (test.step or test.exists or test.file or test.output):
            yield ["finished"], "a test needs step, exists, file or output"
        if test.step and given.checkpoints.total is None:
            yield ["finished", "step"], "needs a [checkpoints.total]"
        if bool(test.file) != bool(test.pattern):
            yield ["finished"], "file and pattern go together"
    for keys, source in _sources(given):
        yield from _source_problems(keys, source)
    for name in given.values:
        if name in OF_LASTGOOD or not name.isidentifier():
            yield ["values", name], f"not a name for a value; {', '.join(OF_LASTGOOD)} are given already"
    yield from _order_problems(given)
    for keys, pattern in _patterns(given):
        try:
            groups = re.compile(pattern).groups
        except re.error as error:
            yield keys, f"{pattern!r} is no regular expression: {error}"
        else:
            if keys == ["progress", "output"] and not groups:
                yield keys, "needs a group"
    for keys, template in _templates(given):
        yield from _template_problems(given, keys, template)


def _order_problems(given: Description) -> Iterator[tuple[list[str], str]]:
    """A value may use those above it, so that none is made of itself."""
    above: set[str] = set()
    for name, source in given.values.items():
        for template in (source.file, source.text or "", source.default or ""):
            with contextlib.suppress(ValueError):
                below = [word for word in words_in(template) if word in given.values and word not in above]
                yield from ((["values", name], f"{{{word}}} is not above it") for word in below)
        above.add(name)


def _source_problems(keys: list[str], source: Source) -> Iterator[tuple[list[str], str]]:
    if sum((bool(source.option), bool(source.file), source.text is not None)) != 1:
        yield keys, "give one of option, file and text"
    if source.file and bool(source.pattern) == bool(source.json):
        yield keys, "a file needs either a pattern or a json key"
    if not source.file and (source.pattern or source.json):
        yield keys, "pattern and json go with a file"


def _template_problems(given: Description, keys: list[str], template: str) -> Iterator[tuple[list[str], str]]:
    try:
        words = list(_words_behind(given, template))
        if any(conversion or spec for _, _, spec, conversion in string.Formatter().parse(template)):
            yield keys, f"{template!r}: only a name stands in braces"
    except ValueError as error:
        yield keys, f"{template!r}: {error}; write {{{{ and }}}} for braces"
        return
    known = [*given.values, *_GIVEN.get(tuple(keys[:2]), OF_LASTGOOD)]
    yield from (
        (keys, f"{{{word}}} is not known here; known: {', '.join(known)}") for word in words if word not in known
    )


def _words_behind(given: Description, template: str) -> Iterator[str]:
    """The words of a template, and those of the values that it uses. Raises ValueError."""
    for word in words_in(template):
        yield word
        if source := given.values.get(word):
            for below in (source.file, source.text or "", source.default or ""):
                yield from _words_behind(given, below)


def _sources(given: Description) -> Iterator[tuple[list[str], Source]]:
    yield from ((["values", name], source) for name, source in given.values.items())
    if given.checkpoints.step:
        yield ["checkpoints", "step"], given.checkpoints.step
    if given.checkpoints.total:
        yield ["checkpoints", "total"], given.checkpoints.total


def _patterns(given: Description) -> Iterator[tuple[list[str], str]]:
    yield from (([*keys, "pattern"], source.pattern) for keys, source in _sources(given))
    for content in given.check.content:
        yield ["check", "content", "pattern"], content.pattern
        yield ["check", "content", "end"], content.end
    for edit in given.start.edit:
        for change in edit.replace:
            yield ["start", "edit", "replace", "pattern"], change.pattern
            yield ["start", "edit", "replace", "insert_after"], change.insert_after
            yield ["start", "edit", "replace", "only_if"], change.only_if
    for test in given.finished:
        yield ["finished", "pattern"], test.pattern
        yield ["finished", "output"], test.output
    if given.progress:
        yield ["progress", "output"], given.progress.output
    yield from ((["refuse", "pattern"], refused.pattern) for refused in given.refuse)
    yield from ((["log", "pattern"], line.pattern) for line in given.log)


def _templates(given: Description) -> Iterator[tuple[list[str], str]]:
    """Values first: others may be made of them."""
    for keys, source in _sources(given):
        yield [*keys, "file"], source.file
        yield [*keys, "text"], source.text or ""
        yield [*keys, "default"], source.default or ""
    yield from ((["checkpoints", "glob"], pattern) for pattern in given.checkpoints.glob)
    yield from ((["check", "command"], word) for word in given.check.command)
    start = given.start
    for key, words in (("always", start.always), ("fresh", start.fresh), ("resume", start.resume)):
        yield from ((["start", key], word) for word in words)
    yield from ((["start", "remove"], path) for path in start.remove)
    yield from ((["start", "environment", name], text) for name, text in start.environment.items())
    for edit in start.edit:
        yield ["start", "edit", "file"], edit.file
        yield from ((["start", "edit", "replace", "text"], change.text) for change in edit.replace)
    yield ["stop", "file"], given.stop.file
    yield ["save", "file"], given.save.file if given.save else ""
    yield from ((["refuse", "file"], refused.file) for refused in given.refuse)
    for test in given.finished:
        yield ["finished", "exists"], test.exists
        yield ["finished", "file"], test.file
