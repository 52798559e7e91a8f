"""The directory on this node in which ranks keep their heartbeats, and reading them."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lastgood.core import heartbeat
from lastgood.core.accounting import Record
from lastgood.core.heartbeat import Heartbeat
from lastgood.store.durable import explained

_PREFIX = "lastgood-"
_MEMORY = Path("/dev/shm")


@contextmanager
def heartbeat_directory() -> Iterator[Path]:
    """A new directory that only this user can enter; removed at the end.

    In memory rather than on a disk where possible, so that a heartbeat never causes a write to a device.
    """
    directory = _make_directory()
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _make_directory() -> Path:
    with suppress(OSError):
        return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_MEMORY))
    with explained("make a directory for heartbeats in", tempfile.gettempdir(), safe="the command was not started"):
        return Path(tempfile.mkdtemp(prefix=_PREFIX))


def directory_of(record: Record) -> Path | None:
    """Where the ranks of an attempt keep their heartbeats, if it ran on this machine."""
    launched = record.first("launched")
    directory = launched.data.get("heartbeats") if launched else None
    if launched is None or not isinstance(directory, str) or launched.data.get("host") != os.uname().nodename:
        return None
    path = Path(directory)
    # The journal could say anything: only what can be a directory of ours is touched.
    is_ours = path.name.startswith(_PREFIX) and path.parent in (_MEMORY, Path(tempfile.gettempdir()))
    return path if is_ours and not path.is_symlink() else None


def sweep_heartbeats(record: Record) -> None:
    """Remove what a killed launcher left. Nobody of that attempt may be running any more."""
    directory = directory_of(record)
    if directory is not None:
        shutil.rmtree(directory, ignore_errors=True)


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
