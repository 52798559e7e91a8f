"""The directory on a node in which ranks keep their heartbeats, and reading them."""

import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lastgood.core import heartbeat
from lastgood.core.accounting import Record
from lastgood.core.heartbeat import Heartbeat
from lastgood.store.durable import explained

_PREFIX = "lastgood-heartbeats-"
_MEMORY = Path("/dev/shm")
_TOLD = "told"
_SETTLED_S = 60.0
"""A directory younger than this may belong to a launcher that has not locked it yet."""


@contextmanager
def heartbeat_directory() -> Iterator[Path]:
    """A new directory that only this user can enter; removed at the end.

    In memory rather than on a disk where possible, so that a heartbeat never causes a write to a device. It
    is locked while its launcher lives, so that those which killed launchers left can be told and are removed.
    """
    _sweep()
    directory = _make_directory()
    held = HeldDirectory(directory)
    try:
        yield directory
    finally:
        held.close()


def share_directory(path: Path) -> "HeldDirectory":
    """The launcher's directory, on another node: it is made there, unless that node is on the same host.

    Raises OSError, also for one that others could enter.
    """
    if not path.name.startswith(_PREFIX):
        raise OSError(f"{path} is no directory for heartbeats")
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    held = HeldDirectory(path)
    status = os.lstat(path)
    if status.st_uid != os.geteuid() or not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o077:
        held.let_go()
        raise PermissionError(f"{path} belongs to somebody else, or others may enter it")
    return held


class HeldDirectory:
    """Keeps a directory of heartbeats from being taken for one that was left behind."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with suppress(OSError):
            fcntl.flock(self._lock, fcntl.LOCK_SH)

    def close(self) -> None:
        """Let go of it; whoever is the last on this host removes it."""
        with suppress(OSError):
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(self.path)
        self.let_go()

    def let_go(self) -> None:
        os.close(self._lock)


def _make_directory() -> Path:
    with suppress(OSError):
        return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_MEMORY))
    with explained("make a directory for heartbeats in", tempfile.gettempdir(), safe="the command was not started"):
        return Path(tempfile.mkdtemp(prefix=_PREFIX))


def _sweep() -> None:
    """Remove the directories of this user's launchers that are gone."""
    for parent in {_MEMORY, Path(tempfile.gettempdir())}:
        with suppress(OSError):
            for entry in list(os.scandir(parent)):
                if entry.name.startswith(_PREFIX) and entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                    _remove_if_left(Path(entry.path))


def _remove_if_left(directory: Path) -> None:
    with suppress(OSError):
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if time.time() - os.fstat(fd).st_mtime > _SETTLED_S:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(directory)
        finally:
            os.close(fd)


def _remove(directory: Path) -> None:
    """The files of ranks and agents, and the directory; anything else in it is not ours, and keeps it."""
    with suppress(OSError):
        for name in os.listdir(directory):
            if name.startswith(("rank-", "agent-", _TOLD)):
                (directory / name).unlink(missing_ok=True)
        directory.rmdir()


def directory_of(record: Record) -> Path | None:
    """Where the ranks of an attempt keep their heartbeats, if it ran on this machine."""
    launched = record.first("launched")
    directory = launched.data.get("heartbeats") if launched else None
    if launched is None or not isinstance(directory, str) or launched.data.get("host") != os.uname().nodename:
        return None
    path = Path(directory)
    # The journal could say anything: only what can be a directory of ours is read.
    is_ours = path.name.startswith(_PREFIX) and path.parent in (_MEMORY, Path(tempfile.gettempdir()))
    return path if is_ours and not path.is_symlink() else None


def has_ranks_in(directory: Path) -> bool:
    """True if some rank has made its file there, whether or not it has sent a heartbeat yet."""
    with suppress(OSError):
        return any(name.startswith("rank-") for name in os.listdir(directory))
    return False


def read_heartbeats(directory: Path | None) -> dict[int, Heartbeat]:
    """The heartbeat of each rank that has one; empty if the directory is gone."""
    found: dict[int, Heartbeat] = {}
    if directory is None:
        return found
    with suppress(OSError):
        for entry in os.scandir(directory):
            rank = entry.name.removeprefix("rank-")
            if rank == entry.name or not rank.isdigit():
                continue
            with suppress(OSError):
                beat = heartbeat.decode(Path(entry.path).read_bytes()[: heartbeat.RECORD_BYTES])
                if beat is not None:
                    found[int(rank)] = beat
    return found


def leave_told(directory: Path, beat: Heartbeat) -> None:
    """The launcher's word for a program that keeps no heartbeat: one write, so that a reader finds all of it."""
    with suppress(OSError):
        fd = os.open(directory / _TOLD, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(fd, heartbeat.encode(beat), 0)
        finally:
            os.close(fd)


def read_told(directory: Path | None) -> Heartbeat | None:
    """None if the launcher has left no word."""
    if directory is None:
        return None
    with suppress(OSError):
        return heartbeat.decode((directory / _TOLD).read_bytes()[: heartbeat.RECORD_BYTES])
    return None
