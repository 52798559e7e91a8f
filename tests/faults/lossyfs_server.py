"""The process that serves a `lossyfs`: what FUSE calls, and the test's requests."""

import errno
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable
from typing import Any

import mfusepy

from faults.disk import ROOT, Disk, Flush, Names, Note, Operation, Truncate, Write
from faults.lossyfs import KILL, NOTE_ATTRIBUTE
from lastgood.drill.filesystem import mounting
from lastgood.drill.filesystem.table import FaultTable


def serve(mountpoint: str, descriptor: str) -> None:
    operations = Operations()
    mounting.serve(operations.requests(), mountpoint, int(descriptor))
    # Nothing is cached by the kernel, so that a reset is seen at once and every operation arrives here.
    mfusepy.FUSE(
        operations,
        mountpoint,
        foreground=True,
        nothreads=True,
        direct_io=True,
        hard_remove=True,
        attr_timeout=0,
        entry_timeout=0,
        negative_timeout=0,
        fsname="lossyfs",
    )


class Operations:
    """What FUSE calls. Paths are absolute within the mount; `fh` is the inode number of an open file."""

    use_ns = True

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._table = FaultTable()
        self._has_links = True
        self._start(Disk())

    def _start(self, disk: Disk) -> None:
        self._disk = disk
        self._log: list[Operation] = []
        self._next = max([ROOT, *disk.files, *disk.directories]) + 1
        self._modes: dict[int, int] = {}
        self._table.heal()

    def requests(self) -> dict[str, Callable[..., object]]:
        """What the test may ask, answered between two operations."""

        def have_links(yes: bool) -> None:
            self._has_links = yes

        def between(answer: Callable[..., object]) -> Callable[..., object]:
            def locked(*arguments: object) -> object:
                with self._lock:
                    return answer(*arguments)

            return locked

        answers = {
            "reset": self._start,
            "disk": lambda: Disk.copy(self._disk),
            "log": lambda: list(self._log),
            "counts": self._table.counts,
            "fail": self._table.fail,
            "heal": self._table.heal,
            "slow": self._table.slow,
            "links": have_links,
        }
        return {name: between(answer) for name, answer in answers.items()}

    # -- helpers

    def _enter(self, operation: str, changes: bool = False) -> None:
        """Count the operation, and fail it if that is its turn."""
        error = self._table.enter(operation, changes=changes)
        if error == KILL:
            os.kill(mfusepy.fuse_get_context()[2], signal.SIGKILL)
            error = errno.EINTR
        if error:
            raise OSError(error, os.strerror(error))

    def _do(self, operation: Operation) -> None:
        self._log.append(operation)
        self._disk.apply(operation)

    def _find(self, path: str) -> int:
        inode = ROOT
        for name in path.split("/")[1:] if path != "/" else []:
            names = self._disk.directories.get(inode)
            if names is None:
                raise OSError(errno.ENOTDIR, path)
            if name not in names:
                raise OSError(errno.ENOENT, path)
            inode = names[name]
        return inode

    def _parent(self, path: str) -> tuple[int, str]:
        directory, _, name = path.rpartition("/")
        return self._find(directory or "/"), name

    def _new(self, path: str, mode: int, is_directory: bool) -> int:
        parent, name = self._parent(path)
        if name in self._disk.directories[parent]:
            raise OSError(errno.EEXIST, path)
        inode, self._next = self._next, self._next + 1
        self._modes[inode] = mode & 0o7777
        self._do(Names(parent, ((name, inode),), is_directory))
        return inode

    # -- called by FUSE

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        with self._lock:
            self._enter("getattr")
            inode = fh or self._find(path)
            if inode in self._disk.directories:
                kind, size, mode = stat.S_IFDIR, 0, 0o755
            else:
                kind, size, mode = stat.S_IFREG, len(self._disk.files[inode]), 0o644
            return {
                "st_mode": kind | self._modes.get(inode, mode),
                "st_nlink": 1,
                "st_size": size,
                "st_ino": inode,
                "st_uid": os.getuid(),
                "st_gid": os.getgid(),
            }

    def readdir(self, path: str, fh: int) -> list[str]:
        with self._lock:
            self._enter("readdir")
            return [".", "..", *self._disk.directories[self._find(path)]]

    def opendir(self, path: str) -> int:
        with self._lock:
            self._enter("opendir")
            return self._find(path)

    def open(self, path: str, flags: int) -> int:
        with self._lock:
            self._enter("open")
            inode = self._find(path)
            if flags & os.O_TRUNC:
                self._do(Truncate(inode, 0))
            return inode

    def create(self, path: str, mode: int, flags: int) -> int:
        with self._lock:
            self._enter("create", changes=True)
            return self._new(path, mode, is_directory=False)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        with self._lock:
            self._enter("read")
            return bytes(self._disk.files[fh][offset : offset + size])

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        with self._lock:
            self._enter("write", changes=True)
            self._do(Write(fh, offset, bytes(data)))
            return len(data)

    def truncate(self, path: str, length: int, fh: int | None = None) -> None:
        with self._lock:
            self._enter("truncate", changes=True)
            self._do(Truncate(fh or self._find(path), length))

    def fsync(self, path: str, datasync: int, fh: int) -> None:
        with self._lock:
            self._enter("fsync", changes=True)
            self._do(Flush(fh))

    def fsyncdir(self, path: str, datasync: int, fh: int) -> None:
        with self._lock:
            self._enter("fsyncdir", changes=True)
            self._do(Flush(fh))

    def mkdir(self, path: str, mode: int) -> None:
        with self._lock:
            self._enter("mkdir", changes=True)
            self._new(path, mode, is_directory=True)

    def unlink(self, path: str) -> None:
        with self._lock:
            self._enter("unlink", changes=True)
            parent, name = self._parent(path)
            if self._find(path) in self._disk.directories:
                raise OSError(errno.EISDIR, path)
            self._do(Names(parent, ((name, None),)))

    def rmdir(self, path: str) -> None:
        with self._lock:
            self._enter("rmdir", changes=True)
            parent, name = self._parent(path)
            if self._disk.directories[self._find(path)]:
                raise OSError(errno.ENOTEMPTY, path)
            self._do(Names(parent, ((name, None),)))

    def rename(self, old: str, new: str) -> None:
        with self._lock:
            self._enter("rename", changes=True)
            inode = self._find(old)
            (source, name), (target, new_name) = self._parent(old), self._parent(new)
            is_directory = inode in self._disk.directories
            if source == target:
                self._do(Names(source, ((new_name, inode), (name, None)), is_directory))
            else:
                self._do(Names(target, ((new_name, inode),), is_directory))
                self._do(Names(source, ((name, None),)))

    def link(self, target: str, source: str) -> None:
        with self._lock:
            self._enter("link", changes=True)
            if not self._has_links:
                raise OSError(errno.EPERM, source)
            parent, name = self._parent(target)
            if name in self._disk.directories[parent]:
                raise OSError(errno.EEXIST, target)
            self._do(Names(parent, ((name, self._find(source)),)))

    def chmod(self, path: str, mode: int) -> None:
        with self._lock:
            self._modes[self._find(path)] = stat.S_IMODE(mode)

    def setxattr(self, path: str, name: str, value: bytes, options: int, position: int = 0) -> None:
        with self._lock:
            if name != NOTE_ATTRIBUTE:
                raise OSError(errno.ENOTSUP, name)
            self._log.append(Note(bytes(value).decode()))

    def statfs(self, path: str) -> dict[str, int]:
        return {"f_bsize": 4096, "f_blocks": 2**20, "f_bavail": 2**19, "f_bfree": 2**19, "f_namemax": 255}


if __name__ == "__main__":
    serve(*sys.argv[1:])
