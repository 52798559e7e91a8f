"""A directory that behaves as a disk which fills up, fails or becomes slow, for as long as it is told to.

    with FaultyDisk(directory) as disk:
        disk.fill(left_bytes=10_000)
        disk.fail("fsync", errno.EIO, nth=2)
        disk.heal()

The directory is the same before, meanwhile and afterwards; only what is asked of it meanwhile goes through a FUSE file
system of ours.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from lastgood.drill.filesystem import mounting
from lastgood.drill.filesystem.changes import Change
from lastgood.drill.filesystem.mounting import Channel
from lastgood.drill.filesystem.table import Failure

SERVER = ("-m", "lastgood.drill.filesystem.passing")


class FaultyDisk:
    """Mounted between `open` and `close`. Raises LastgoodError where it cannot be mounted."""

    def __init__(self, path: Path, *, spared_pid: int = 0) -> None:
        """`spared_pid`: a process that finds the disk as it is, and whose calls do not count."""
        self.path = path
        self._spared_pid = spared_pid
        self._stack = ExitStack()
        self._channel: Channel | None = None

    def __enter__(self) -> "FaultyDisk":
        self.open()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def open(self) -> None:
        if self._channel is None:
            self.path.mkdir(parents=True, exist_ok=True)
            self._channel = self._stack.enter_context(mounting.mounted(SERVER, self.path))
            self._ask("spare", self._spared_pid)

    def close(self) -> None:
        """Unmount it, also while it is used. May be called again."""
        self._channel = None
        self._stack.close()

    def fill(self, left_bytes: int = 0) -> int:
        """ENOSPC once so many more bytes are used; free space is shown accordingly. The fault's number, for `was_felt`."""
        return int(self._ask("fill", left_bytes))

    def fail(self, operation: str, error: int, *, nth: int = 1, count: int = 1) -> int:
        """Answer calls of that name with an error, from the nth on, counted from now. The fault's number."""
        return int(self._ask("fail", Failure(operation, error, nth, count)))

    def slow(self, delay_s: float = 0.0, *, bytes_per_s: float = 0.0) -> int:
        """Each change takes that much longer; reads and writes have that bandwidth together. The fault's number."""
        return int(self._ask("slow", delay_s, bytes_per_s))

    def heal(self) -> None:
        """As if nothing had been: no errors, no delay, all the space that there is."""
        self._ask("heal")

    def counts(self) -> dict[str, int]:
        """How often each call was asked for since it was mounted, or healed."""
        return dict(self._ask("counts"))

    def was_felt(self, fault: int) -> bool:
        """A call was refused, or held back, by the fault of that number."""
        return bool(self._ask("was_felt", fault))

    def watch(self, patterns: Sequence[str] = ("*",), *, killed_from: int = 0) -> None:
        """From now on, note changes of paths that match. Whoever asks for the `killed_from`-th of them is killed right
        before it takes effect, and so is who asks for another after it."""
        self._ask("watch", tuple(patterns), killed_from)

    def changes(self) -> list[Change]:
        """Those since `watch`."""
        changes: list[Change] = self._ask("changes")
        return changes

    def struck(self) -> Change | None:
        """The change before which somebody was killed."""
        struck: Change | None = self._ask("struck")
        return struck

    def arm(self, change: Change, nth: int, patterns: Sequence[str]) -> None:
        """Have whoever asks for the n-th matching change killed, which is `change` in another run."""
        self.watch(patterns, killed_from=nth)

    def _ask(self, *request: object) -> Any:
        assert self._channel is not None, "it is not mounted"
        return self._channel.ask(*request)
