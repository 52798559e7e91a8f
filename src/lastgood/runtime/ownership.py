"""Which arrays all ranks have in common, and who writes them."""

from collections.abc import Mapping

import msgspec
import xxhash

from lastgood.core.shards import assign_owners
from lastgood.runtime.ports import Ranks
from lastgood.runtime.snapshot import Array, Snapshot


class Portion(msgspec.Struct, frozen=True):
    """What this rank writes of a snapshot."""

    mine: list[Array]
    shared: list[str]
    """Those of them that are the same on all ranks, and that nobody else writes."""
    digests: dict[str, bytes]
    """XXH3-128 of arrays, as far as it was needed."""


def portion_of(snapshot: Snapshot, ranks: Ranks) -> Portion:
    """This rank's portion. Every rank must call."""
    digests: dict[str, bytes] = {}
    owners = _owners_of_shared(snapshot.arrays, ranks, digests)
    mine = [array for name, array in snapshot.arrays.items() if owners.get(name, ranks.rank) == ranks.rank]
    return Portion(mine, [name for name, owner in owners.items() if owner == ranks.rank], digests)


def _owners_of_shared(arrays: Mapping[str, Array], ranks: Ranks, digests: dict[str, bytes]) -> dict[str, int]:
    """Arrays that are equal on all ranks, bit for bit, with the rank that writes each. Fills in `digests`."""
    if ranks.world_size == 1:
        return {}
    names = sorted(arrays)
    told: list[int] = []
    for name in names:
        array = arrays[name]
        digest = digests[name] = xxhash.xxh3_128_digest(array.data)
        description = xxhash.xxh3_64_intdigest(repr(array.spec).encode())
        told += [_signed(int.from_bytes(digest[:8]) ^ description), _signed(int.from_bytes(digest[8:]))]
    same_names = ranks.equal([len(names), _signed(xxhash.xxh3_64_intdigest("\0".join(names).encode()))])
    if not names or not all(same_names):
        return {}
    same = ranks.equal(told)
    shared = {name: arrays[name].spec.nbytes for i, name in enumerate(names) if same[2 * i] and same[2 * i + 1]}
    return assign_owners(shared, ranks.world_size)


def _signed(value: int) -> int:
    """The 64 bits of an unsigned number as a signed one."""
    return value - 2**64 if value >= 2**63 else value
