"""Where the arrays of a rank come from when it resumes."""

from collections.abc import Iterable
from typing import Literal, Protocol

from lastgood.core.errors import DamagedError
from lastgood.core.tensorfile import ArraySpec
from lastgood.store.places import Places
from lastgood.store.reader import Checkpoint

Read = Literal["each", "broadcast"]
"""How what all ranks have in common is read: by each of them, or by one that passes it on."""


_COMPANY = 3
"""From so many ranks on one machine on it is faster to read once into the page cache than for each past it."""


class ElsewhereError(Exception):
    """Another rank has failed, and will say so when the ranks say how they fared."""


class Supply(Protocol):
    """The arrays of one rank of a checkpoint. Raises DamagedError and OSError as `Checkpoint` does, and ElsewhereError
    where ranks depend on each other."""

    def find(self, names: Iterable[str]) -> dict[str, ArraySpec]:
        """What arrays these are. Reads no array."""

    def load(self, places: Places) -> None:
        """Put the bytes of arrays that were found where they belong; see `Checkpoint.load`."""


class EachReads:
    """Each rank reads what it needs itself: its own file, and of other ranks' what is stored once for all."""

    def __init__(self, checkpoint: Checkpoint, rank: int, local_ranks: int = 1) -> None:
        """`local_ranks`: how many run on this machine, which read the same at the same time."""
        self._local_ranks = local_ranks
        self._checkpoint = checkpoint
        self._rank = rank
        self._holders: dict[str, int] = {}

    def find(self, names: Iterable[str]) -> dict[str, ArraySpec]:
        missing = set(names)
        found: dict[str, ArraySpec] = {}
        for rank in [self._rank, *(r for r in range(self._checkpoint.manifest.world_size) if r != self._rank)]:
            if not missing and rank != self._rank:
                # Thousands of ranks that each read every other's part would read millions of them.
                break
            is_own = rank == self._rank
            here = missing & (
                self._checkpoint.arrays(rank).keys() if is_own else set(self._checkpoint.part(rank).shared)
            )
            if here:
                placed = self._checkpoint.arrays(rank)
                if absent := here - placed.keys():
                    raise DamagedError(f"{self._checkpoint.name}: rank {rank} lacks the array {min(absent)!r}")
                found |= {name: placed[name].spec for name in here}
                self._holders |= dict.fromkeys(here, rank)
                missing -= here
        if missing:
            raise DamagedError(f"{self._checkpoint.name} lacks the array {min(missing)!r}")
        return found

    def load(self, places: Places) -> None:
        for rank in sorted({self._holders[name] for name in places}):
            here = {name: to for name, to in places.items() if self._holders[name] == rank}
            if self._local_ranks >= _COMPANY:
                is_alone = self._checkpoint.manifest.world_size == 1
                common = set(here if is_alone else self._checkpoint.part(rank).shared).intersection(here)
                self._checkpoint.load(rank, {name: here.pop(name) for name in sorted(common)}, "cache")
            self._checkpoint.load(rank, here)
