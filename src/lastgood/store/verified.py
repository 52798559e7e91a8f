"""A data file whose blocks are checked before anything of them is handed out."""

import os
from collections.abc import Callable, Iterable, Sequence
from queue import SimpleQueue

import xxhash

from lastgood.core import tensorfile
from lastgood.core.errors import DamagedError
from lastgood.core.manifest import DataFile
from lastgood.core.tensorfile import Placed
from lastgood.store.content import Content
from lastgood.store.places import Places, Portion, Slice, chunk_bytes, copy, fresh_memory
from lastgood.store.threads import Team, each

READERS = 4 if len(os.sched_getaffinity(0)) >= 4 else 2
"""Threads that read blocks of one file: more do not help one device, fewer leave it idle. On few cores four get in each
other's way: a sixth slower than two."""

_NOT_TAKEN_YET = memoryview(b"")
"""Memory for a block that nobody has needed so far."""

MAX_PROBLEMS = 20
"""Pieces of damage that a verification names before it stops reading."""


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
            arrays = tensorfile.parse(self._header(), self._expected.bytes, self.name)
            self._placed = {item.spec.name: item for item in arrays}
        return list(self._placed.values())

    def _header(self) -> bytes:
        size = self._expected.bytes
        begin = self._bytes(self._blocks(0, min(size, 8)))
        end = tensorfile.header_bytes(begin[:8], size, self.name)
        return (begin if end <= len(begin) else self._bytes(self._blocks(0, end)))[:end]

    def portion(self, names: Iterable[str]) -> Portion:
        """Where some arrays lie."""
        self.arrays()
        assert self._placed is not None
        found = []
        for name in names:
            if name not in self._placed:
                raise DamagedError(f"{self.name} lacks the array {name!r}")
            found.append(self._placed[name])
        return Portion(self._expected.block_bytes, found)

    def read(self, names: Iterable[str]) -> dict[str, memoryview]:
        """The bytes of some arrays. They are writable and stay valid as long as they are referenced. Where the
        file's content is in memory they are views of that."""
        found = {item.spec.name: item for item in self.portion(names).arrays}
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
        work = self.portion(places).blocks()

        def load(block: int) -> bool:
            view = self._checked(block)
            if view is None:
                return False
            at = self._extent(block)[0]
            for piece in work[block]:
                for place in places[piece.name]:
                    copy(place[piece.at : piece.at + piece.end - piece.begin], view[piece.begin - at : piece.end - at])
            return True

        for block in _failing(load, list(work), 1):
            raise DamagedError(self._complaint(block))

    def stream(self, portion: Portion, send: Callable[[memoryview], None], skip: int = 0) -> None:
        """Call `send` with each chunk of a portion, in order, but for the first `skip`. A chunk is good until `send`
        returns. Some blocks are read ahead; memory is taken for these alone."""
        work = list(portion.blocks().items())[skip:]
        free: SimpleQueue[memoryview | None] = SimpleQueue()
        for _ in range(2 * READERS):
            free.put(_NOT_TAKEN_YET)
        loaded: list[SimpleQueue[memoryview | Exception]] = [SimpleQueue() for _ in work]

        def load(block: int, slices: list[Slice], buffer: memoryview) -> memoryview:
            view = self._checked(block)
            if view is None:
                raise DamagedError(self._complaint(block))
            if buffer is _NOT_TAKEN_YET:
                buffer = memoryview(bytearray(portion.block_bytes))
            begin, at = 0, self._extent(block)[0]
            for piece in slices:
                end = begin + piece.end - piece.begin
                copy(buffer[begin:end], view[piece.begin - at : piece.end - at])
                begin = end
            return buffer

        numbers = iter(range(len(work)))

        def load_next(_: object) -> bool:
            # Memory first: who has a number and waits for memory waits for ever, if what comes after it has it all.
            buffer = free.get()
            if buffer is None:
                # That there is no more is to be seen by the others, too.
                free.put(None)
                return True
            number = next(numbers)
            try:
                loaded[number].put(load(*work[number], buffer))
            except Exception as error:  # noqa: BLE001 - raised in its turn
                loaded[number].put(error)
            return False

        with Team(work, load_next, min(READERS, len(work)), "lastgood-read") as team:
            try:
                has_readers = team.start()
                for (_, slices), chunk in zip(work, loaded, strict=True):
                    if not has_readers:
                        load_next(None)
                    found = chunk.get()
                    if isinstance(found, Exception):
                        raise found
                    send(found[: chunk_bytes(slices)])
                    free.put(found)
            finally:
                # No reader is to wait for memory that nobody gives back.
                free.put(None)

    def problems(self) -> list[str]:
        """Blocks that fail, the first MAX_PROBLEMS of them, or a header that cannot be read. Takes no more
        memory than the header and a few blocks."""
        blocks = self._blocks(0, self._expected.bytes)
        found = _failing(lambda block: self._checked(block) is not None, blocks, MAX_PROBLEMS)
        if not found:
            tensorfile.check(self._header(), self._expected.bytes, self.name)
        return [self._complaint(block) for block in found]

    def _bytes(self, blocks: range) -> bytes:
        pieces = []
        for block in blocks:
            view = self._checked(block)
            if view is None:
                raise DamagedError(self._complaint(block))
            pieces.append(bytes(view))
        return b"".join(pieces)

    def _checked(self, block: int) -> memoryview | None:
        """A block, if it passes its check, until this thread asks for another."""
        view = self._content.block(*self._extent(block))
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


def _failing(is_good: Callable[[int], bool], blocks: Sequence[int], limit: int) -> list[int]:
    """The blocks for which `is_good` is false, the first `limit` of them. Calls it from several threads.

    Raises what it raises, unless a block is known to be bad: that is certain, and stays so.
    """
    if len(blocks) < 2:
        return [block for block in blocks if not is_good(block)]
    found: list[int] = []
    errors: list[Exception] = []

    def work(block: int) -> bool:
        try:
            if not is_good(block):
                found.append(block)
        except Exception as error:  # noqa: BLE001 - raised below
            errors.append(error)
        return bool(errors) or len(found) >= limit

    # Blocks are taken in order and what is taken is finished, so none before a bad one is left out.
    each(blocks, work, READERS, "lastgood-read")
    if errors and not found:
        raise errors[0]
    return sorted(found)[:limit]
