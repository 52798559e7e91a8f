"""How commands print: text that fits 80 columns and cannot play tricks with a terminal, or JSON."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

WIDTH = 80
_GAP = 2

_failures: list[OSError] = []
"""Why standard output takes no more, since the last `finish`; at most one."""


def put(text: str = "") -> None:
    """Print to standard output, whatever its encoding: a character that it lacks is written as an escape.

    If it cannot be written, such as when its reader has left, this and all that follows is dropped, and
    `finish` tells: a command's exit code answers even where its output is cut off.
    """
    if sys.stdout is None:
        # Our parent has closed it.
        return
    encoding = sys.stdout.encoding or "utf-8"
    try:
        print(text.encode(encoding, "backslashreplace").decode(encoding))
    except OSError as error:
        _drop_output(error)


def put_bytes(data: bytes) -> None:
    """Write to standard output what is no text of ours, as it is."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
    except OSError as error:
        _drop_output(error)


def finish() -> OSError | None:
    """Write out what is held back. What kept the output from being complete; None if it is."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        _drop_output(error)
    return _failures.pop() if _failures else None


def _drop_output(error: OSError) -> None:
    if not _failures:
        _failures.append(error)
    # What Python still holds back must go somewhere, or the interpreter complains at its end.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def put_json(answer: object) -> None:
    """Print a value (of msgspec's kinds) as one JSON document."""
    import msgspec

    put(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())


def note(text: str) -> None:
    """Talk: to standard error, so that it never mixes with data."""
    if sys.stderr is None:
        return
    encoding = sys.stderr.encoding or "utf-8"
    with suppress(OSError):
        print(f"lastgood: {text}".encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr)


def plain(text: str) -> str:
    """The text on one line, with control characters and lone surrogates as escapes.

    Names and reasons come from files that anybody may have written.

    >>> plain("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def shorten(text: str, width: int) -> str:
    """The text, cut to `width` characters.

    >>> shorten("abcdefgh", 5)
    'ab...'
    """
    return text if len(text) <= width else text[: max(0, width - 3)] + "..."


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[int] = (),
    *,
    most_lines: int | None = None,
) -> str:
    """Rows under headings within 80 columns: the last column takes what is left and wraps, its own line
    breaks are kept; it is cut to `most_lines`. `right` names the columns that are aligned to the right.

    >>> print(table(["N", "WHAT"], [["1", "one"], ["10", "ten"]], right=[0]))
     N  WHAT
     1  one
    10  ten
    """
    cells = [[plain(cell) for cell in row[:-1]] for row in rows]
    widths = [max(map(len, column)) for column in zip(list(headings[:-1]), *cells, strict=True)]
    indent = sum(widths) + _GAP * len(widths)
    lines = []
    for row, last in zip([list(headings[:-1]), *cells], [headings[-1], *(row[-1] for row in rows)], strict=True):
        padded = [
            cell.rjust(w) if i in right else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        width = max(20, WIDTH - indent)
        first, *others = _cut(wrap(last, width), most_lines, width)
        lines.append((" " * _GAP).join([*padded, first]).rstrip())
        lines += [(" " * indent + other).rstrip() for other in others]
    return "\n".join(lines)


def _cut(lines: list[str], most_lines: int | None, width: int) -> list[str]:
    if most_lines is None or len(lines) <= most_lines:
        return lines
    return [*lines[: most_lines - 1], lines[most_lines - 1][: width - 3] + "..."]


def wrap(text: str, width: int = WIDTH, indent: str = "") -> list[str]:
    """Lines of at most `width`; at least one."""
    import textwrap  # here, because most commands wrap nothing, and `--help` waits for it

    lines: list[str] = []
    for line in text.split("\n"):
        lines += textwrap.wrap(plain(line), width, subsequent_indent=indent) or [""]
    return lines
