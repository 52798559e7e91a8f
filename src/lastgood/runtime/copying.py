"""The copy of a snapshot into its slot: at once what the loop may change next, beside the loop what it will not.

It is always a copy. Nothing of the live state is moved into shared memory, or read again later: parts of a state that
are of different steps are the worst that a checkpoint can hold.
"""

import ctypes
import threading
import time
from collections.abc import Callable, Collection
from functools import partial

from lastgood.core.errors import LastgoodError, StorageError, TornSnapshotError
from lastgood.core.tensorfile import Layout
from lastgood.core.tree import ArrayLeaf
from lastgood.core.units import duration
from lastgood.keeper.protocol import Order
from lastgood.runtime.ports import DeviceCopy
from lastgood.runtime.slots import Slot
from lastgood.runtime.snapshot import Array
from lastgood.store.threads import Beside, Latch

_copy_at_once = ctypes.PyDLL(None).memmove
"""Keeps Python's lock: thousands of arrays are small, and giving the lock away for each can cost as many turns of other
threads."""
_copy_at_once.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]

_copy_beside = ctypes.CDLL(None).memmove
"""Lets the loop run meanwhile."""
_copy_beside.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


class Copy:
    """One snapshot on its way into one slot. `begin` is called at the safe point; until it is over, nothing else may be
    done with the slot."""

    def __init__(self, slot: Slot, order: Order) -> None:
        self.slot = slot
        self.order = order
        self.waited_s = 0.0
        """How long the loop was held up for it after its safe point."""
        self.is_whole = False
        """All of it is there, and of that safe point."""
        self.problem: LastgoodError | None = None
        self.changed: list[str] = []
        """Arrays that something else than their optimizer has changed too early."""
        self._late: list[_Late] = []
        self._moves: list[tuple[int, int, int]] = []
        self._on_devices: DeviceCopy | None = None
        self._is_begun = False
        """`begin` was not left by an exception."""
        self._is_on_host = Latch()
        self._checking = threading.Lock()
        self._thread: Beside | None = None

    def begin(
        self, layout: Layout, arrays: list[Array], later: Collection[str], whole: Callable[["Copy"], None]
    ) -> None:
        """Copy now all that may change before `hold_changes` is called. The arrays that are named in `later`, and those
        of devices, may still be on their way when this returns; then `whole` is called when they are there, in
        another thread."""
        self._late = [_Late(array) for array in arrays if array.spec.name in later]
        if not later:
            # Pages that are on their way are had sooner by waiting for them.
            self.slot.await_ready()
        self._copy(layout, arrays, later)
        if self._moves or self._on_devices is not None:
            self._thread = Beside(partial(self._go_on, whole), "lastgood-copy")
            if not self._thread.start():
                self._go_on(whole)
        else:
            self._is_on_host.open()
            self.is_whole = True
        self._is_begun = True

    def _copy(self, layout: Layout, arrays: list[Array], later: Collection[str]) -> None:
        view, base, devices = self.slot.arena.view, self.slot.arena.address, self.slot.devices
        view[: len(layout.header)] = layout.header
        by_name = {array.spec.name: array for array in arrays}
        moves: list[tuple[int, int, int]] = []
        now: list[tuple[ArrayLeaf, int]] = []
        then: list[tuple[ArrayLeaf, int]] = []
        for spec, begin, end in layout.arrays:
            array, is_late = by_name[spec.name], spec.name in later
            if address := array.leaf.address:
                (self._moves if is_late else moves).append((base + begin, address, end - begin))
            elif begin == end:
                continue
            elif devices is not None and devices.takes(array.leaf):
                (then if is_late else now).append((array.leaf, base + begin))
            else:
                view[begin:end] = array.data
        if devices is not None and (now or then):
            self._on_devices = devices.start(now, then)
        for move in moves:
            _copy_at_once(*move)

    def hold_changes(self, limit_s: float) -> None:
        """Called before the late arrays change: returns when they may. Raises StorageError after the limit."""
        began = time.monotonic()
        if not self._is_begun and (self._thread is None or self._thread.call_off()):
            # There is nobody who would copy them.
            self._is_on_host.open()
        if not self._is_on_host.wait(limit_s):
            raise StorageError(f"a snapshot was not copied within {duration(limit_s)}", safe="earlier ones are there")
        self._check()
        if self._on_devices is not None:
            self._on_devices.hold_changes()
        self.waited_s += time.monotonic() - began

    def join(self) -> None:
        """Wait until it is over: either `is_whole`, or there is a `problem`."""
        began = time.monotonic()
        if self._thread is not None:
            self._thread.join()
        self.waited_s += time.monotonic() - began
        if not self.is_whole and self.problem is None:
            self.problem = self._failure("it was interrupted")

    def _go_on(self, whole: Callable[["Copy"], None]) -> None:
        """In a thread of its own: the rest of it."""
        try:
            self.slot.await_ready()
            for move in self._moves:
                _copy_beside(*move)
            if self._on_devices is None:
                self._check()
            self._is_on_host.open()
            if self._on_devices is not None:
                self._on_devices.wait()
                self._check()
            if self.problem is None:
                self.is_whole = True
                whole(self)
        except Exception as error:  # noqa: BLE001 - whatever a driver has to say
            self.problem = self._failure(str(error))
        finally:
            self._is_on_host.open()

    def _failure(self, reason: str) -> StorageError:
        return StorageError(
            f"the snapshot of step {self.order.step} could not be copied: {reason}",
            safe="earlier checkpoints are untouched",
        )

    def _check(self) -> None:
        """Note which of the late arrays have changed already. Once: soon afterwards they may."""
        with self._checking:
            late, self._late = self._late, []
            self.changed += [name for one in late if (name := one.changed())]
            if self.changed and self.problem is None:
                more = f" (and {len(self.changed) - 1} more)" if len(self.changed) > 1 else ""
                self.problem = TornSnapshotError(
                    f"{self.changed[0]}{more} changed while the snapshot of step {self.order.step} was copied, and not "
                    "in optimizer.step()",
                    safe="the snapshot was thrown away; earlier checkpoints are untouched",
                    remedy="nothing: such arrays are copied at once from now on. To copy beside the loop, change "
                    "parameters only in optimizer.step(); or use lastgood.Run(..., overlap=False)",
                )


class _Late:
    """An array that is copied beside the loop, as it was at the safe point."""

    def __init__(self, array: Array) -> None:
        self._array = array
        self._stamp = array.framework.stamp(array.leaf)
        self._sample = array.sample()

    def changed(self) -> str:
        """Its name, if it has changed."""
        array = self._array
        is_same = array.framework.stamp(array.leaf) == self._stamp and array.sample() == self._sample
        return "" if is_same else array.spec.name
