"""A file system in memory, by FUSE, that records what is asked of it and fails when told to.

    with mounted(tmp_path / "mnt") as fs:
        ...                                       # use fs.path like any directory
        fs.fail("fsync", errno.EIO, nth=2)        # the second fsync from now on fails
        fs.log()                                  # operations since the last reset, see `disk`

It runs in a process of its own: a process that waits for a file system that it serves itself hangs.
A program on it can leave a note in the log with `leave_note(fs.path, "committed 20")`.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from faults.disk import Disk, Operation
from lastgood.drill.filesystem import mounting
from lastgood.drill.filesystem.mounting import Channel
from lastgood.drill.filesystem.table import KILL, Failure

__all__ = ["KILL", "NOTE_ATTRIBUTE", "LossyFS", "is_available", "leave_note", "mounted"]

NOTE_ATTRIBUTE = "user.note"


def leave_note(path: Path | str, text: str) -> None:
    """Note something between the operations of this process, in the log of the file system of `path`."""
    os.setxattr(path, NOTE_ATTRIBUTE, text.encode())


class LossyFS:
    """A mounted file system, as a test sees it."""

    def __init__(self, channel: Channel) -> None:
        self.path = channel.path
        self._ask: Any = channel.ask

    def reset(self, disk: Disk | None = None) -> None:
        """Hold exactly this (nothing, if None is given), all of it durable; no faults, an empty log."""
        self._ask("reset", disk or Disk())

    def disk(self) -> Disk:
        """What a program sees now."""
        return self._ask("disk")  # type: ignore[no-any-return]

    def log(self) -> list[Operation]:
        """What was done since the last reset."""
        return self._ask("log")  # type: ignore[no-any-return]

    def counts(self) -> dict[str, int]:
        """How often each operation was asked for since the last reset or `heal`."""
        return self._ask("counts")  # type: ignore[no-any-return]

    def fail(self, operation: str, error: int, nth: int = 1, count: int = 1) -> None:
        """Answer `count` operations of that name with an error, from the nth on, counted from now."""
        self._ask("fail", Failure(operation, error, nth, count))

    def heal(self) -> None:
        """No more faults; counting begins anew."""
        self._ask("heal")

    def slow_down(self, delay_s: float) -> None:
        """From now on each change takes that much longer."""
        self._ask("slow", delay_s)

    def have_links(self, yes: bool) -> None:
        """Whether there are hard links; there are after mounting."""
        self._ask("links", yes)


def is_available() -> bool:
    return not mounting.missing()


@contextmanager
def mounted(path: Path) -> Iterator[LossyFS]:
    """Mount an empty one on a new directory; unmounted, and its process ended, on leaving."""
    path.mkdir(parents=True)
    with mounting.mounted(["-m", "faults.lossyfs_server"], path, cwd=Path(__file__).parent.parent) as channel:
        yield LossyFS(channel)
