"""Where the bytes of arrays go: which of them lie in which block of a file, and memory to put them into."""

import ctypes
import mmap
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lastgood.core.tensorfile import Placed

Places = Mapping[str, Sequence[memoryview]]
"""For each array by name writable memory of its size: none (then its bytes are only checked), or several places."""


class Slice(NamedTuple):
    """The part of an array that lies in one block: from byte `at` of the array, from `begin` to `end` of the file."""

    name: str
    at: int
    begin: int
    end: int


class Portion(NamedTuple):
    """Some arrays of one file. They are passed on in chunks: of each block the slices that belong to them."""

    block_bytes: int
    arrays: list[Placed]

    def blocks(self) -> dict[int, list[Slice]]:
        """The blocks that hold any of it, in order."""
        found: dict[int, list[Slice]] = {}
        for item in sorted(self.arrays, key=lambda item: item.begin):
            for block in range(item.begin // self.block_bytes, -(-item.end // self.block_bytes)):
                begin, end = max(item.begin, block * self.block_bytes), min(item.end, (block + 1) * self.block_bytes)
                if begin < end:
                    found.setdefault(block, []).append(Slice(item.spec.name, begin - item.begin, begin, end))
        return found


def chunk_bytes(slices: list[Slice]) -> int:
    return sum(piece.end - piece.begin for piece in slices)


def scatter(chunk: memoryview, slices: list[Slice], places: Places) -> None:
    """Put each slice of a chunk, which holds them one after another, where it belongs."""
    begin = 0
    for piece in slices:
        end = begin + piece.end - piece.begin
        for place in places.get(piece.name, ()):
            copy(place[piece.at : piece.at + end - begin], chunk[begin:end])
        begin = end


_ALIGNMENT = 64
"""As arrays made by NumPy and PyTorch have it, whose results may depend on it in the last bit."""


def fresh_memory(sizes: Iterable[int]) -> list[memoryview]:
    """Zeroed memory of each size, in one map that lives as long as any of it is referenced."""
    sizes = list(sizes)
    begins = [0]
    for size in sizes:
        begins.append(-(-(begins[-1] + size) // _ALIGNMENT) * _ALIGNMENT)
    if begins[-1] == 0:
        return [memoryview(b"") for _ in sizes]
    # Private, because huge pages for shared memory are off on most machines. Touching memory by small pages takes
    # longer than reading into it.
    mapped = mmap.mmap(-1, begins[-1], mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    mapped.madvise(mmap.MADV_HUGEPAGE)
    whole = memoryview(mapped)
    return [whole[begin : begin + size] for begin, size in zip(begins[:-1], sizes, strict=True)]


_LONG_BYTES = 2**16


def copy(target: memoryview, source: memoryview) -> None:
    """Copy bytes; other threads run meanwhile if it takes long. Both must be writable."""
    if len(source) < _LONG_BYTES:
        target[:] = source
        return
    assert len(target) == len(source)
    to, of = (ctypes.addressof(ctypes.c_char.from_buffer(view)) for view in (target, source))
    ctypes.memmove(to, of, len(source))
