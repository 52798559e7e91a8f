"""The state of a rank at a safe point, taken apart into what is written: arrays, and everything else."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
import xxhash

from lastgood.core import tree
from lastgood.core.errors import UnstorableError
from lastgood.core.shards import assign_owners
from lastgood.core.tensorfile import ArraySpec
from lastgood.runtime.ports import Framework, Ranks, Stateful
from lastgood.runtime.state import VALUES

Array = tuple[ArraySpec, memoryview]


class Snapshot(msgspec.Struct, frozen=True):
    """Arrays are views of the live state: the snapshot is good until the loop goes on."""

    entries: dict[str, Any]
    arrays: dict[str, Array]


NOTHING = Snapshot({}, {})


def capture(
    entries: Mapping[str, Stateful], internal: Mapping[str, object], frameworks: Mapping[str, Framework]
) -> Snapshot:
    """The state now, with entries of our own.

    Raises UnstorableError that names the place of a value that cannot be stored.
    """
    state = {**{name: entry.capture() for name, entry in entries.items()}, **internal}
    try:
        flat = tree.flatten(state, frameworks.values())
    except UnstorableError as error:
        # The user knows this entry by another name.
        what = re.sub(rf"^{re.escape(VALUES)}\b", "run.values", error.what)
        raise UnstorableError(what, safe=error.safe, remedy=error.remedy) from error
    arrays = {
        name: (ArraySpec(name, leaf.dtype, leaf.shape), frameworks[leaf.kind].buffer(leaf))
        for name, leaf in flat.arrays.items()
    }
    return Snapshot(flat.skeleton, arrays)


def owners_of_shared(arrays: Mapping[str, Array], ranks: Ranks) -> dict[str, int]:
    """Arrays that are equal on all ranks, bit for bit, with the rank that writes each. Every rank must call."""
    if ranks.world_size == 1:
        return {}
    names = sorted(arrays)
    digests: list[int] = []
    for name in names:
        spec, data = arrays[name]
        digest = xxhash.xxh3_128_digest(data, seed=0)
        description = xxhash.xxh3_64_intdigest(repr(spec).encode())
        digests += [_signed(int.from_bytes(digest[:8]) ^ description), _signed(int.from_bytes(digest[8:]))]
    same_names = ranks.equal([len(names), _signed(xxhash.xxh3_64_intdigest("\0".join(names).encode()))])
    if not names or not all(same_names):
        return {}
    same = ranks.equal(digests)
    shared = {name: arrays[name][0].nbytes for i, name in enumerate(names) if same[2 * i] and same[2 * i + 1]}
    return assign_owners(shared, ranks.world_size)


def _signed(value: int) -> int:
    """The 64 bits of an unsigned number as a signed one."""
    return value - 2**64 if value >= 2**63 else value
