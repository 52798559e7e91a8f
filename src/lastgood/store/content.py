"""Where the bytes of a data file are: in storage, or in memory that somebody lends."""

import mmap
import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from lastgood.core.errors import DamagedError
from lastgood.store import durable

_PIECE_BYTES = 2**20

_POPULATE_READ = 22
"""MADV_POPULATE_READ (Linux 5.14), which Python has no name for."""


class Content(Protocol):
    """The bytes of one data file, not yet checked. Methods may be called by several threads."""

    name: str
    """For messages."""

    def whole(self) -> memoryview:
        """Memory with a place for every byte; what it holds counts only after `load`. It is writable, stays
        valid as long as it is referenced, and nobody else sees what is written to it."""

    def load(self, begin: int, end: int) -> bool:
        """Bring these bytes into their place in `whole()`; False if the content ends before."""

    def pieces(self, begin: int, end: int) -> Iterator[memoryview]:
        """These bytes one piece after another, each valid until the next; less if the content ends before."""


class StoredContent:
    """A file. It is read into anonymous memory of its size, made when it is first needed; pages that are
    not read are never touched. Raises OSError wherever it cannot be read."""

    def __init__(self, path: Path, expected_bytes: int) -> None:
        self.name = f"{path.parent.name}/{path.name}"
        self._bytes = expected_bytes
        self._whole: memoryview | None = None
        self._fd = durable.open_regular(path)
        if (size := os.fstat(self._fd).st_size) != expected_bytes:
            raise DamagedError(f"{self.name} has {size} bytes; {expected_bytes} were written")

    def __del__(self) -> None:
        if (fd := getattr(self, "_fd", -1)) >= 0:
            os.close(fd)

    def whole(self) -> memoryview:
        if self._whole is None:
            self._whole = memoryview(mmap.mmap(-1, self._bytes))
        return self._whole

    def load(self, begin: int, end: int) -> bool:
        return self._fill(self.whole()[begin:end], begin)

    def pieces(self, begin: int, end: int) -> Iterator[memoryview]:
        piece = memoryview(bytearray(min(end - begin, _PIECE_BYTES)))
        while begin < end and self._fill(part := piece[: end - begin], begin):
            yield part
            begin += len(part)

    def _fill(self, view: memoryview, at: int) -> bool:
        while view:
            count = os.preadv(self._fd, [view], at)
            if count == 0:
                return False
            view, at = view[count:], at + count
        return True


class Loan:
    """Memory that holds a data file from its first byte, mapped for as long as anybody refers to it.

    The map is private: what is written to it goes into pages of this process. What its owner writes does
    show through, so the owner must wait for `on_release`, which is called when the last view is gone (in
    whatever thread that happens; not when the process ends). It must not raise.
    """

    def __init__(self, fd: int, on_release: Callable[[], None] | None = None) -> None:
        """Takes over the descriptor. Raises OSError if it cannot be mapped; it is closed even then."""
        try:
            self.bytes = os.fstat(fd).st_size
            self._map = mmap.mmap(fd, self.bytes, mmap.MAP_PRIVATE) if self.bytes else None
        finally:
            os.close(fd)
        if on_release is not None:
            weakref.finalize(self._map or self, on_release).atexit = False

    def whole(self) -> memoryview:
        return memoryview(self._map or b"")

    def populate(self, begin: int, end: int) -> None:
        """Map these pages at once, which takes a fraction of the time of meeting them one by one."""
        begin -= begin % mmap.PAGESIZE
        # Older kernels do not know how; then the pages are met one by one.
        with suppress(OSError):
            if self._map is not None:
                self._map.madvise(_POPULATE_READ, begin, end - begin)


class LentContent:
    """A data file in lent memory, which may be longer than the file."""

    def __init__(self, loan: Loan, name: str, expected_bytes: int) -> None:
        self.name = f"{name} in memory"
        self._loan = loan
        if loan.bytes < expected_bytes:
            raise DamagedError(f"{self.name} has {loan.bytes} bytes; {expected_bytes} were written")
        self._whole = loan.whole()[:expected_bytes]

    def whole(self) -> memoryview:
        return self._whole

    def load(self, begin: int, end: int) -> bool:
        self._loan.populate(begin, end)
        return True

    def pieces(self, begin: int, end: int) -> Iterator[memoryview]:
        yield self._whole[begin:end]
