"""One runner per job: an advisory lock on the job's directory.

The lock is the friendly answer for two launchers on machines that share the lock's file system. It is
not what protects the data: that is the fence (store.attempts), which also holds where locks do not.
"""

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path

from lastgood.core import layout
from lastgood.core.errors import JobBusyError
from lastgood.store import durable
from lastgood.store.jobdir import JobDirectory


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

    Where the file system has no locks, a lock is returned that locks nothing.
    """
    path = job.path / layout.LOCK_FILE
    with durable.explained("lock", path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
            return JobLock(path, fd, is_held=False)
        holder = os.pread(fd, 200, 0).decode(errors="replace").strip() or "another process"
        os.close(fd)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise JobBusyError(
                f"the job in {job.path} is being run by {holder}",
                safe="nothing was changed",
                remedy="wait for it, end it, or use another --job directory",
            ) from error
        raise durable.explain(error, "lock", path) from error
    with suppress(OSError):
        # Who holds it is a courtesy to the reader: a full disk must not keep anybody from the lock.
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"process {os.getpid()} on {os.uname().nodename}\n".encode(), 0)
    return JobLock(path, fd, is_held=True)
