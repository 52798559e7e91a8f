"""Text, tables and JSON lines held against each other line by line, in memory for a line."""

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, Literal

import msgspec

from lastgood.core.errors import DamagedError, UsageError
from lastgood.prove.difference import Difference
from lastgood.prove.raw_bytes import Raw, are_same_bytes
from lastgood.prove.tally import Tally
from lastgood.prove.values import hold, printed_number

_NUMBER = re.compile(
    r"(?i)[-+]?(?:\d+\.?\d*|\.\d+)(?:[ed][-+]?\d+)?|(?<![a-z0-9_])[-+]?(?:nan|inf(?:inity)?)(?![a-z0-9_])"
)
_TIME = re.compile(r"\d{1,2}:\d{2}:\d{2}|\d{4}-\d{2}-\d{2}|(?i:\bpid\b)")
_LABEL = re.compile(r"\s*([A-Za-z#][^=:{]*?)\s*[=:{]|\s*([A-Za-z#(][^=:{]*?)\s+(?=[-+]?[\d.])")
_SEPARATORS = ",\t;|"
_SNIFF_BYTES = 65536


class Lines(msgspec.Struct, frozen=True):
    """A file of lines."""

    raw: Raw
    kind: Literal["text", "csv", "jsonl"] = "text"
    leave_out: tuple[str, ...] = ()
    """Regular expressions of lines that may differ: they are not compared."""
    is_labelled: bool = False
    """Lines begin with the name of their value, which says more than their number."""


def hold_lines(tally: Tally, left: Lines, right: Lines, *, where: str = "") -> None:
    """Hold two texts against each other; of lines that differ, each number."""
    patterns = dict.fromkeys([*left.leave_out, *right.leave_out])
    if not patterns and are_same_bytes(left.raw, right.raw):
        tally.add_equal(_count_lines(left.raw))
        return
    joined = pattern_of(list(patterns))
    leave_out = re.compile(joined.pattern.encode()) if joined is not None else None
    if left.kind == "csv":
        _hold_tables(tally, left, right, leave_out, where)
        return
    with left.raw.open() as one, right.raw.open() as other:
        skipped = [0]
        pairs = zip_longest(_kept(one, leave_out, skipped), _kept(other, leave_out, []))
        for a, b in pairs:
            if a is not None and b is not None and a[1] == b[1]:
                tally.add_equal()
            elif a is None or b is None:
                number = (a or b or (0, b""))[0]
                _note_end(tally, "line", number, is_left=b is None, where=where)
                break
            elif left.is_labelled:
                hold_labelled(tally, f"line {a[0]}", _decoded(a[1]), _decoded(b[1]), where)
            elif left.kind == "jsonl":
                _hold_json(tally, f"line {a[0]}", a[1], b[1], where)
            else:
                hold_text(tally, f"line {a[0]}", _decoded(a[1]), _decoded(b[1]), where)
    if skipped[0]:
        tally.note(f"{where or left.raw.path.name}: {skipped[0]:,} lines were left out, as asked")


def pattern_of(patterns: Sequence[str]) -> "re.Pattern[str] | None":
    """One that finds what any of them finds; None for none. Raises UsageError for what is no regular expression."""
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise UsageError(f"{pattern!r} is no regular expression: {error}") from None
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns)) if patterns else None


def _kept(file: Any, leave_out: "re.Pattern[bytes] | None", skipped: list[int]) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(file, 1):
        if leave_out is None or not leave_out.search(line):
            yield number, line
        elif skipped:
            skipped[0] += 1


def _count_lines(raw: Raw) -> int:
    count, last = 0, b"\n"
    with raw.open() as file:
        while chunk := file.read(1 << 22):
            count += chunk.count(b"\n")
            last = chunk[-1:]
    return count + (last != b"\n")


def _decoded(line: bytes) -> str:
    return line.decode("utf-8", "replace").strip()


def _note_end(tally: Tally, what: str, number: int, *, is_left: bool, where: str) -> None:
    reason = "the other run has no more" if is_left else "the undisturbed run has no more"
    difference = Difference(what=f"{what} {number}", left="", right="", where=where, reason=reason)
    tally.add(difference, is_allowed=False)


