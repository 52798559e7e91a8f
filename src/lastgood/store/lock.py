"""One runner per job: an advisory lock on the job's directory.

The lock is the friendly answer for two launchers on machines that share the lock's file system. It is
not what protects the data: that is the fence (store.attempts), which also holds where locks do not.
"""

import errno
import fcntl
import os
import re
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from lastgood.core import layout
from lastgood.core.errors import JobBusyError
from lastgood.store import durable
from lastgood.store.jobdir import JobDirectory
from lastgood.store.processes import birth_of, is_alive

_PATIENCE_S = 0.3
_HOLDER = re.compile(r"process (\d+) on (\S+)(?:\nbegan at tick (\d+))?")


class JobLock:
    """Holds the lock until closed, or until the last process that inherited its descriptor has ended."""

    def __init__(self, path: Path, fd: int, is_held: bool) -> None:
        self.path = path
        self.fd = fd
        self.is_held = is_held
        """False where the file system has no locks: then somebody else may be running the job."""

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> "JobLock":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def lock_job(job: JobDirectory) -> JobLock:
    """Take the job's lock, or raise JobBusyError that says who holds it.

    Where the file system has no locks, a lock is returned that locks nothing. Who only looks whether a job
    runs (`holder`) holds the lock for a moment, so that a taken one is tried again for a moment.
    """
    path = job.path / layout.LOCK_FILE
    with durable.explained("lock", path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        _take(fd)
    except OSError as error:
        if error.errno in (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
            return JobLock(path, fd, is_held=False)
        who = os.pread(fd, 200, 0).decode(errors="replace").partition("\n")[0].strip() or "another process"
        os.close(fd)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            if who == _myself():
                raise JobBusyError(
                    f"this program has a Run for the job in {job.path} already",
                    safe="nothing was changed",
                    remedy="make one Run for a job, or call close() on the first",
                ) from error
            raise JobBusyError(
                f"the job in {job.path} is being run by {who}",
                safe="nothing was changed",
                remedy="wait for it, end it, or use another --job directory",
            ) from error
        raise durable.explain(error, "lock", path) from error
    with suppress(OSError):
        # Who holds it is a courtesy to the reader: a full disk must not keep anybody from the lock.
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{_myself()}\nbegan at tick {birth_of(os.getpid()) or ''}\n".encode(), 0)
    return JobLock(path, fd, is_held=True)


def without_lock(job: JobDirectory) -> JobLock:
    """For one who knows that whoever holds the lock has no right to the job any more; the fence keeps that one out."""
    path = job.path / layout.LOCK_FILE
    with durable.explained("open", path):
        return JobLock(path, os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC), is_held=False)


def _myself() -> str:
    return f"process {os.getpid()} on {os.uname().nodename}"


def _take(fd: int) -> None:
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)
        else:
            return


class Holder(msgspec.Struct, frozen=True):
    """Who took a job's lock. It may have died since, and left the lock to the command that it had started."""

    pid: int
    host: str
    birth: str = ""
    """When it began, as store.processes has it; empty if that is not known."""

    @property
    def is_dead(self) -> bool:
        """True only if it is known to be dead: it ran on this machine, and is no process any more."""
        return self.host == os.uname().nodename and not is_alive(self.pid, self.birth)


def holder(job: JobDirectory) -> Holder | None:
    """Who holds the job's lock; None if nobody does, or if locks cannot tell. Raises OSError."""
    try:
        fd = os.open(job.path / layout.LOCK_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        match = _HOLDER.match(os.pread(fd, 200, 0).decode(errors="replace"))
        return Holder(int(match[1]), match[2], match[3] or "") if match else Holder(0, "?")
    except OSError:
        return None
    finally:
        os.close(fd)
    return None
