"""The state of one rank in a checkpoint: its skeletons, and in whose file each of its arrays lies."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from lastgood.core.errors import DamagedError, NoSuchJobError
from lastgood.core.tensorfile import Placed
from lastgood.core.tree import array_names
from lastgood.store.reader import Checkpoint


class Held(NamedTuple):
    """An array, and the rank whose file holds it."""

    rank: int
    placed: Placed
    is_shared: bool
    """Every rank's state refers to it; it is stored once."""


class RankState(NamedTuple):
    rank: int
    entries: dict[str, Any]
    arrays: dict[str, Held]
    """By name, in the order in which the skeletons refer to them."""


def rank_state(checkpoint: Checkpoint, rank: int, wanted: Iterable[str] | None = None) -> RankState:
    """The state of `rank`: all of it, or the `wanted` entries.

    Reads headers and parts, no array. Raises DamagedError where they do not pass their checks or an array
    is nowhere, NoSuchJobError for an entry or a rank that the checkpoint does not have.
    """
    world_size = checkpoint.manifest.world_size
    if not 0 <= rank < world_size:
        raise NoSuchJobError(
            f"{checkpoint.name} has no rank {rank}", remedy=f"it was written by {world_size} rank(s), counted from 0"
        )
    there = checkpoint.part(rank).entries
    names = list(there) if wanted is None else list(dict.fromkeys(wanted))
    for name in names:
        if name not in there:
            raise NoSuchJobError(f"{checkpoint.name} has no entry {name!r}", remedy=f"it has: {', '.join(there)}")
    entries = {name: there[name] for name in names}
    return RankState(rank, entries, _holders(checkpoint, rank, array_names_of(entries, checkpoint.name)))


def array_names_of(entries: dict[str, Any], checkpoint: str) -> list[str]:
    """The arrays that some skeletons refer to, each once."""
    found: dict[str, None] = {}
    for entry, skeleton in entries.items():
        try:
            found.update(dict.fromkeys(array_names(skeleton)))
        except DamagedError as error:
            raise DamagedError(f"{checkpoint}, entry {entry!r}: {error.what}") from error
    return list(found)


def _holders(checkpoint: Checkpoint, rank: int, names: list[str]) -> dict[str, Held]:
    files = {rank: checkpoint.arrays(rank)}
    own, own_shared = files[rank], set(checkpoint.part(rank).shared)
    others: dict[str, int] = {}
    if any(name not in own for name in names):
        for other in range(checkpoint.manifest.world_size):
            others.update(dict.fromkeys(checkpoint.part(other).shared, other))
    holders = {}
    for name in names:
        holder = rank if name in own else others.get(name)
        if holder is not None and holder not in files:
            files[holder] = checkpoint.arrays(holder)
        placed = None if holder is None else files[holder].get(name)
        if holder is None or placed is None:
            raise DamagedError(f"{checkpoint.name}: the array {name!r} of rank {rank} is in no file")
        holders[name] = Held(holder, placed, holder != rank or name in own_shared)
    return holders
