"""The text of one file, places in it, and changes to it. Pure."""

import bisect
from functools import cached_property

import msgspec


class Span(msgspec.Struct, frozen=True, order=True):
    """A place in a text: lines and columns count from 1, columns in characters; the end is behind the last one."""

    line: int
    column: int
    end_line: int
    end_column: int


WHOLE_FILE = Span(1, 1, 1, 1)
"""For what is not there, and so has no place."""


class Edit(msgspec.Struct, frozen=True):
    """Replace the bytes from `begin` to `end` (none, where they are equal) with `text`."""

    begin: int
    end: int
    text: str


class Source:
    """One file's text. Offsets are in its UTF-8 bytes, as parsers give them; what is not UTF-8 is kept as it is.

    >>> source = Source("job.sh", b"#!/bin/bash\\nsrun a\\n")
    >>> source.span(12, 16), source.line(2), source.text(12, 16)
    (Span(line=2, column=1, end_line=2, end_column=5), 'srun a', 'srun')
    """

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.data = data
        self._last = (0, 0, 0)

    @cached_property
    def _starts(self) -> list[int]:
        starts, at = [0], self.data.find(b"\n")
        while at >= 0:
            starts.append(at + 1)
            at = self.data.find(b"\n", at + 1)
        return starts

    def text(self, begin: int, end: int) -> str:
        return self.data[begin:end].decode("utf-8", "surrogateescape")

    def span(self, begin: int, end: int) -> Span:
        line, column = self._place(begin)
        end_line, end_column = self._place(max(begin, end))
        return Span(line, column, end_line, end_column)

    def span_of_line(self, line: int) -> Span:
        """A whole line without the blanks around it."""
        begin, end = self.bounds_of_line(line)
        raw = self.data[begin:end]
        return self.span(begin + len(raw) - len(raw.lstrip()), begin + max(len(raw.rstrip()), 1))

    def bounds_of_line(self, line: int) -> tuple[int, int]:
        """Offsets of a line's begin and end, without its line break."""
        begin = self._starts[line - 1]
        end = self._starts[line] - 1 if line < len(self._starts) else len(self.data)
        return begin, end - (self.data[begin:end].endswith(b"\r"))

    def line(self, number: int) -> str:
        return self.text(*self.bounds_of_line(number))

    @property
    def line_count(self) -> int:
        return len(self._starts)

    def _place(self, offset: int) -> tuple[int, int]:
        line = bisect.bisect_right(self._starts, offset)
        if self._is_ascii:
            return line, offset - self._starts[line - 1] + 1
        # Places are mostly asked for in the order of the text: characters of a long line are not counted anew each time.
        last_line, last_offset, last_column = self._last
        if line != last_line or offset < last_offset:
            last_offset, last_column = self._starts[line - 1], 1
        column = last_column + len(self.text(last_offset, offset))
        self._last = line, offset, column
        return line, column

    @cached_property
    def _is_ascii(self) -> bool:
        return self.data.isascii()
