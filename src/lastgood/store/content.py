"""Where the bytes of a data file are: in storage, or in memory that somebody lends."""

import ctypes
import errno
import fcntl
import mmap
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal, Protocol

from lastgood.core.errors import DamagedError
from lastgood.store import durable

_ALIGNMENT = 4096

_DIRECT_FROM_BYTES = 2**20
"""Smaller files are read the ordinary way."""

_POPULATE_READ = 22
"""MADV_POPULATE_READ (Linux 5.14), which Python has no name for."""


Way = Literal["fast", "device", "cache"]
"""How a file is read: as it is fastest for one process; from the device, whatever is cached; or into the page cache,
because other processes of this machine read the same and should find it there."""


class Content(Protocol):
    """The bytes of one data file, not yet checked. Methods may be called by several threads."""

    name: str
    """For messages."""

    @property
    def in_memory(self) -> memoryview | None:
        """All of it, where it is in memory: writable, and nobody else sees what is written to it."""

    def block(self, begin: int, end: int) -> memoryview | None:
        """These bytes, valid until this thread asks for others; None if the content ends before."""


class StoredContent:
    """A file. It is read past the page cache (O_DIRECT) into a buffer of each thread: fresh memory takes longer to
    touch than a fast device takes to fill it, and what others have in the page cache stays there.

    A file that is in the page cache already is read from there, unless the device is meant. So is one whose file
    system refuses direct reads. Raises OSError wherever it cannot be read.
    """

    in_memory = None

    def __init__(self, path: Path, expected_bytes: int, way: Way = "fast") -> None:
        self.name = f"{path.parent.name}/{path.name}"
        self._buffers = threading.local()
        self._fd = durable.open_regular(path)
        if (size := os.fstat(self._fd).st_size) != expected_bytes:
            raise DamagedError(f"{self.name} has {size} bytes; {expected_bytes} were written")
        self._is_direct = size >= _DIRECT_FROM_BYTES and (
            way == "device" or (way == "fast" and not _is_cached(self._fd, size))
        )
        if self._is_direct:
            self._set_direct(is_on=True)

    def __del__(self) -> None:
        if (fd := getattr(self, "_fd", -1)) >= 0:
            os.close(fd)

    def block(self, begin: int, end: int) -> memoryview | None:
        # Direct reads want memory, places and lengths that are multiples of the device's block.
        first = begin - begin % _ALIGNMENT
        buffer = self._buffer(_aligned(end) - first)
        count = 0
        while count < end - first:
            more = self._read(buffer[count:], first + count)
            if more == 0:
                return None
            count += more
        return buffer[begin - first : end - first]

    def _buffer(self, size: int) -> memoryview:
        """This thread's, which is used again and again: it is touched once, and stays in the processor's cache."""
        buffer: memoryview | None = getattr(self._buffers, "buffer", None)
        if buffer is None or len(buffer) < size:
            buffer = self._buffers.buffer = memoryview(mmap.mmap(-1, size))
        return buffer[:size]

    def _read(self, view: memoryview, at: int) -> int:
        try:
            return os.preadv(self._fd, [view], at)
        except OSError as error:
            # Some file systems accept the flag and then refuse the read. Other threads may meet the same at
            # this moment; switching off twice does no harm.
            if error.errno != errno.EINVAL or not self._is_direct:
                raise
            self._set_direct(is_on=False)
            return os.preadv(self._fd, [view], at)

    def _set_direct(self, *, is_on: bool) -> None:
        flags = fcntl.fcntl(self._fd, fcntl.F_GETFL)
        with suppress(OSError):
            fcntl.fcntl(self._fd, fcntl.F_SETFL, flags | os.O_DIRECT if is_on else flags & ~os.O_DIRECT)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


_SAMPLES = 16
_SAMPLE_BYTES = 2**18


def _is_cached(fd: int, size: int) -> bool:
    """True if most of the file is in the page cache, judged by samples. (For files that this user may not write to
    the kernel says so of every page; they are read through the cache, which is slower and nothing worse.)"""
    pages = _SAMPLE_BYTES // mmap.PAGESIZE
    found = 0
    for sample in range(_SAMPLES):
        at = (size - _SAMPLE_BYTES) * sample // (_SAMPLES - 1)
        mapped = mmap.mmap(fd, _SAMPLE_BYTES, mmap.MAP_PRIVATE, offset=at - at % mmap.ALLOCATIONGRANULARITY)
        states = (ctypes.c_ubyte * pages)()
        start = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
        if _libc.mincore(ctypes.c_void_p(start), ctypes.c_size_t(_SAMPLE_BYTES), states):
            return False
        found += sum(state & 1 for state in states)
    return 2 * found > _SAMPLES * pages


_libc = ctypes.CDLL(None)


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
        self.in_memory: memoryview = loan.whole()[:expected_bytes]

    def block(self, begin: int, end: int) -> memoryview | None:
        self._loan.populate(begin, end)
        return self.in_memory[begin:end]
