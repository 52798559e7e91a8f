"""The output of a trial, followed while it grows: which lines came when."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

_ATTEMPT = re.compile(r"lastgood: attempt (\d+) of ")
_JOINED = re.compile(rb"(?<!^)(?=lastgood: attempt \d+ )")
"""Where a line of our launcher begins behind one of the program that has no end."""


def attempt_in(line: str) -> int | None:
    """The attempt that a line of our launcher says to begin; None if it says no such thing.

    >>> attempt_in("lastgood: attempt 2 of /tmp/job on node1 at 2026-01-01T00:00:00Z: resuming from out/a.pt")
    2
    """
    match = _ATTEMPT.match(line)
    return int(match[1]) if match else None


class Line(msgspec.Struct, frozen=True):
    at: float
    """When it was seen, in seconds since 1970: at most one look after it was written."""
    text: str


class Follower:
    """Reads what is new in a file at each look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._rest = b""

    def new_lines(self, now: float, *, is_over: bool = False) -> Iterator[Line]:
        """Whole lines that came since the last look; a carriage return ends one, too (progress bars). `is_over`: nobody
        writes any more, so that a last line that has no end is whole."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                data = file.read()
        except FileNotFoundError:
            return
        self._at += len(data)
        pieces = (self._rest + data).replace(b"\r", b"\n").split(b"\n")
        self._rest = pieces.pop()
        if is_over and self._rest:
            pieces.append(self._rest)
            self._rest = b""
        for piece in pieces:
            for line in _JOINED.split(piece):
                yield Line(now, line.decode(errors="replace"))


class TellingSteps:
    """What the lines of one attempt tell of its steps."""

    def __init__(self) -> None:
        self.first: int | None = None
        self.newest: int | None = None
        self._stride: int | None = None

    def note(self, step: int | None) -> None:
        if step is None:
            return
        if self.first is None:
            self.first = step
        elif self._stride is None and step > self.first:
            self._stride = step - self.first
        self.newest = step

    @property
    def stride(self) -> int:
        """The distance of its first two lines; 1 before there is a second."""
        return self._stride or 1

    @property
    def from_step(self) -> int | None:
        """The step after which it goes on, if it tells of every `stride`-th; None before its first line."""
        return None if self.first is None else max(self.first - self.stride, 0)
