"""A data file whose blocks are checked before anything of them is handed out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
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


class VerifiedFile:
    """Raises DamagedError, which names the file and the place, where a block does not fit its checksum."""

    def __init__(self, content: Content, expected: DataFile) -> None:
        self._content = content
        self._expected = expected
        self._placed: list[Placed] | None = None
        self._verified: set[int] = set()

    def arrays(self) -> list[Placed]:
        """What the header says. Reads the header alone, rounded up to blocks."""
        if self._placed is None:
            size, whole = self._expected.bytes, self._content.whole()
            self._load(self._blocks(0, min(size, 8)))
            end = tensorfile.header_bytes(bytes(whole[:8]), size, self._content.name)
            self._load(self._blocks(0, end))
            self._placed = tensorfile.parse(bytes(whole[:end]), size, self._content.name)
        return self._placed

    def read(self, names: Iterable[str]) -> dict[str, memoryview]:
        """The bytes of some arrays. They are writable and stay valid as long as they are referenced."""
        placed = {item.spec.name: item for item in self.arrays()}
        wanted = list(names)
        missing = [name for name in wanted if name not in placed]
        if missing:
            raise DamagedError(f"{self._content.name} lacks the array {missing[0]!r}")
        found = {name: placed[name] for name in wanted}
        self._load({block for item in found.values() for block in self._blocks(item.begin, item.end)})
        whole = self._content.whole()
        return {name: whole[item.begin : item.end] for name, item in found.items()}

    def problems(self) -> list[str]:
        """Blocks that fail, the first MAX_PROBLEMS of them, or a header that cannot be read. Takes no more
        memory than the header and a few pieces of blocks."""
        found: list[str] = []
        for block, is_good in _parallel(self._check, self._blocks(0, self._expected.bytes)):
            if not is_good:
                found.append(self._complaint(block))
                if len(found) == MAX_PROBLEMS:
                    return found
        if not found:
            self.arrays()
        return found

    def _load(self, blocks: Iterable[int]) -> None:
        whole = self._content.whole()

        def load(block: int) -> bool:
            begin, end = self._extent(block)
            return self._content.load(begin, end) and self._fits(block, xxhash.xxh3_64(whole[begin:end]))

        for block, is_good in _parallel(load, sorted(set(blocks) - self._verified)):
            if not is_good:
                raise DamagedError(self._complaint(block))
            self._verified.add(block)

    def _check(self, block: int) -> bool:
        digest = xxhash.xxh3_64()
        for piece in self._content.pieces(*self._extent(block)):
            digest.update(piece)
        return self._fits(block, digest)

    def _blocks(self, begin: int, end: int) -> range:
        size = self._expected.block_bytes
        return range(begin // size, -(-end // size))

    def _extent(self, block: int) -> tuple[int, int]:
        begin = block * self._expected.block_bytes
        return begin, min(begin + self._expected.block_bytes, self._expected.bytes)

    def _complaint(self, block: int) -> str:
        begin, end = self._extent(block)
        return f"{self._content.name}: bytes {begin} to {end} (block {block}) do not match their checksum"

    def _fits(self, block: int, digest: xxhash.xxh3_64) -> bool:
        return digest.hexdigest() == self._expected.xxh3[16 * block : 16 * block + 16]


def _parallel(load: Callable[[int], bool], blocks: Sequence[int]) -> Iterator[tuple[int, bool]]:
    if len(blocks) < 2:
        yield from ((block, load(block)) for block in blocks)
        return
    with ThreadPoolExecutor(READERS, thread_name_prefix="lastgood-read") as pool:
        # In portions, so that giving up early leaves little to wait for.
        for at in range(0, len(blocks), 4 * READERS):
            portion = blocks[at : at + 4 * READERS]
            yield from zip(portion, pool.map(load, portion), strict=True)
