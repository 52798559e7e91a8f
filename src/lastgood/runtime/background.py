"""Saves that go on without the loop: this rank's side of the keeper, and what is done when the keeper is lost."""

import os
import threading
import time
from collections.abc import Callable

from lastgood.core.errors import FencedError, LastgoodError, StorageError
from lastgood.core.tensorfile import Layout
from lastgood.core.units import duration
from lastgood.keeper import protocol, work
from lastgood.keeper.arena import Arena
from lastgood.keeper.client import ANSWER_LIMIT_S, Keeper, NoKeeperError, RefusedError
from lastgood.keeper.protocol import Event, Order
from lastgood.runtime.finding import Home, find_keeper, occupy_standard_descriptors
from lastgood.runtime.slots import Slot, allot
from lastgood.runtime.snapshot import Array
from lastgood.store.attempts import check_fence
from lastgood.store.jobdir import JobDirectory

_START_LIMIT_S = 30.0
_RETURN_LIMIT_S = 5.0
"""How long a launcher may take to start a new keeper for one that is lost."""

_ANSWER_LIMIT_S = 1.0
"""How long a save waits for a keeper to answer where there was none."""

_MOST_LOSSES = 3
"""Keepers that are lost one after the other, without having done anything, have a cause that another one does not
mend."""

_BEAT_S = 1.0

_BUSY_LOOK_S, _IDLE_LOOK_S = 0.002, 1.0
"""How often the keeper is listened to, while it writes and otherwise: a loop may pass here 100,000 times a second."""


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
        self._losses = 0
        """Keepers that were lost since one has done something."""
        self._problem: LastgoodError | None = None
        """To be raised at the next occasion."""
        self._events: list[Event] = []
        self._looked_at = float("-inf")
        self.notes: list[str] = []
        """What a person should know."""
        occupy_standard_descriptors()
        try:
            self._keeper = find_keeper(job, home, self._take_over, 0.0, may_start=False)
        except NoKeeperError as error:
            self._why_not = str(error)
            if not isinstance(error, RefusedError):
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

    def _take_over(self, keeper: Keeper) -> None:
        self._left, _ = keeper.take()

    def _start(self) -> None:
        limit_s = _RETURN_LIMIT_S if self._home.is_launcher_here else _START_LIMIT_S
        try:
            self._keeper = find_keeper(self._job, self._home, self._take_over, limit_s)
            self._why_not = ""
        except OSError as error:
            self._why_not = str(error)

    def _lose(self) -> None:
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None

    def _recover(self, error: OSError) -> None:
        """The keeper is lost: get another one, and give it what the lost one had not finished.

        Raises FencedError if a newer attempt has begun.
        """
        lost, self._keeper = self._keeper, None
        who = "the keeper"
        if lost is not None:
            who = f"the keeper (process {lost.pid})"
            lost.close()
        self._refuse_fenced()
        unfinished = self.unfinished()
        self._journal("keeper_lost", pid=lost.pid if lost else 0, error=str(error), unfinished=unfinished)
        self._losses += 1
        if self._reconnect(_RETURN_LIMIT_S):
            self.notes.append(
                f"{who} is lost ({error}); a new one has taken its place"
                + (f" and writes step {max(unfinished)} again" if unfinished else "")
            )
            return
        self.notes.append(
            f"{who} is lost ({error}), and there is no other ({self._why_not}): "
            "the loop stands still while a checkpoint is written"
        )
        if lost is None or lost.may_live():
            self._renounce(who)
        else:
            for slot in sorted(self._slots, key=lambda slot: slot.turn):
                if slot.order is not None:
                    self._write_here(slot)

    def _renounce(self, who: str) -> None:
        """A keeper that cannot be reached may write all the same: nobody else may write to the same files, and what it
        reads from must not change."""
        for slot in self._slots:
            if slot.order is not None:
                problem = StorageError(
                    f"{who} cannot be reached, and may be writing the checkpoint of step {slot.order.step}",
                    safe="earlier checkpoints are untouched",
                )
                self._note(protocol.failed(slot.order.step, problem))
            slot.arena.close()
        self._slots = []

    def _refuse_fenced(self) -> None:
        """A newer attempt that has begun on this node takes our place with the keeper, and we must not take it back."""
        try:
            check_fence(self._job, self._attempt)
        except FencedError:
            for slot in self._slots:
                slot.order = None
            raise
        except OSError:
            # Who writes will meet that, too.
            return

    def _reconnect(self, limit_s: float, answer_s: float = ANSWER_LIMIT_S) -> bool:
        """Get a keeper, and give it all that is unfinished. False if there is none within the limit."""
        if self._losses >= _MOST_LOSSES:
            self._why_not = f"{self._losses} were lost, one after the other"
            return False
        try:
            self._keeper = find_keeper(self._job, self._home, self._offer_again, limit_s, answer_s)
        except NoKeeperError as error:
            self._why_not = str(error)
        return self._keeper is not None

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
        except OSError as error:
            self._why_not = f"the keeper (process {self._keeper.pid}) is lost: {error}"
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
        except OSError as error:
            self.notes.append(f"{error}: snapshots in memory at a time: {len(self._slots)}")
        for arena in reusable:
            arena.close()
        if self._slots:
            self._tell(lambda keeper: keeper.offer([slot.arena for slot in self._slots]))
        sizes = [slot.arena.capacity for slot in self._slots]
        self._journal("snapshots", rank=self._home.rank, slots=len(sizes), slot_bytes=max(sizes, default=0))
        before: Arena | None = None
        for slot in self._slots:
            slot.arena.touch_in_background(after=before)
            before = slot.arena
        return len(self._slots)

    def is_free(self) -> bool:
        """True if a snapshot can be taken without waiting for a write."""
        try:
            self._poll(0.0)
        except LastgoodError as problem:
            self._problem = problem
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
        if self._keeper is None:
            self._refuse_fenced()
            # One that is found here is given the order with all that is unfinished.
            if not self._reconnect(0.0, _ANSWER_LIMIT_S):
                self._write_here(slot)
        else:
            self._tell(lambda keeper: keeper.save(number, order))

    def events(self, wait_s: float = 0.0) -> list[Event]:
        """What has become of the saves since the last call. Raises FencedError."""
        if self._problem is not None:
            problem, self._problem = self._problem, None
            raise problem
        self._poll(wait_s)
        found, self._events = self._events, []
        return found

    def give_up(self, step: int, reason: str) -> None:
        """The ranks know that the save of that step has failed: nobody need wait for what will not come."""
        if step in self.unfinished():
            self._tell(lambda keeper: keeper.give_up(step, self._attempt, reason))

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
        except BaseException:
            # An exception from a signal handler of the program: whether it was sent is not known.
            self._lose()
            raise

    def _poll(self, wait_s: float) -> None:
        now = time.monotonic()
        is_busy = bool(self.unfinished())
        if self._keeper is None:
            if is_busy:
                self._recover(ConnectionError("the connection was interrupted"))
            return
        if not wait_s and now - self._looked_at < (_BUSY_LOOK_S if is_busy else _IDLE_LOOK_S):
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
            self._losses = 0
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
        """In a child that was forked from us: the connection and the memory must end with us, not with it."""
        self._lose()
        self._drop_memory()

    def _drop_memory(self) -> None:
        for arena in [*self._left, *(slot.arena for slot in self._slots)]:
            arena.close()
        self._left, self._slots = [], []
