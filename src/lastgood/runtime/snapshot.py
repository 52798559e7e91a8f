"""The state of a rank at a safe point, taken apart into what is written: arrays, and everything else."""

import ctypes
import gc
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
import xxhash

from lastgood.core import tree
from lastgood.core.errors import UnstorableError
from lastgood.core.shards import assign_owners
from lastgood.core.tensorfile import ArraySpec
from lastgood.core.tree import ArrayLeaf
from lastgood.runtime.ports import Framework, Ranks, Stateful
from lastgood.runtime.state import VALUES


class Array(msgspec.Struct, frozen=True):
    """An array of the live state: good until the loop goes on."""

    spec: ArraySpec
    leaf: ArrayLeaf
    framework: Framework

    @property
    def data(self) -> memoryview:
        """Its bytes in C order, on the host; a view of the live array where that is possible."""
        if self.leaf.address:
            return memory_at(self.leaf.address, self.spec.nbytes)
        return self.framework.buffer(self.leaf)


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
    with _no_collection():
        state = {**{name: entry.capture() for name, entry in entries.items()}, **internal}
        try:
            flat = tree.flatten(state, frameworks.values())
        except UnstorableError as error:
            # The user knows this entry by another name.
            what = re.sub(rf"^{re.escape(VALUES)}\b", "run.values", error.what)
            raise UnstorableError(what, safe=error.safe, remedy=error.remedy) from error
        arrays = {
            name: Array(ArraySpec(name, leaf.dtype, leaf.shape), leaf, frameworks[leaf.kind])
            for name, leaf in flat.arrays.items()
        }
        return Snapshot(flat.skeleton, arrays)


@contextmanager
def _no_collection() -> Iterator[None]:
    """A state of thousands of arrays makes tens of thousands of objects. Python takes that for a reason to look through
    all objects of the process, every few saves, which takes many times as long as the copy."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def memory_at(address: int, size: int) -> memoryview:
    """The bytes that lie there. Whoever uses them keeps their owner alive."""
    return memoryview((ctypes.c_ubyte * size).from_address(address)).cast("B")


def owners_of_shared(arrays: Mapping[str, Array], ranks: Ranks) -> dict[str, int]:
    """Arrays that are equal on all ranks, bit for bit, with the rank that writes each. Every rank must call."""
    if ranks.world_size == 1:
        return {}
    names = sorted(arrays)
    digests: list[int] = []
    for name in names:
        array = arrays[name]
        digest = xxhash.xxh3_128_digest(array.data, seed=0)
        description = xxhash.xxh3_64_intdigest(repr(array.spec).encode())
        digests += [_signed(int.from_bytes(digest[:8]) ^ description), _signed(int.from_bytes(digest[8:]))]
    same_names = ranks.equal([len(names), _signed(xxhash.xxh3_64_intdigest("\0".join(names).encode()))])
    if not names or not all(same_names):
        return {}
    same = ranks.equal(digests)
    shared = {name: arrays[name].spec.nbytes for i, name in enumerate(names) if same[2 * i] and same[2 * i + 1]}
    return assign_owners(shared, ranks.world_size)


def _signed(value: int) -> int:
    """The 64 bits of an unsigned number as a signed one."""
    return value - 2**64 if value >= 2**63 else value
