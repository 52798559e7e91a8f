"""Resuming where storage is slow and ranks are many: what they have in common is read once and passed on.

A file is read by the rank that wrote it (or, with fewer ranks, by one of those that are there). It says what of the
file belongs to all, and then passes it on in chunks, each checked against the checkpoint by the reader and against
what was sent by the others. Memory is taken for a few chunks.
"""

import errno
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
import xxhash

from lastgood.core.errors import DamagedError
from lastgood.core.tensorfile import ArraySpec, Placed
from lastgood.runtime.ports import Ranks
from lastgood.runtime.supply import ElsewhereError
from lastgood.store.places import Places, Portion, Slice, chunk_bytes, copy, scatter
from lastgood.store.reader import Checkpoint

_HEAD_BYTES = 16
_GOOD, _FAILED = 0, 1


class _Told(msgspec.Struct, frozen=True):
    """What the reader of a file says of it."""

    portions: list[tuple[int, list[tuple[str, str, tuple[int, ...], int, int]]]] = []
    damage: str = ""
    trouble: str = ""
    """Why it could not be read, which says nothing about its content."""


class _Held(NamedTuple):
    """What one rank has written and all need."""

    holder: int
    reader: int
    portions: list[Portion]

    def chunks(self) -> Iterator[list[Slice]]:
        for portion in self.portions:
            yield from portion.blocks().values()


class OneReads:
    """See `Supply`. All ranks must do the same with it, and say to each other how it went before and after."""

    def __init__(self, checkpoint: Checkpoint, rank: int, ranks: Ranks) -> None:
        self._checkpoint = checkpoint
        self._rank = rank
        self._ranks = ranks
        self._held: list[_Held] = []
        self._shared: set[str] = set()

    def find(self, names: Iterable[str]) -> dict[str, ArraySpec]:
        wanted = set(names)
        found: dict[str, ArraySpec] = {}
        for holder in range(self._checkpoint.manifest.world_size):
            reader = holder % self._ranks.world_size
            is_reader = reader == self._ranks.rank
            told = self._ranks.tell(_encode(self._describe(holder, wanted)) if is_reader else None, reader)
            held = _Held(holder, reader, _portions(told, self._checkpoint.name))
            self._held.append(held)
            found |= {item.spec.name: item.spec for portion in held.portions for item in portion.arrays}
        self._shared = set(found)
        if missing := wanted - found.keys():
            own = self._checkpoint.arrays(self._rank)
            if absent := missing - own.keys():
                raise DamagedError(f"{self._checkpoint.name} lacks the array {min(absent)!r}")
            found |= {name: own[name].spec for name in missing}
        return {name: found[name] for name in wanted}

    def load(self, places: Places) -> None:
        arrived = True
        for held in self._held:
            if held.reader == self._ranks.rank:
                self._pass_on(held, places)
            else:
                arrived = self._receive(held, places) and arrived
        if not arrived:
            raise OSError(errno.EIO, f"{self._checkpoint.name}: what another rank sent did not arrive as it was sent")
        self._checkpoint.load(self._rank, {name: to for name, to in places.items() if name not in self._shared})

    def _describe(self, holder: int, wanted: set[str]) -> _Told:
        try:
            part = self._checkpoint.part(holder)
            # What a single rank has saved serves any number of ranks.
            is_all_shared = self._checkpoint.manifest.world_size == 1
            shared = self._checkpoint.arrays(holder) if is_all_shared else part.shared
            portions = self._checkpoint.portions(holder, sorted(wanted.intersection(shared)))
        except DamagedError as error:
            return _Told(damage=error.what)
        except OSError as error:
            return _Told(trouble=error.strerror or str(error))
        return _Told([(p.block_bytes, [(*item.spec, item.begin, item.end) for item in p.arrays]) for p in portions])

    def _pass_on(self, held: _Held, places: Places) -> None:
        chunks = held.chunks()
        message = _Message(held)

        def send(chunk: memoryview) -> None:
            slices = next(chunks)
            view = message.of(slices)
            copy(view[_HEAD_BYTES:], chunk)
            view[:_HEAD_BYTES] = _GOOD.to_bytes(8, "little") + xxhash.xxh3_64_digest(chunk)
            self._ranks.broadcast(view, held.reader)
            scatter(chunk, slices, places)

        try:
            names = [item.spec.name for portion in held.portions for item in portion.arrays]
            self._checkpoint.stream(held.holder, names, send)
        except (DamagedError, OSError):
            # The others wait for a chunk: it tells them to give up.
            view = message.of(next(chunks))
            view[:_HEAD_BYTES] = _FAILED.to_bytes(_HEAD_BYTES, "little")
            self._ranks.broadcast(view, held.reader)
            raise

    def _receive(self, held: _Held, places: Places) -> bool:
        """Take what is passed on; False if it did not arrive as it was sent. Raises ElsewhereError if there is no more."""
        message = _Message(held)
        arrived = True
        for slices in held.chunks():
            view = message.of(slices)
            self._ranks.broadcast(view, held.reader)
            chunk = view[_HEAD_BYTES:]
            if view[:8] == _FAILED.to_bytes(8, "little"):
                raise ElsewhereError
            if xxhash.xxh3_64_digest(chunk) != view[8:_HEAD_BYTES]:
                # The others do not know, and go on: so must this rank, up to where all say how it went.
                arrived = False
            scatter(chunk, slices, places)
        return arrived


class _Message:
    """Memory for one chunk with what is said about it."""

    def __init__(self, held: _Held) -> None:
        largest = max((chunk_bytes(slices) for slices in held.chunks()), default=0)
        self._buffer = memoryview(bytearray(_HEAD_BYTES + largest))

    def of(self, slices: list[Slice]) -> memoryview:
        return self._buffer[: _HEAD_BYTES + chunk_bytes(slices)]


def _encode(told: _Told) -> str:
    return msgspec.json.encode(told).decode()


def _portions(text: str, name: str) -> list[Portion]:
    """What the reader of a file has said; its failure is raised on every rank."""
    told: Any = msgspec.json.decode(text, type=_Told)
    if told.damage:
        raise DamagedError(told.damage)
    if told.trouble:
        raise OSError(errno.EIO, f"{name}: {told.trouble}")
    return [
        Portion(
            block_bytes,
            [Placed(ArraySpec(array, dtype, shape), begin, end) for array, dtype, shape, begin, end in arrays],
        )
        for block_bytes, arrays in told.portions
    ]
