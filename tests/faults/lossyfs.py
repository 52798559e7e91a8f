"""A file system in memory, by FUSE, that records what is asked of it and fails when told to.

    with mounted(tmp_path / "mnt") as fs:
        ...                                       # use fs.path like any directory
        fs.fail("fsync", errno.EIO, nth=2)        # the second fsync from now on fails
        fs.log()                                  # operations since the last reset, see `disk`

It runs in a process of its own: a process that waits for a file system that it serves itself hangs.
A program on it can leave a note in the log with `leave_note(fs.path, "committed 20")`.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any, NamedTuple

from faults.disk import Disk, Operation

NOTE_ATTRIBUTE = "user.note"
_START_LIMIT_S = 20.0
KILL = -1
"""As the error of a fault: the process that asks is killed, before its operation takes effect."""


class Fault(NamedTuple):
    operation: str
    """Name of a method of `lossyfs_server.Operations`, or "change" for any that changes or flushes something."""
    error: int
    nth: int
    """Which one fails, counted from when the fault was set."""
    count: int
    """How many fail from there on."""


def leave_note(path: Path | str, text: str) -> None:
    """Note something between the operations of this process, in the log of the file system of `path`."""
    os.setxattr(path, NOTE_ATTRIBUTE, text.encode())


class LossyFS:
    """A mounted file system, as a test sees it."""

    def __init__(self, path: Path, connection: Connection) -> None:
        self.path = path
        self._connection = connection

    def _ask(self, *request: object) -> Any:
        self._connection.send(request)
        return self._connection.recv()

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
        self._ask("fail", Fault(operation, error, nth, count))

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
    try:
        import mfusepy  # noqa: F401
    except (ImportError, OSError):
        return False
    return os.access("/dev/fuse", os.R_OK | os.W_OK)


@contextmanager
def mounted(path: Path) -> Iterator[LossyFS]:
    """Mount an empty one on a new directory; unmounted, and its process ended, on leaving."""
    path.mkdir(parents=True)
    # Names of sockets are short; a test's directory may not be.
    address = f"\0lossyfs-{os.getpid()}-{os.urandom(6).hex()}"
    with Listener(address, "AF_UNIX") as listener:
        server = subprocess.Popen(
            [sys.executable, "-m", "faults.lossyfs_server", str(path), address[1:]], cwd=Path(__file__).parent.parent
        )
        try:
            _await_mount(path, server)
            with listener.accept() as connection:
                yield LossyFS(path, connection)
        finally:
            subprocess.run(["fusermount3", "-u", "-z", str(path)], check=False, capture_output=True)
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _await_mount(path: Path, server: "subprocess.Popen[bytes]") -> None:
    limit = time.monotonic() + _START_LIMIT_S
    while not os.path.ismount(path):
        assert server.poll() is None and time.monotonic() < limit, "the file system was not mounted"
        time.sleep(0.005)
