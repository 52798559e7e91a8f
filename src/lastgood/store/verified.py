"""A data file whose blocks are checked before anything of them is handed out."""

import ctypes
import mmap
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import xxhash

from lastgood.core import tensorfile
from lastgood.core.errors import DamagedError
from lastgood.core.manifest import DataFile
from lastgood.core.tensorfile import Placed
from lastgood.store.content import Content

READERS = 4
"""Threads that read blocks of one file: more do not help one device, fewer leave it idle."""

MAX_PROBLEMS = 20
"""Pieces of damage that a verification names before it stops reading."""

Places = Mapping[str, Sequence[memoryview]]
"""Where the bytes of each array go: writable memory of its size, which may be none (then they are only checked), or
several places."""


class VerifiedFile:
    """Raises DamagedError, which names the file and the place, where a block does not fit its checksum."""

    def __init__(self, content: Content, expected: DataFile) -> None:
        self.name = content.name
        self._content = content
        self._expected = expected
        self._placed: dict[str, Placed] | None = None

    def arrays(self) -> list[Placed]:
        """What the header says, in the order of the file. Reads the header alone, rounded up to blocks."""
        if self._placed is None:
            size = self._expected.bytes
            begin = self._bytes(self._blocks(0, min(size, 8)))
            end = tensorfile.header_bytes(begin[:8], size, self.name)
            if end > len(begin):
                begin = self._bytes(self._blocks(0, end))
            self._placed = {item.spec.name: item for item in tensorfile.parse(begin[:end], size, self.name)}
        return list(self._placed.values())

    def read(self, names: Iterable[str]) -> dict[str, memoryview]:
        """The bytes of some arrays. They are writable and stay valid as long as they are referenced. Where the
        file's content is in memory they are views of that."""
        found = self._find(names)
        whole = self._content.in_memory
        if whole is not None:
            self.load(dict.fromkeys(found, ()))
            return {name: whole[item.begin : item.end] for name, item in found.items()}
        places = dict(zip(found, fresh_memory([item.spec.nbytes for item in found.values()]), strict=True))
        self.load({name: [place] for name, place in places.items()})
        return places

    def load(self, places: Places) -> None:
        """Put the bytes of arrays where they belong, each block after it has passed its check. After an error some
        places are filled and others are not."""
        work = self._work(places)

        def load(block: int) -> bool:
            begin, end = self._extent(block)
            view = self._checked(begin, end, block)
            if view is None:
                return False
            for at, target in work[block]:
                copy(target, view[at - begin : at - begin + len(target)])
            return True

        for block in _failing(load, sorted(work), 1):
            raise DamagedError(self._complaint(block))

    def problems(self) -> list[str]:
        """Blocks that fail, the first MAX_PROBLEMS of them, or a header that cannot be read. Takes no more
        memory than the header and a few blocks."""
        blocks = self._blocks(0, self._expected.bytes)
        found = _failing(lambda block: self._checked(*self._extent(block), block) is not None, blocks, MAX_PROBLEMS)
        if not found:
            self.arrays()
        return [self._complaint(block) for block in found]

    def _find(self, names: Iterable[str]) -> dict[str, Placed]:
        self.arrays()
        assert self._placed is not None
        found = {}
        for name in names:
            if name not in self._placed:
                raise DamagedError(f"{self.name} lacks the array {name!r}")
            found[name] = self._placed[name]
        return found

    def _work(self, places: Places) -> dict[int, list[tuple[int, memoryview]]]:
        """For each block that is needed, what to copy from it: from which byte of the file, to where."""
        work: dict[int, list[tuple[int, memoryview]]] = {}
        for name, item in self._find(places).items():
            if item.begin == item.end:
                continue
            for block in self._blocks(item.begin, item.end):
                begin, end = self._extent(block)
                at = max(begin, item.begin)
                targets = [place[at - item.begin : min(end, item.end) - item.begin] for place in places[name]]
                work.setdefault(block, []).extend((at, target) for target in targets)
        return work

    def _bytes(self, blocks: range) -> bytes:
        pieces = []
        for block in blocks:
            view = self._checked(*self._extent(block), block)
            if view is None:
                raise DamagedError(self._complaint(block))
            pieces.append(bytes(view))
        return b"".join(pieces)

    def _checked(self, begin: int, end: int, block: int) -> memoryview | None:
        """A block, if it passes its check, until this thread asks for another."""
        view = self._content.block(begin, end)
        if view is None or xxhash.xxh3_64_hexdigest(view) != self._expected.xxh3[16 * block : 16 * block + 16]:
            return None
        return view

    def _blocks(self, begin: int, end: int) -> range:
        size = self._expected.block_bytes
        return range(begin // size, -(-end // size))

    def _extent(self, block: int) -> tuple[int, int]:
        begin = block * self._expected.block_bytes
        return begin, min(begin + self._expected.block_bytes, self._expected.bytes)

    def _complaint(self, block: int) -> str:
        begin, end = self._extent(block)
        return f"{self.name}: bytes {begin} to {end} (block {block}) do not match their checksum"


_FRESH_ALIGNMENT = 64
"""As arrays made by NumPy and PyTorch have it, whose results may depend on it in the last bit."""


def fresh_memory(sizes: Iterable[int]) -> list[memoryview]:
    """Zeroed memory of each size, in one map that lives as long as any of it is referenced."""
    sizes = list(sizes)
    begins = [0]
    for size in sizes:
        begins.append(-(-(begins[-1] + size) // _FRESH_ALIGNMENT) * _FRESH_ALIGNMENT)
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


def _failing(is_good: Callable[[int], bool], blocks: Sequence[int], limit: int) -> list[int]:
    """The blocks for which `is_good` is false, the first `limit` of them. Calls it from several threads.

    Raises what it raises, unless a block is known to be bad: that is certain, and stays so.
    """
    if len(blocks) < 2:
        return [block for block in blocks if not is_good(block)]
    waiting = iter(blocks)
    found: list[int] = []
    is_over = False

    def work() -> None:
        nonlocal is_over
        try:
            # Blocks are taken in order and what is taken is finished, so none before a bad one is left out.
            while not is_over and (block := next(waiting, None)) is not None:
                if not is_good(block):
                    found.append(block)
                    is_over = is_over or len(found) >= limit
        except BaseException:
            is_over = True
            raise

    with ThreadPoolExecutor(READERS, thread_name_prefix="lastgood-read") as pool:
        workers = [pool.submit(work) for _ in range(min(READERS, len(blocks)))]
        try:
            errors = [worker.exception() for worker in workers]
        finally:
            is_over = True
    for error in errors:
        if error is not None and not found:
            raise error
    return sorted(found)[:limit]