def hold_text(tally: Tally, what: str, left: str, right: str, where: str, *, step: int | None = None) -> None:
    """Two lines whose words are equal differ in their numbers alone; spaces do not count."""
    numbers = _NUMBER.findall(left), _NUMBER.findall(right)
    words = ["".join(_NUMBER.sub("\0", text).split()) for text in (left, right)]
    if words[0] == words[1]:
        pairs = [(i, a, b) for i, (a, b) in enumerate(zip(*numbers, strict=True), 1) if a != b]
        for index, a, b in pairs:
            name = f"{what}, number {index}" if len(numbers[0]) > 1 else what
            hold(tally, name, a, b, where=where, step=step)
        if not pairs:
            # Spaces alone.
            tally.add_equal()
    else:
        hold(tally, what, left, right, where=where, step=step)
    if _TIME.search(left) and _TIME.search(right):
        tally.note(
            f"{where + ', ' if where else ''}{what} holds a time or the number of a process: leave such lines out"
        )


def hold_labelled(tally: Tally, what: str, left: str, right: str, where: str, *, step: int | None = None) -> None:
    """Two lines such as "Temperature   3.0e+02" or "x[ 12]={ 0.1, 0.2}", whose values are named by their beginning."""
    label = _LABEL.match(left)
    if label is not None and right.startswith(label[0]):
        name = label[1] or label[2]
        what = re.sub(r"\s+", "" if "[" in name else " ", name)
        left, right = left[label.end() :], right[label.end() :]
    hold_text(tally, what, left, right, where, step=step)


def _hold_json(tally: Tally, what: str, left: bytes, right: bytes, where: str) -> None:
    try:
        a, b = json.loads(left), json.loads(right)
    except (ValueError, RecursionError):
        hold_text(tally, what, _decoded(left), _decoded(right), where)
        return
    hold(tally, what, a, b, where=where)


def _hold_tables(tally: Tally, left: Lines, right: Lines, leave_out: "re.Pattern[bytes] | None", where: str) -> None:
    with left.raw.open() as one, right.raw.open() as other:
        rows = [_rows(file, lines, leave_out) for file, lines in ((one, left), (other, right))]
        header: list[str] = []
        for number, (a, b) in enumerate(zip_longest(*rows), 0):
            if number == 0 and a and not any(printed_number(cell) is not None for cell in a):
                header = a
            if a is None or b is None:
                _note_end(tally, "row", number, is_left=b is None, where=where)
                break
            if a == b:
                tally.add_equal(len(a))
            elif len(a) != len(b):
                hold(tally, f"row {number}", a, b, where=where)
            else:
                for index, (cell, there) in enumerate(zip(a, b, strict=True)):
                    column = header[index] if index < len(header) and number else f"column {index + 1}"
                    hold(tally, f"row {number}, {column}", cell.strip(), there.strip(), where=where)


def _rows(file: Any, lines: Lines, leave_out: "re.Pattern[bytes] | None") -> Iterator[list[str]]:
    start = file.read(_SNIFF_BYTES)
    first = start.partition(b"\n")[0].decode("utf-8-sig", "replace")
    separator = max(_SEPARATORS, key=first.count)

    def texts() -> Iterator[str]:
        rest = start
        # The part that was read to guess the separator ends somewhere in a line.
        for line in io.BytesIO(start):
            if line.endswith(b"\n"):
                yield from _text(line, leave_out)
                rest = b""
            else:
                rest = line
        if not start.endswith(b"\n") and start:
            yield from _text(rest + file.readline(), leave_out)
        for line in file:
            yield from _text(line, leave_out)

    try:
        yield from csv.reader(texts(), delimiter=separator, skipinitialspace=True)
    except csv.Error as error:
        raise DamagedError(f"{lines.raw.path} is not a table that can be read: {error}") from error


def _text(line: bytes, leave_out: "re.Pattern[bytes] | None") -> Iterator[str]:
    if leave_out is None or not leave_out.search(line):
        yield line.decode("utf-8-sig", "replace")
