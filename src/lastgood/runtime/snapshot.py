"""The state of a rank at a safe point, taken apart into what is written: arrays, and everything else."""

import ctypes
import gc
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from lastgood.core import tree
from lastgood.core.errors import UnstorableError
from lastgood.core.tensorfile import ArraySpec
from lastgood.core.tree import ArrayLeaf
from lastgood.runtime.ports import Framework, Stateful
from lastgood.runtime.state import VALUES

SAMPLE_BYTES = 1024
"""Of each place that `Array.sample` looks at."""


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

    def sample(self) -> bytes:
        """A little of it: from its beginning, its middle and its end. Nothing of an array that is on no host."""
        if not self.leaf.address:
            return b""
        data = self.data
        middle = len(data) // 2
        return b"".join((data[:SAMPLE_BYTES], data[middle : middle + SAMPLE_BYTES], data[-SAMPLE_BYTES:]))


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
