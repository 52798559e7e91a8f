"""Writing a large file in blocks: checksums on the way, past the page cache where that is possible.

Direct I/O (O_DIRECT) takes the data from our memory straight to the device: nothing is evicted from the
page cache, and the flush at the end has little left to do. It wants memory, offsets and lengths that are
multiples of the device's block, so a block goes through an aligned buffer unless it is aligned already.
Where the file system refuses it (tmpfs, some network and user-space ones) writes are buffered.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import threading
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

import xxhash

from lastgood.store.gentle import FullSpeed, Pacer
from lastgood.store.threads import each

DIRECT_FROM_BYTES = 2**20
"""Smaller files are written the ordinary way, by the calling thread."""

_ALIGNMENT = 4096


def write_pieces(
    fd: int, pieces: Sequence[memoryview], block_bytes: int, pacer: Pacer | None = None
) -> tuple[int, str]:
    """Write the concatenation of `pieces` to an empty file; (its size, the blocks' checksums joined).

    Does not flush. The pieces must not change meanwhile. `pacer` makes it gentle. Raises OSError.
    """
    return write_source(fd, _Concatenation(pieces), block_bytes, pacer)


class Source(Protocol):
    """Where the bytes of a file come from, in order."""

    size: int

    def views(self, begin: int, end: int) -> list[memoryview]:
        """The memory from `begin` to `end`, valid until this thread asks for more."""


def write_source(fd: int, content: Source, block_bytes: int, pacer: Pacer | None = None) -> tuple[int, str]:
    """As `write_pieces`. The digests are of what was written, whatever the source says."""
    pacer = pacer or FullSpeed()
    blocks = range(-(-content.size // block_bytes))
    if content.size < DIRECT_FROM_BYTES:
        pacer.take(content.size)
        digests = [_write_buffered(fd, content, block, block_bytes) for block in blocks]
        return content.size, "".join(digests)
    writer = _DirectWriter(fd, content, block_bytes, pacer)
    digests = [""] * len(blocks)

    def write(block: int) -> None:
        digests[block] = writer.write(block)

    each(blocks, write, pacer.threads, "lastgood-write", pacer.enter)
    writer.finish()
    return content.size, "".join(digests)


def digest_pieces(pieces: Sequence[memoryview], block_bytes: int) -> tuple[int, str]:
    """What `write_pieces` would return, without writing."""
    content = _Concatenation(pieces)
    digests = []
    for begin in range(0, content.size, block_bytes):
        digest = xxhash.xxh3_64()
        for view in content.views(begin, min(begin + block_bytes, content.size)):
            digest.update(view)
        digests.append(digest.hexdigest())
    return content.size, "".join(digests)


class _Concatenation:
    """Several pieces of memory seen as one."""

    def __init__(self, pieces: Sequence[memoryview]) -> None:
        self._pieces = [piece.cast("B") for piece in pieces if piece.nbytes]
        self._begins = [0]
        for piece in self._pieces:
            self._begins.append(self._begins[-1] + len(piece))
        self.size = self._begins[-1]

    def views(self, begin: int, end: int) -> list[memoryview]:
        """The memory from `begin` to `end`, without copying."""
        found = []
        index = bisect_right(self._begins, begin) - 1
        while begin < end:
            offset = begin - self._begins[index]
            view = self._pieces[index][offset : offset + end - begin]
            found.append(view)
            begin += len(view)
            index += 1
        return found


class _DirectWriter:
    def __init__(self, fd: int, content: Source, block_bytes: int, pacer: Pacer) -> None:
        self._pacer = pacer
        self._fd = fd
        self._content = content
        self._block_bytes = block_bytes
        self._buffers = threading.local()
        _set_direct(fd, is_on=True)

    def write(self, block: int) -> str:
        begin = block * self._block_bytes
        end = min(begin + self._block_bytes, self._content.size)
        self._pacer.take(end - begin)
        views = self._content.views(begin, end)
        view = views[0] if len(views) == 1 and _is_aligned(views[0]) else self._gathered(views, end - begin)
        digest = xxhash.xxh3_64_hexdigest(view[: end - begin])
        try:
            _write_all(self._fd, view, begin)
        except OSError as error:
            # Some file systems accept the flag and then refuse the write. Other threads may meet the same
            # at this moment; switching off twice does no harm.
            if error.errno != errno.EINVAL:
                raise
            _set_direct(self._fd, is_on=False)
            _write_all(self._fd, view, begin)
        return digest

    def finish(self) -> None:
        """Cut what the last block was padded with."""
        _set_direct(self._fd, is_on=False)
        os.ftruncate(self._fd, self._content.size)

    def _gathered(self, views: list[memoryview], size: int) -> memoryview:
        buffer: memoryview | None = getattr(self._buffers, "buffer", None)
        if buffer is None:
            buffer = self._buffers.buffer = memoryview(mmap.mmap(-1, self._block_bytes))
        at = 0
        for view in views:
            buffer[at : at + len(view)] = view
            at += len(view)
        padded = -(-size // _ALIGNMENT) * _ALIGNMENT
        buffer[size:padded] = bytes(padded - size)
        return buffer[:padded]


def _write_buffered(fd: int, content: Source, block: int, block_bytes: int) -> str:
    begin = block * block_bytes
    views = content.views(begin, min(begin + block_bytes, content.size))
    view = views[0] if len(views) == 1 else memoryview(b"".join(views))
    _write_all(fd, view, begin)
    return xxhash.xxh3_64_hexdigest(view)


def _write_all(fd: int, view: memoryview, at: int) -> None:
    while view:
        count = os.pwrite(fd, view, at)
        view, at = view[count:], at + count


def _is_aligned(view: memoryview) -> bool:
    if view.readonly or len(view) % _ALIGNMENT:
        return False
    return ctypes.addressof(ctypes.c_char.from_buffer(view)) % _ALIGNMENT == 0


def _set_direct(fd: int, *, is_on: bool) -> None:
    """Switch direct I/O on or off; where the file system has none, nothing changes."""
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    with suppress(OSError):
        fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_DIRECT if is_on else flags & ~os.O_DIRECT)
