"""The process that serves a file system which passes everything on to the directory below it, faults aside.

    python -m lastgood.drill.filesystem.passing MOUNTPOINT DESCRIPTOR

The directory that it is mounted on is the one that it passes to: what was there before is seen, and what is written stays
there when it is unmounted.
"""

import errno
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import mfusepy  # type: ignore[import-untyped]

from lastgood.drill.filesystem import mounting
from lastgood.drill.filesystem.changes import ChangeLog
from lastgood.drill.filesystem.table import FaultTable

_STAT = ("st_mode", "st_nlink", "st_size", "st_ino", "st_uid", "st_gid", "st_blocks", "st_rdev")
_STATVFS = ("f_bsize", "f_frsize", "f_blocks", "f_bavail", "f_bfree", "f_files", "f_ffree", "f_favail", "f_namemax")
_NOT_PASSED_ON = os.O_APPEND | os.O_DIRECT | os.O_CREAT | os.O_EXCL
"""The kernel has seen to these before we are asked: it says the offset, and checks names."""

_HIDDEN = ".fuse_hidden"


class Passing:
    """What FUSE calls. Paths are absolute within the mount; `file.fh` is the descriptor of an open file below.

    What is deleted while it is open goes on under a hidden name until it is closed, as on NFS: libfuse sees to that.
    """

    use_ns = True

    def __init__(self, below: int, table: FaultTable, changes: ChangeLog) -> None:
        # Through a descriptor that was opened before mounting: its path leads below what is mounted there.
        self._root = f"/proc/self/fd/{below}"
        self._faults = table
        self._no_faults = FaultTable()
        self._changes = changes
        self._failed_reads: dict[tuple[int, int], int] = {}
        self._spared_pid = 0

    def spare(self, pid: int) -> None:
        """A process that finds no fault, and whose calls are not counted; 0: none."""
        self._spared_pid = pid

    # -- helpers

    @property
    def _table(self) -> FaultTable:
        # The kernel tells which thread it is that asks.
        asks = f"/proc/{self._spared_pid}/task/{mfusepy.fuse_get_context()[2]}"
        return self._no_faults if self._spared_pid and os.path.exists(asks) else self._faults

    def _at(self, path: str) -> str:
        return self._root + path

    def _enter(self, operation: str, *, changes: bool = False) -> None:
        error = self._table.enter(operation, changes=changes)
        if error:
            raise OSError(error, os.strerror(error))

    def _note(self, operation: str, path: str, other: str = "", *, offset: int = 0, size: int = 0) -> None:
        """A change is about to take effect: the last moment at which whoever asks for it can be killed."""
        pid = mfusepy.fuse_get_context()[2]
        names = path.removeprefix("/"), other.removeprefix("/")
        if self._changes.is_deadly(pid, operation, names[0], other=names[1], offset=offset, size=size):
            # The kernel's own threads have no number here.
            if pid > 1:
                os.kill(pid, signal.SIGKILL)
            raise OSError(errno.EINTR, os.strerror(errno.EINTR))

    def _need_block(self) -> None:
        """A new directory takes a block of the disk; a new file takes none before it is written to."""
        if self._table.left_bytes() == 0:
            self._table.take(1)

    def _give_back(self, path: str) -> None:
        """A file is about to lose a name."""
        try:
            status = os.lstat(self._at(path))
        except OSError:
            return
        if status.st_nlink == 1:
            self._table.give_back(status.st_size)

    # -- looking

    def getattr(self, path: str, file: Any = None) -> dict[str, Any]:
        self._enter("getattr")
        status = os.lstat(self._at(path)) if file is None else os.fstat(file.fh)
        times = {f"st_{name}": getattr(status, f"st_{name}_ns") for name in ("atime", "mtime", "ctime")}
        return {name: getattr(status, name) for name in _STAT} | times

    def readdir(self, path: str, directory: Any) -> list[str]:
        self._enter("readdir")
        return [".", "..", *(name for name in os.listdir(self._at(path)) if not name.startswith(_HIDDEN))]

    def readlink(self, path: str) -> str:
        self._enter("readlink")
        return os.readlink(self._at(path))

    def access(self, path: str, amode: int) -> None:
        if not os.access(self._at(path), amode):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    def statfs(self, path: str) -> dict[str, int]:
        status = os.statvfs(self._at(path))
        answer = {name: getattr(status, name) for name in _STATVFS}
        left = self._table.left_bytes()
        if left is not None:
            answer["f_bavail"] = answer["f_bfree"] = left // (status.f_frsize or status.f_bsize)
        return answer

    # -- files

    def open(self, path: str, file: Any) -> int:
        self._enter("open")
        if file.flags & os.O_TRUNC:
            self._note("empty", path)
            self._give_back(path)
        self._take_in(file, os.open(self._at(path), file.flags & ~_NOT_PASSED_ON))
        return 0

    def create(self, path: str, mode: int, file: Any) -> int:
        self._enter("create", changes=True)
        self._note("create", path)
        self._take_in(file, os.open(self._at(path), file.flags & ~(os.O_APPEND | os.O_DIRECT) | os.O_CREAT, mode))
        return 0

    def _take_in(self, file: Any, descriptor: int) -> None:
        file.fh = descriptor
        # Without the page cache, which asks for each half page by itself, writing is forty times as fast. It cannot be
        # done without for files that are mapped into memory: those are opened for reading, too.
        file.direct_io = file.flags & os.O_ACCMODE == os.O_WRONLY

    def read(self, path: str, size: int, offset: int, file: Any) -> bytes:
        # The kernel reads ahead first, and forgets the error of that: only the one that it then gets itself is told.
        if error_again := self._failed_reads.pop((file.fh, offset), 0):
            raise OSError(error_again, os.strerror(error_again))
        try:
            self._enter("read")
        except OSError as error:
            self._failed_reads[file.fh, offset] = error.errno or errno.EIO
            raise
        data = os.pread(file.fh, size, offset)
        self._table.move(len(data))
        return data

    def write(self, path: str, data: bytes, offset: int, file: Any) -> int:
        """As a disk does: what fits is written, and the next write finds it full."""
        self._enter("write", changes=True)
        self._note("write", path, offset=offset, size=len(data))
        growth = offset + len(data) - max(os.fstat(file.fh).st_size, offset)
        fits = len(data) - growth + self._table.take(growth) if growth > 0 else len(data)
        self._table.move(fits)
        return os.pwrite(file.fh, data[:fits], offset)

    def truncate(self, path: str, length: int, file: Any = None) -> None:
        self._enter("truncate", changes=True)
        self._note("truncate", path, size=length)
        size = (os.lstat(self._at(path)) if file is None else os.fstat(file.fh)).st_size
        os.truncate(self._at(path) if file is None else file.fh, length)
        self._table.give_back(max(size - length, 0))

    def fsync(self, path: str, datasync: int, file: Any) -> None:
        self._enter("fsync", changes=True)
        (os.fdatasync if datasync else os.fsync)(file.fh)

    def flush(self, path: str, file: Any) -> None:
        self._enter("flush")

    def release(self, path: str, file: Any) -> None:
        os.close(file.fh)

    # -- names

    def fsyncdir(self, path: str, datasync: int, directory: Any) -> None:
        self._enter("fsyncdir", changes=True)
        descriptor = os.open(self._at(path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def mkdir(self, path: str, mode: int) -> None:
        self._enter("mkdir", changes=True)
        self._note("mkdir", path)
        self._need_block()
        os.mkdir(self._at(path), mode)

    def mknod(self, path: str, mode: int, dev: int) -> None:
        self._enter("create", changes=True)
        self._note("create", path)
        os.mknod(self._at(path), mode, dev)

    def unlink(self, path: str) -> None:
        self._enter("unlink", changes=True)
        self._note("unlink", path)
        self._give_back(path)
        os.unlink(self._at(path))

    def rmdir(self, path: str) -> None:
        self._enter("rmdir", changes=True)
        self._note("rmdir", path)
        os.rmdir(self._at(path))

    def rename(self, old: str, new: str) -> None:
        self._enter("rename", changes=True)
        self._note("rename", old, new)
        self._give_back(new)
        os.rename(self._at(old), self._at(new))

    def link(self, target: str, source: str) -> None:
        self._enter("link", changes=True)
        self._note("link", source, target)
        os.link(self._at(source), self._at(target))

    def symlink(self, target: str, source: str) -> None:
        self._enter("symlink", changes=True)
        self._note("link", source, target)
        os.symlink(source, self._at(target))

    def chmod(self, path: str, mode: int) -> None:
        self._enter("chmod", changes=True)
        os.chmod(self._at(path), mode)

    def chown(self, path: str, uid: int, gid: int) -> None:
        self._enter("chown", changes=True)
        os.lchown(self._at(path), uid, gid)

    def utimens(self, path: str, times: tuple[int, int]) -> None:
        self._enter("utimens", changes=True)
        os.utime(self._at(path), ns=times, follow_symlinks=False)


def main(mountpoint: str, descriptor: str) -> None:
    below = os.open(mountpoint, os.O_RDONLY | os.O_DIRECTORY)
    os.umask(0)
    table, changes = FaultTable(), ChangeLog()
    passing = Passing(below, table, changes)
    requests: dict[str, Callable[..., object]] = {
        "fail": table.fail,
        "slow": table.slow,
        "fill": table.fill,
        "heal": table.heal,
        "counts": table.counts,
        "was_felt": table.was_felt,
        "spare": passing.spare,
        "watch": changes.watch,
        "changes": changes.changes,
        "struck": changes.struck,
    }
    mounting.serve(requests, mountpoint, int(descriptor))
    # Names and sizes are asked for each time: whoever looks below the mount changes them, too.
    mfusepy.FUSE(
        passing,
        mountpoint,
        foreground=True,
        raw_fi=True,
        attr_timeout=0,
        entry_timeout=0,
        negative_timeout=0,
        fsname="lastgood-drill",
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
