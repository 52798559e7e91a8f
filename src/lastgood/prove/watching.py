"""What can be seen of a trial while it runs: its output line by line, and the files that it writes."""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from lastgood.core.numbering import is_temporary
from lastgood.trial.lines import Follower
from lastgood.trial.place import LEFT_OUT, Place
from lastgood.trial.trial import Sight

_LEAST_PAUSE_S = 0.02
_SHARE_OF_TIME = 10.0
"""Looking through the files takes at most one part in so many of the time."""
_OF_A_RUN = 2000.0
"""It is done so often in the time that the run has taken so far, at most: what is written in a long one is a long list."""

Stamp = tuple[int, int, int]
"""Of a file: when it was modified, in nanoseconds, its size, and its inode. Changes whenever it is written."""


class Said(msgspec.Struct, frozen=True):
    """A line of output."""

    at: float
    """Seconds since 1970; at most one look after it was written."""
    start: int
    """Which start of the command line said it, from 1."""
    text: str


class Written(msgspec.Struct, frozen=True):
    """A file that was seen to be new, or other than before."""

    at: float
    """Seconds since 1970."""
    since: float
    """When it was seen not to be written yet."""
    start: int
    path: str
    """From the directory in which the trial works."""
    size_bytes: int
    step: int | None
    """The newest step that was seen to be done before it was written."""
    step_by: int | None
    """The newest when it was seen."""
    inode: int = 0
    """Another one under the same name: it was not written there, but renamed."""


class Watch:
    """Collects what a trial shows. Call it with every sight."""

    def __init__(self, place: Place) -> None:
        self.lines: list[Said] = []
        self.written: list[Written] = []
        self.temporary: list[Written] = []
        """Under names that say that they are not whole yet."""
        self.steps: list[tuple[float, int, int]] = []
        """When a step was seen to be done, in which attempt, and which."""
        self._place = place
        self._follower = Follower(place.output)
        self._stamps = stamps_below(place.work)
        self._looked_at = time.time()
        self._step: int | None = None
        self._next_at = 0.0
        self._began = time.monotonic()

    def __call__(self, sight: Sight) -> None:
        new = self._follower.new_lines(sight.at, is_over=not sight.is_running)
        self.lines += [Said(line.at, sight.start, line.text) for line in new]
        if sight.step is not None and (not self.steps or self.steps[-1][1:] != (sight.attempt, sight.step)):
            self.steps.append((sight.at, sight.attempt, sight.step))
        if time.monotonic() >= self._next_at or not sight.is_running:
            self.look_at_files(sight.start, sight.step)

    def end_start(self, start: int) -> None:
        """Nothing of that start writes any more: its last line is whole, and is not joined with what the next one says."""
        now = time.time()
        self.lines += [Said(now, start, line.text) for line in self._follower.new_lines(now, is_over=True)]

    def look_at_files(self, start: int, step: int | None) -> None:
        began = time.monotonic()
        now = stamps_below(self._place.work)
        at = time.time()
        for path, stamp in now.items():
            if self._stamps.get(path) != stamp:
                (self.temporary if _is_temporary(path) else self.written).append(
                    Written(at, self._looked_at, start, path, stamp[1], self._step, step, stamp[2])
                )
        self._stamps, self._looked_at, self._step = now, at, step
        took_s = time.monotonic() - began
        ran_s = time.monotonic() - self._began
        self._next_at = time.monotonic() + max(_LEAST_PAUSE_S, took_s * _SHARE_OF_TIME, ran_s / _OF_A_RUN)


def _is_temporary(path: str) -> bool:
    return any(is_temporary(part) for part in path.split("/"))


def stamps_below(directory: Path, left_out: Sequence[str] = LEFT_OUT) -> dict[str, Stamp]:
    """Every file below a directory, by its path in it. What vanishes meanwhile is not there."""
    return dict(_walk(str(directory), "", frozenset(left_out)))


def _walk(directory: str, prefix: str, left_out: frozenset[str]) -> Iterator[tuple[str, Stamp]]:
    try:
        with os.scandir(directory) as entries:
            found = list(entries)
    except OSError:
        return
    for entry in found:
        try:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in left_out:
                    yield from _walk(entry.path, f"{prefix}{entry.name}/", left_out)
                continue
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        yield prefix + entry.name, (status.st_mtime_ns, status.st_size, status.st_ino)
