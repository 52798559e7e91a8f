"""The memory of one rank that its snapshots are copied into: two slots, so that one is whole at any moment."""

import os
from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from lastgood.core.tensorfile import ArraySpec, Layout, plan
from lastgood.core.units import byte_size
from lastgood.keeper.arena import Arena
from lastgood.keeper.memory import available_bytes
from lastgood.keeper.protocol import Order
from lastgood.runtime.ports import DeviceCopies
from lastgood.runtime.snapshot import Array
from lastgood.store.threads import Beside

SLOTS = 2


class Slot:
    """One arena, and what it is used for."""

    def __init__(self, arena: Arena, devices: DeviceCopies | None = None) -> None:
        self.arena = arena
        self.order: Order | None = None
        """What is to be made of its content, while that is not known to be on storage."""
        self.is_given = False
        """The keeper has been told so."""
        self.turn = 0
        """The number of the snapshot in it, rising; 0 if there is none."""
        self.note = ""
        """What a person should know of its memory."""
        self.devices = devices
        self._pinning: Beside | None = None
        self._is_pinned = self._is_closing = False

    def make_ready(self, after: "Slot | None" = None) -> None:
        """Get the pages in the background, once `after` has its own, and have them ready for copies from devices."""
        self.arena.touch_in_background(after.arena if after is not None else None)
        if self.devices is not None:
            self._pinning = Beside(partial(self._pin, self.devices), "lastgood-pin")
            if not self._pinning.start():
                self._pin(self.devices)

    def await_ready(self) -> None:
        """Wait for what `make_ready` has begun."""
        self.arena.await_touch()
        if self._pinning is not None:
            self._pinning.join()

    def _pin(self, devices: DeviceCopies) -> None:
        self.arena.await_touch()
        if not self._is_closing:
            reason = devices.pin(self.arena.address, self.arena.capacity)
            self._is_pinned = not reason
            if reason:
                self.note = f"copies from GPUs are slower than they could be: memory could not be pinned ({reason})"

    def close(self) -> None:
        """Give the memory back."""
        self._is_closing = True
        self.arena.stop_touching()
        if self._pinning is not None:
            self._pinning.join()
        if self._is_pinned and self.devices is not None:
            self.devices.unpin(self.arena.address)
        self._is_pinned = False
        self.arena.close()


class Slots:
    """The slots of this rank. What they hold is numbered, in the order in which it was taken."""

    def __init__(self, local_ranks: int, devices: Callable[[], DeviceCopies | None] = lambda: None) -> None:
        self._local_ranks = local_ranks
        self._devices = devices
        self._all: list[Slot] = []
        self._turns = 0
        """How many snapshots were taken."""
        self.left: list[Arena] = []
        """What an earlier attempt of this rank left."""
        self._lent: list[int] = []
        """Descriptors of `left` that are read from now."""
        self._told: list[str] = []

    def __contains__(self, slot: Slot) -> bool:
        return slot in self._all

    def __len__(self) -> int:
        return len(self._all)

    @property
    def arenas(self) -> list[Arena]:
        return [slot.arena for slot in self._all]

    @property
    def slot_bytes(self) -> int:
        return max((arena.capacity for arena in self.arenas), default=0)

    def number(self, slot: Slot) -> int:
        return self._all.index(slot)

    def are_too_small(self, file_bytes: int) -> bool:
        return any(arena.capacity < file_bytes for arena in self.arenas)

    def make(self, file_bytes: int) -> list[str]:
        """Replace them by slots for snapshots of that size, as many as there is memory for; what a person should know
        of that. What is in them is lost."""
        reusable = [a for a in self.left if file_bytes <= a.capacity and os.fstat(a.fd).st_ino not in self._lent]
        for arena in [arena for arena in self.left if arena not in reusable]:
            arena.close()
        self.left = []
        given_up = sum(arena.capacity for arena in (*self.arenas, *reusable))
        allotment = allot(file_bytes, self._local_ranks, given_up)
        notes = [allotment.note] if allotment.note else []
        self.drop()
        devices = self._devices()
        try:
            for _ in range(allotment.slots):
                arena = reusable.pop() if reusable else Arena(file_bytes)
                self._all.append(Slot(arena, devices))
        except OSError as error:
            notes.append(f"{error}: snapshots in memory at a time: {len(self)}")
        for arena in reusable:
            arena.close()
        return notes

    def make_ready(self) -> None:
        """Have the memory got ready in the background, that of the first snapshot first."""
        before: Slot | None = None
        for slot in self._all:
            slot.make_ready(after=before)
            before = slot

    def free(self) -> Slot | None:
        """A slot that may be overwritten: its content is on storage, and it is not the newest where there are two."""
        free = [slot for slot in self._all if slot.order is None]
        oldest = min(free, key=lambda slot: slot.turn, default=None)
        is_newest = oldest is not None and 0 < oldest.turn == self._turns
        return None if is_newest and len(self) > 1 else oldest

    def note_taken(self, slot: Slot, order: Order) -> None:
        """A slot holds a whole snapshot now."""
        self._turns += 1
        slot.turn, slot.is_given, slot.order = self._turns, False, order

    def ordered(self) -> list[tuple[Slot, Order]]:
        """Those whose content is not known to be on storage, oldest first."""
        slots = sorted(self._all, key=lambda slot: slot.turn)
        return [(slot, slot.order) for slot in slots if slot.order is not None]

    def note_end(self, step: int) -> None:
        """What becomes of that step is known."""
        for slot, order in self.ordered():
            if order.step == step:
                slot.order = None

    def lend(self, fd: int) -> Callable[[], None]:
        """What is in this descriptor's memory is read, until the answer is called."""
        inode = os.fstat(fd).st_ino
        self._lent.append(inode)
        return lambda: self._lent.remove(inode)

    def notes(self) -> list[str]:
        """What a person should know of the memory, each once."""
        found = list(dict.fromkeys(slot.note for slot in self._all if slot.note and slot.note not in self._told))
        self._told += found
        return found

    def drop(self) -> None:
        """Give their memory back."""
        for slot in self._all:
            slot.close()
        self._all = []

    def close(self) -> None:
        self.drop()
        self.drop_left()

    def drop_left(self) -> None:
        for arena in self.left:
            arena.close()
        self.left = []

    def disown(self) -> None:
        """In a child that was forked from us: the memory must not live on with it."""
        for arena in self.arenas:
            arena.close()
        self._all = []
        self.drop_left()


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
