"""Memory that a rank and the keeper share: anonymous (memfd), without a name, gone with its last holder.

A rank makes it, lays its snapshot out in it exactly as the file will be, and gives the keeper a copy of the
descriptor. It cannot be made smaller (a seal), so that nobody's death or mistake takes memory from under the other.
"""

import ctypes
import fcntl
import mmap
import os
import threading
from contextlib import suppress
from functools import partial

from lastgood.store.threads import Beside

HUGE_PAGE_BYTES = 2 * 2**20
_TOUCH_BYTES = 4 * 2**20
"""Pages are touched in pieces of this size. While one is, the process can neither get memory nor give it back."""

_MADV_POPULATE_WRITE = 23
_F_ADD_SEALS, _F_GET_SEALS, _F_SEAL_SHRINK = 1033, 1034, 0x0002
_libc = ctypes.CDLL(None, use_errno=True)


class Arena:
    """A piece of shared memory, mapped. `capacity` is in bytes."""

    def __init__(self, capacity: int, fd: int | None = None) -> None:
        """Make one, or map the one in a descriptor, which is closed with it. Raises OSError."""
        self.capacity = max(1, -(-capacity // HUGE_PAGE_BYTES)) * HUGE_PAGE_BYTES if fd is None else capacity
        self.fd = os.memfd_create("lastgood", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING) if fd is None else fd
        try:
            if fd is None:
                os.ftruncate(self.fd, self.capacity)
                fcntl.fcntl(self.fd, _F_ADD_SEALS, _F_SEAL_SHRINK)
            self._map = mmap.mmap(self.fd, self.capacity)
        except (OSError, ValueError) as error:
            os.close(self.fd)
            raise OSError(f"no shared memory of {self.capacity} bytes: {error}") from error
        self.view = memoryview(self._map)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self._is_closed = threading.Event()
        self._toucher: Beside | None = None
        # Not MADV_DONTFORK: a forked child would use the addresses for something else, and unmap that when it drops
        # this object. It closes its copy instead.
        with suppress(OSError):
            self._map.madvise(mmap.MADV_HUGEPAGE)

    def touch_in_background(self, after: "Arena | None" = None) -> None:
        """Have the kernel give us the pages now, when `after` has its own: the first touch costs ten times the copy."""
        self._toucher = Beside(partial(self._touch, after), "lastgood-touch")
        self._toucher.start()

    def await_touch(self) -> None:
        """Wait for the pages, if they are on their way: that is quicker than to touch them by writing."""
        if (toucher := self._toucher) is not None:
            toucher.join()

    def stop_touching(self) -> None:
        self._is_closed.set()
        self.await_touch()

    def _touch(self, after: "Arena | None") -> None:
        if after is not None:
            after.await_touch()
        for at in range(0, self.capacity, _TOUCH_BYTES):
            if self._is_closed.is_set():
                return
            size = min(_TOUCH_BYTES, self.capacity - at)
            with suppress(OSError):
                # The larger part of the work is done here, where it is in nobody's way.
                os.posix_fallocate(self.fd, at, size)
            if _populate(self.address + at, size) != 0:
                # An old kernel: then the first copy touches them.
                return

    def close(self) -> None:
        """Let go of it; calling it twice is fine. Also in a child that was forked, which holds a copy."""
        if self.fd < 0:
            return
        self.stop_touching()
        self._toucher = None
        os.close(self.fd)
        self.fd = -1
        self.view.release()
        with suppress(BufferError):
            # Somebody still has a view: the memory goes with that.
            self._map.close()


def _populate(address: int, size: int) -> int:
    return int(_libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), _MADV_POPULATE_WRITE))


def is_sound(fd: int, capacity: int) -> bool:
    """True if a descriptor is shared memory of at least that capacity that cannot shrink."""
    try:
        seals = fcntl.fcntl(fd, _F_GET_SEALS)
        return bool(seals & _F_SEAL_SHRINK) and os.fstat(fd).st_size >= capacity > 0
    except OSError:
        return False
