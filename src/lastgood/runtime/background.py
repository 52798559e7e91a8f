"""Saves that go on without the loop: this rank's side of the keeper, and what is done when the keeper is lost."""

import os
import threading
import time
from collections.abc import Callable, Mapping

import msgspec

from lastgood.core.errors import StorageError
from lastgood.core.tensorfile import Layout
from lastgood.core.units import duration
from lastgood.keeper import protocol, work
from lastgood.keeper.arena import Arena
from lastgood.keeper.client import Keeper, NoKeeperError, RefusedError
from lastgood.keeper.protocol import Event, Order
from lastgood.keeper.starting import start_keeper
from lastgood.runtime.slots import Slot, allot
from lastgood.runtime.snapshot import Array
from lastgood.store.attempts import check_fence
from lastgood.store.durable import explained
from lastgood.store.jobdir import JobDirectory

_RETURN_LIMIT_S = 5.0
"""How long a launcher may take to start a new keeper for one that is lost."""

_BEAT_S = 1.0

_BUSY_LOOK_S, _IDLE_LOOK_S = 0.002, 1.0
"""How often the keeper is listened to, while it writes and otherwise: a loop may pass here 100,000 times a second."""


class Home(msgspec.Struct, frozen=True):
    """Where this rank runs, as far as its keeper goes."""

    rank: int
    local_ranks: int
    linger_s: float
    is_launcher_here: bool
    """Then the keeper is the launcher's, and nobody else starts one."""
    environment: Mapping[str, str]


