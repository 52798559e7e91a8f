"""Saves that go on without the loop: this rank's side of the keeper, and what is done when the keeper is lost."""

import time
from collections.abc import Callable, Collection

from lastgood.core.errors import FencedError, LastgoodError, StorageError
from lastgood.core.tensorfile import Layout
from lastgood.core.units import duration
from lastgood.keeper import protocol, work
from lastgood.keeper.client import Keeper
from lastgood.keeper.protocol import Event, Order
from lastgood.runtime.copying import Copy
from lastgood.runtime.finding import Home
from lastgood.runtime.line import SHORT_ANSWER_S, Line
from lastgood.runtime.ports import DeviceCopies
from lastgood.runtime.slots import Slot, Slots
from lastgood.runtime.snapshot import Array
from lastgood.store.attempts import check_fence
from lastgood.store.jobdir import JobDirectory

_RETURN_LIMIT_S = 5.0
"""How long a launcher may take to start a new keeper for one that is lost."""

_BEAT_S = 1.0

_BUSY_LOOK_S, _IDLE_LOOK_S = 0.002, 1.0
"""How often the keeper is listened to, while it writes and otherwise: a loop may pass here 100,000 times a second."""


class Background:
    """Hands snapshots to the keeper. Methods do not raise for a keeper that is lost: it is replaced, and where
    that is not possible this process writes itself, standing still."""

    def __init__(
        self,
        job: JobDirectory,
        attempt: int,
        home: Home,
        journal: Callable[..., None],
        devices: Callable[[], DeviceCopies | None] = lambda: None,
    ) -> None:
        self._job = job
        self._attempt = attempt
        self._home = home
        self._journal = journal
        self._copy: Copy | None = None
        """The snapshot that is being copied, until its outcome is noted."""
        self._slots = Slots(home.local_ranks, devices)
        self._problem: LastgoodError | None = None  # to be raised at the next occasion
        self._events: list[Event] = []
        self._looked_at = float("-inf")
        self.notes: list[str] = []
        """What a person should know."""
        self.greetings: list[Callable[[Keeper], None]] = []  # told to a keeper that takes the place of a lost one
        self._line = Line(job, home, self._take_over)

    # The connection ------------------------------------------------------------------------------------------

    def is_there(self) -> bool:
        """True if there is a keeper; waits for one that is starting."""
        self._line.await_start()
        if self._line.keeper is None and self._line.why_not:
            self.notes.append(f"no keeper ({self._line.why_not}): the loop stands still while a checkpoint is written")
            self._line.why_not = ""
        return self._line.keeper is not None

    def _take_over(self, keeper: Keeper) -> None:
        self._slots.left, _ = keeper.take()

    def _recover(self, error: OSError) -> None:
        """The keeper is lost: get another one, and give it what the lost one had not finished.

        Raises FencedError if a newer attempt has begun.
        """
        lost = self._line.lose()
        who = f"the keeper (process {lost.pid})" if lost is not None else "the keeper"
        self._refuse_fenced()
        unfinished = self.unfinished()
        self._journal("keeper_lost", pid=lost.pid if lost else 0, error=str(error), unfinished=unfinished)
        self._line.losses += 1
        if self._line.remake(self._offer_again, _RETURN_LIMIT_S) and self._line.keeper is not None:
            is_same = lost is not None and lost.pid == self._line.keeper.pid
            found = "it is connected again" if is_same else "a new one has taken its place"
            more = f" and writes step {max(unfinished)} again" if unfinished and not is_same else ""
            self.notes.append(f"{who} is lost ({error}); {found}{more}")
            return
        self.notes.append(
            f"{who} is lost ({error}), and there is no other ({self._line.why_not}): "
            "the loop stands still while a checkpoint is written"
        )
        if lost is None or lost.may_live():
            self._renounce(who)
        else:
            for slot, _ in self._slots.ordered():
                self._write_here(slot)

    def _renounce(self, who: str) -> None:
        """A keeper that cannot be reached may write all the same: nobody else may write to the same files, and what it
        reads from must not change."""

        def problem(step: int) -> StorageError:
            return StorageError(
                f"{who} cannot be reached, and may be writing the checkpoint of step {step}",
                safe="earlier checkpoints are untouched",
            )

        if self._copy is not None:
            # Its memory goes, too.
            self._copy.join()
            self._copy.problem = self._copy.problem or problem(self._copy.order.step)
        for _, order in self._slots.ordered():
            self._note(protocol.failed(order.step, problem(order.step)))
        self._slots.drop()

    def _refuse_fenced(self) -> None:
        """A newer attempt that has begun on this node takes our place with the keeper, and we must not take it back."""
        try:
            check_fence(self._job, self._attempt)
        except FencedError:
            for slot, _ in self._slots.ordered():
                slot.order = None
            raise
        except OSError:
            # Who writes will meet that, too.
            return

    def _offer_again(self, keeper: Keeper) -> None:
        keeper.offer(self._slots.arenas)
        for greet in self.greetings:
            greet(keeper)
        for slot, order in self._slots.ordered():
            self._give(keeper, slot, order)

    def _give(self, keeper: Keeper, slot: Slot, order: Order) -> None:
        keeper.save(self._slots.number(slot), order)
        slot.is_given = True

    # Restoring -----------------------------------------------------------------------------------------------

    def lend(self, step: int, attempt: int, rank: int) -> tuple[int, Callable[[], None]] | None:
        """Memory that holds a rank's file of a checkpoint, and what to call when it is not read any more."""
        if self._line.keeper is None:
            return None
        try:
            fd = self._line.keeper.lend(step, attempt, rank)
        except OSError as error:
            self._line.why_not = f"the keeper (process {self._line.keeper.pid}) is lost: {error}"
            self._line.lose()
            return None
        if fd is None:
            return None
        return fd, self._slots.lend(fd)

    # Saving --------------------------------------------------------------------------------------------------

    def prepare(self, file_bytes: int) -> int:
        """Get memory for snapshots of that size, unless it is there; how many slots there are then."""
        if self._slots and not self._slots.are_too_small(file_bytes):
            return len(self._slots)
        self.notes += self._slots.make(file_bytes)
        if self._slots:
            self.tell(lambda keeper: keeper.offer(self._slots.arenas))
        self._journal("snapshots", rank=self._home.rank, slots=len(self._slots), slot_bytes=self._slots.slot_bytes)
        self._slots.make_ready()
        return len(self._slots)

    def is_free(self) -> bool:
        """True if a snapshot can be taken without waiting for a write."""
        try:
            self._poll(0.0)
        except LastgoodError as problem:
            self._problem = problem
        return self._slots.free() is not None

    def save(
        self,
        order: Order,
        layout: Layout,
        arrays: list[Array],
        later: Collection[str],
        limit_s: float,
        beat: Callable[[], None],
    ) -> None:
        """Copy a snapshot and have it written. Waits for a free slot, at most `limit_s`. Arrays named in `later` may
        be copied until `hold_changes`.

        Raises LastgoodError if it cannot be taken, or if this process had to write it itself and failed.
        """
        self.finish_copy()
        if self._slots.are_too_small(layout.file_bytes):
            # The state has grown: its memory is replaced, and what is in it must be on storage by then.
            self.wait(limit_s, beat)
        if self.prepare(layout.file_bytes) == 0:
            raise StorageError("no memory for a snapshot", safe="earlier checkpoints are untouched")
        slot = self._await_slot(limit_s, beat)
        slot.turn = 0
        self.tell(lambda keeper: keeper.begin(self._slots.number(slot)))
        if slot not in self._slots:
            raise StorageError(
                f"no memory for the snapshot of step {order.step}: what there was went with the keeper",
                safe="earlier checkpoints are untouched",
            )
        self._copy = Copy(slot, order)
        self._copy.begin(layout, arrays, later, self._give_soon)
        if self._copy.is_whole:
            self.finish_copy()

    def _give_soon(self, copy: Copy) -> None:
        """A snapshot is whole: give it to the keeper, if that is easy, since the loop may not come by for long. Called
        by the thread that copied it."""
        with self._line.talking:
            if self._line.keeper is None:
                return
            try:
                self._line.keeper.save(self._slots.number(copy.slot), copy.order)
            except OSError:
                # The loop tries again, and does what has to be done then.
                return
            self._slots.note_taken(copy.slot, copy.order)
            copy.slot.is_given = True

    def finish_copy(self) -> Copy | None:
        """Wait for the snapshot that is being copied, and see that it is written; it, or None if there is none.

        Raises LastgoodError as `save` does.
        """
        if self._copy is None:
            return None
        self._copy.join()
        copy, self._copy = self._copy, None
        self.notes += self._slots.notes()
        if copy.problem is not None:
            self._journal("save_failed", step=copy.order.step, rank=self._home.rank, error=copy.problem.what)
            self._note(protocol.failed(copy.order.step, copy.problem))
        elif not copy.slot.turn:
            self._slots.note_taken(copy.slot, copy.order)
            if self._line.keeper is None:
                self._refuse_fenced()
                # One that is found here is given the order with all that is unfinished.
                if not self._line.remake(self._offer_again, 0.0, SHORT_ANSWER_S):
                    self._write_here(copy.slot)
            else:
                self.tell(lambda keeper: self._give(keeper, copy.slot, copy.order))
        return copy

    def hold_changes(self, limit_s: float) -> None:
        """Called before arrays change that may still be on their way into a slot: returns when they may."""
        if self._copy is not None:
            self._copy.hold_changes(limit_s)

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
            self.tell(lambda keeper: keeper.give_up(step, self._attempt, reason))

    def unfinished(self) -> list[int]:
        """Steps whose fate is not known yet, oldest first."""
        steps = {order.step for _, order in self._slots.ordered()}
        return sorted(steps if self._copy is None else {*steps, self._copy.order.step})

    def wait(self, limit_s: float, beat: Callable[[], None]) -> None:
        """Wait until the fate of every save is known. Raises StorageError after the limit."""
        self.finish_copy()
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

    def tell(self, call: Callable[[Keeper], None]) -> None:
        """Say something to the keeper, if there is one. Raises FencedError as `events` does."""
        try:
            with self._line.talking:
                if self._line.keeper is not None:
                    call(self._line.keeper)
        except OSError as error:
            self._recover(error)
        except BaseException:
            # An exception from a signal handler of the program: whether it was sent is not known.
            self._line.lose()
            raise

    def _poll(self, wait_s: float) -> None:
        now = time.monotonic()
        is_busy = bool(self.unfinished())
        if self._line.keeper is None:
            if is_busy:
                self._recover(ConnectionError("the connection was interrupted"))
            return
        if not wait_s and now - self._looked_at < (_BUSY_LOOK_S if is_busy else _IDLE_LOOK_S):
            return
        self._looked_at = now
        try:
            with self._line.talking:
                for slot, order in self._slots.ordered():
                    if not slot.is_given:
                        # An exception came between taking it and giving it.
                        self._give(self._line.keeper, slot, order)
                events = self._line.keeper.events(wait_s)
            for event in events:
                self._line.losses = 0
                self._note(event)
        except OSError as error:
            self._recover(error)
        except BaseException:
            # From a signal handler of the program: what was heard may be lost. It is told again to who asks anew.
            self._line.lose()
            raise

    def _note(self, event: Event) -> None:
        self._events.append(event)
        # Rank 0 is told of the commit; for the others their part is all.
        is_end = isinstance(event, protocol.Committed | protocol.Failed) or (
            isinstance(event, protocol.Written) and self._home.rank != 0
        )
        if is_end:
            self._slots.note_end(event.step)

    def _await_slot(self, limit_s: float, beat: Callable[[], None]) -> Slot:
        limit = time.monotonic() + limit_s
        while (slot := self._slots.free()) is None:
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

    def close(self, *, is_expected_back: bool = False) -> None:
        """An orderly end. Nothing that we hold is needed again, unless the next attempt restores from it: one of several
        ranks that dies has the others end with an error."""
        if self._copy is not None:
            self._copy.join()
        self.is_there()
        self._line.close(is_expected_back=is_expected_back)
        self._slots.close()

    def disown(self) -> None:
        """In a child that was forked from us: the connection and the memory must end with us, not with it."""
        self._copy = None
        self._line.disown()
        self._slots.disown()
