"""The memory of one rank that its snapshots are copied into: two slots, so that one is whole at any moment."""

import ctypes
from collections.abc import Iterable

import msgspec

from lastgood.core.tensorfile import ArraySpec, Layout, plan
from lastgood.core.units import byte_size
from lastgood.keeper.arena import Arena
from lastgood.keeper.memory import available_bytes
from lastgood.keeper.protocol import Order
from lastgood.runtime.snapshot import Array

SLOTS = 2

_copy = ctypes.PyDLL(None).memmove
"""A copy that keeps Python's lock: thousands of arrays are small, and giving the lock away for each could cost as many
turns of other threads."""
_copy.argtypes, _copy.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t], None


class Slot:
    """One arena, and what it is used for."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.order: Order | None = None
        """What is to be made of its content, while that is not known to be on storage."""
        self.turn = 0
        """The number of the snapshot in it, rising; 0 if there is none."""

    def fill(self, layout: Layout, arrays: Iterable[Array]) -> None:
        """Lay a snapshot out as its file will be: a copy, never a reference."""
        self.arena.await_touch()
        view, base = self.arena.view, self.arena.address
        view[: len(layout.header)] = layout.header
        by_name = {array.spec.name: array for array in arrays}
        for spec, begin, end in layout.arrays:
            array = by_name[spec.name]
            if array.leaf.address:
                _copy(base + begin, array.leaf.address, end - begin)
            elif begin < end:
                view[begin:end] = array.data


class Allotment(msgspec.Struct, frozen=True):
    """How many slots there is memory for, and why not two."""

    slots: int
    note: str = ""


def allot(file_bytes: int, local_ranks: int, already_bytes: int = 0) -> Allotment:
    """How many slots of that size this rank may have. `already_bytes` are in slots that it has and gives up."""
    available = available_bytes()
    if available is None:
        return Allotment(SLOTS)
    share = available // max(1, local_ranks) + already_bytes
    count = min(SLOTS, share // max(1, file_bytes))
    if count == SLOTS:
        return Allotment(SLOTS)
    where = f"{byte_size(share)} are free for this rank, a snapshot takes {byte_size(file_bytes)}"
    if count == 1:
        return Allotment(1, f"memory for one snapshot instead of two ({where}): a save waits for the write before it")
    return Allotment(0, f"no memory for a snapshot ({where}): the loop stands still while a checkpoint is written")


class LayoutPlan:
    """The layout of the last snapshot, kept because the next is usually the same."""

    def __init__(self) -> None:
        self._specs: list[ArraySpec] = []
        self._layout = plan([])

    def of(self, arrays: Iterable[Array]) -> Layout:
        specs = [array.spec for array in arrays]
        if specs != self._specs:
            self._specs, self._layout = specs, plan(specs)
        return self._layout