class Background:
    """Hands snapshots to the keeper. Methods do not raise for a keeper that is lost: it is replaced, and where
    that is not possible this process writes itself, standing still."""

    def __init__(self, job: JobDirectory, attempt: int, home: Home, journal: Callable[..., None]) -> None:
        self._job = job
        self._attempt = attempt
        self._home = home
        self._journal = journal
        self._keeper: Keeper | None = None
        self._starter: threading.Thread | None = None
        self._why_not = ""
        self._slots: list[Slot] = []
        self._turns = 0
        """How many snapshots were taken."""
        self._left: list[Arena] = []
        """What an earlier attempt of this rank left."""
        self._lent: list[int] = []
        """Descriptors of `_left` that are read from now; see `lend`."""
        self._events: list[Event] = []
        self._looked_at = float("-inf")
        self.notes: list[str] = []
        """What a person should know."""
        try:
            self._connect()
        except NoKeeperError as error:
            self._why_not = str(error)
            if not home.is_launcher_here and not isinstance(error, RefusedError):
                # It is ready before anybody waits for it.
                self._starter = threading.Thread(target=self._start, name="lastgood-start-keeper", daemon=True)
                self._starter.start()

    # The connection ------------------------------------------------------------------------------------------

    def is_there(self) -> bool:
        """True if there is a keeper; waits for one that is starting."""
        if self._starter is not None:
            self._starter.join()
            self._starter = None
        if self._keeper is None and self._why_not:
            self.notes.append(f"no keeper ({self._why_not}): the loop stands still while a checkpoint is written")
            self._why_not = ""
        return self._keeper is not None

    def _connect(self) -> None:
        self._keeper = Keeper(self._job.id, self._home.rank)
        try:
            self._left, _ = self._keeper.take()
        except OSError as error:
            self._lose()
            raise NoKeeperError(str(error)) from error

    def _start(self) -> None:
        try:
            start_keeper(self._job, self._home.linger_s, self._home.environment, is_detached=True)
            self._connect()
        except OSError as error:
            self._why_not = str(error)

    def _lose(self) -> None:
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None

    def _recover(self, error: OSError) -> None:
        """The keeper is lost: get another one, and give it what the lost one had not finished."""
        pid = self._keeper.pid if self._keeper is not None else 0
        self._lose()
        # A newer attempt that has begun on this node takes our place there.
        with explained("look for newer attempts in", self._job.attempts):
            check_fence(self._job, self._attempt)
        unfinished = [slot.order.step for slot in self._slots if slot.order is not None]
        self._journal("keeper_lost", pid=pid, error=str(error), unfinished=unfinished)
        if self._reconnect(_RETURN_LIMIT_S):
            self.notes.append(
                f"the keeper (process {pid}) is lost ({error}); a new one has taken its place"
                + (f" and writes step {max(unfinished)} again" if unfinished else "")
            )
            return
        self.notes.append(
            f"the keeper (process {pid}) is lost ({error}), and there is no other ({self._why_not}): "
            "the loop stands still while a checkpoint is written"
        )
        for slot in self._slots:
            if slot.order is not None:
                self._write_here(slot)

    def _reconnect(self, limit_s: float) -> bool:
        """Get a keeper, and give it all that is unfinished. False if there is none within the limit."""
        limit = time.monotonic() + limit_s
        while True:
            try:
                if not self._home.is_launcher_here:
                    start_keeper(self._job, self._home.linger_s, self._home.environment, is_detached=True)
                self._keeper = Keeper(self._job.id, self._home.rank)
                self._offer_again(self._keeper)
            except OSError as error:
                self._lose()
                self._why_not = str(error)
                if isinstance(error, RefusedError) or time.monotonic() > limit:
                    return False
                time.sleep(0.1)
            else:
                return True

    def _offer_again(self, keeper: Keeper) -> None:
        keeper.offer([slot.arena for slot in self._slots])
        for number, slot in sorted(enumerate(self._slots), key=lambda item: item[1].turn):
            if slot.order is not None:
                keeper.save(number, slot.order)

    # Restoring -----------------------------------------------------------------------------------------------

    def lend(self, step: int, attempt: int, rank: int) -> tuple[int, Callable[[], None]] | None:
        """Memory that holds a rank's file of a checkpoint, and what to call when it is not read any more."""
        if self._keeper is None:
            return None
        try:
            fd = self._keeper.lend(step, attempt, rank)
        except OSError:
            self._lose()
            return None
        if fd is None:
            return None
        inode = os.fstat(fd).st_ino
        self._lent.append(inode)
        return fd, lambda: self._lent.remove(inode)

    # Saving --------------------------------------------------------------------------------------------------

    def prepare(self, file_bytes: int) -> int:
        """Get memory for snapshots of that size, unless it is there; how many slots there are then."""
        if self._slots and all(slot.arena.capacity >= file_bytes for slot in self._slots):
            return len(self._slots)
        reusable = [a for a in self._left if file_bytes <= a.capacity and os.fstat(a.fd).st_ino not in self._lent]
        for arena in [arena for arena in self._left if arena not in reusable]:
            arena.close()
        self._left = []
        given_up = sum(slot.arena.capacity for slot in self._slots) + sum(arena.capacity for arena in reusable)
        allotment = allot(file_bytes, self._home.local_ranks, given_up)
        if allotment.note:
            self.notes.append(allotment.note)
        for slot in self._slots:
            slot.arena.close()
        self._slots = []
        try:
            for _ in range(allotment.slots):
                arena = reusable.pop() if reusable else Arena(file_bytes)
                self._slots.append(Slot(arena))
            if self._keeper is not None and self._slots:
                self._keeper.offer([slot.arena for slot in self._slots])
        except OSError as error:
            self._recover(error)
        for arena in reusable:
            arena.close()
        for slot in self._slots:
            slot.arena.touch_in_background()
        return len(self._slots)

    def is_free(self) -> bool:
        """True if a snapshot can be taken without waiting for a write."""
        self._poll(0.0)
        return self._free() is not None

    def save(self, order: Order, layout: Layout, arrays: list[Array], limit_s: float, beat: Callable[[], None]) -> None:
        """Copy a snapshot and have it written. Waits for a free slot, at most `limit_s`.

        Raises LastgoodError if it cannot be taken, or if this process had to write it itself and failed.
        """
        if any(slot.arena.capacity < layout.file_bytes for slot in self._slots):
            # The state has grown: its memory is replaced, and what is in it must be on storage by then.
            self.wait(limit_s, beat)
        if self.prepare(layout.file_bytes) == 0:
            raise StorageError("no memory for a snapshot", safe="earlier checkpoints are untouched")
        slot = self._await_slot(limit_s, beat)
        number = self._slots.index(slot)
        slot.turn = 0
        self._tell(lambda keeper: keeper.begin(number))
        slot.fill(layout, arrays)
        self._turns += 1
        slot.turn, slot.order = self._turns, order
        if self._keeper is None and not self._reconnect(0.0):
            self._write_here(slot)
        else:
            self._tell(lambda keeper: keeper.save(number, order))

    def events(self, wait_s: float = 0.0) -> list[Event]:
        """What has become of the saves since the last call."""
        self._poll(wait_s)
        found, self._events = self._events, []
        return found

    def unfinished(self) -> list[int]:
        """Steps whose fate is not known yet, oldest first."""
        return sorted(slot.order.step for slot in self._slots if slot.order is not None)

    def wait(self, limit_s: float, beat: Callable[[], None]) -> None:
        """Wait until the fate of every save is known. Raises StorageError after the limit."""
        limit = time.monotonic() + limit_s
        while self.unfinished():
            if time.monotonic() > limit:
                raise StorageError(
                    f"the checkpoint of step {self.unfinished()[0]} was not written within {duration(limit_s)}",
                    safe="earlier checkpoints are untouched",
                    remedy="look at the storage: it is slow, or hangs",
                )
            self._poll(_BEAT_S)
            beat()

    def _tell(self, call: Callable[[Keeper], None]) -> None:
        if self._keeper is None:
            return
        try:
            call(self._keeper)
        except OSError as error:
            self._recover(error)

    def _poll(self, wait_s: float) -> None:
        now = time.monotonic()
        rest_s = _BUSY_LOOK_S if self.unfinished() else _IDLE_LOOK_S
        if self._keeper is None or (not wait_s and now - self._looked_at < rest_s):
            return
        self._looked_at = now
        try:
            events = self._keeper.events(wait_s)
        except OSError as error:
            self._recover(error)
            return
        for event in events:
            self._note(event)

    def _note(self, event: Event) -> None:
        self._events.append(event)
        # Rank 0 is told of the commit; for the others their part is all.
        is_end = isinstance(event, protocol.Committed | protocol.Failed) or (
            isinstance(event, protocol.Written) and self._home.rank != 0
        )
        if is_end:
            for slot in self._slots:
                if slot.order is not None and slot.order.step == event.step:
                    slot.order = None

    def _free(self) -> Slot | None:
        """A slot that may be overwritten: its content is on storage, and it is not the newest where there are two."""
        free = [slot for slot in self._slots if slot.order is None]
        oldest = min(free, key=lambda slot: slot.turn, default=None)
        is_newest = oldest is not None and 0 < oldest.turn == self._turns
        return None if is_newest and len(self._slots) > 1 else oldest

    def _await_slot(self, limit_s: float, beat: Callable[[], None]) -> Slot:
        limit = time.monotonic() + limit_s
        while (slot := self._free()) is None:
            if time.monotonic() > limit:
                raise StorageError(
                    f"the checkpoint of step {self.unfinished()[0]} is still being written after {duration(limit_s)}",
                    safe="earlier checkpoints are untouched",
                    remedy="look at the storage: it is slow, or hangs",
                )
            self._poll(_BEAT_S)
            beat()
        return slot

    def _write_here(self, slot: Slot) -> None:
        order, slot.order = slot.order, None
        assert order is not None
        for event in work.work_at_once(self._job, order, slot.arena.view[: order.file_bytes]):
            self._note(event)

    # The end -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """An orderly end: nothing that we hold is needed again."""
        self.is_there()
        if self._keeper is not None:
            self._keeper.bye()
            self._keeper = None
        self._drop_memory()

    def disown(self) -> None:
        """In a child that was forked from us: the connection must end with us, not with it."""
        self._lose()

    def _drop_memory(self) -> None:
        for arena in [*self._left, *(slot.arena for slot in self._slots)]:
            arena.close()
        self._left, self._slots = [], []
