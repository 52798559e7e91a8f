"""The keeper's work, by three threads: parts are written in the order in which they come; checkpoints whose parts are
all there are committed; and then what is staged is promoted, and what retention gives up is deleted."""

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import msgspec

from lastgood.core.errors import LastgoodError, PermissionDeniedError, StorageError
from lastgood.core.units import duration
from lastgood.keeper import work
from lastgood.keeper.promoting import Chore, Chores
from lastgood.keeper.protocol import Committed, Event, Order, Promoted, TakeUp, Written, failed, printable
from lastgood.store.gentle import Pacer
from lastgood.store.jobdir import JobDirectory
from lastgood.store.record import RECORD_S, Records, state_directory

_LOOK_S, _SELDOM_S = 0.1, 2.0
"""How often the parts of other nodes are looked for: at first, and after a while."""

IN_VAIN_S = 60.0
"""How long the parts of other nodes are waited for when that is hardly worth it: the ranks of this node have ended,
and the next attempt waits for us; or a later checkpoint is there. (Longer where our own part took long.)"""

AGAIN_S = 15.0
"""After how long a promotion that has failed is tried again."""

_TRIES = 3
"""How often, once nobody is left here whose next save would have it tried again."""

_REMEMBERED = 16

Key = tuple[int, int]
Notify = Callable[[int, Event], None]
"""What to tell whom: the second is for who gave the order."""


class _Checkpoint(msgspec.Struct):
    """One that is being made; local ranks give their orders one by one."""

    began: float
    leader: Order | None = None
    """Rank 0's order, once its part is written: then the commit is this keeper's business."""
    leader_since: float = 0.0
    waiting: int = 0
    """Orders of local ranks that are not written yet."""
    givers: dict[int, int] = {}
    """Who gave the order of each local rank, and will be told."""
    written: set[int] = set()
    """Local ranks whose part is there."""
    error: LastgoodError | None = None
    given_up: str = ""
    """Why a part will not come, if the ranks say so."""
    looked_at: float = 0.0


class Desk:
    """Writes and commits for the ranks of one job on one node. `notify` is called from its threads."""

    def __init__(self, job: JobDirectory, notify: Notify, clock: Callable[[], float] = time.monotonic) -> None:
        self._job = job
        self._notify = notify
        self._clock = clock
        self._changed = threading.Condition()
        self._changes = 0
        self._orders: deque[tuple[Order, memoryview]] = deque()
        self._making: dict[Key, _Checkpoint] = {}
        self._lost_parts: dict[Key, LastgoodError] = {}
        """Parts that could not be written before rank 0 gave its order, with the reason."""
        self._detours: dict[Key, str] = {}
        """Why a checkpoint goes past its stage, to the job's own directory; of the newest that do."""
        self._newest_commit: Key = (0, 0)
        self._ended: dict[int, float | None] = {}
        """Local ranks, and when each ended if it did."""
        self._pacer: Pacer | None = None
        """Of the write that is under way."""
        self._is_hurried = False
        self._chores = Chores(job)
        self._chore_pacer: Pacer | None = None
        """Of the promotion that is under way."""
        self._stage = ""
        """Where the job's checkpoints are staged, if they are."""
        self._records = Records(state_directory(dict(os.environ)))
        self._recorded_at = float("-inf")
        self._chore: tuple[Chore, int] | None = None
        """What follows the newest commit and is not done yet, and who is told."""
        self._tries = 0
        """How often what is left of it was tried in vain."""
        for name, task in (("writer", self._write_all), ("committer", self._commit_all), ("clearer", self._clear_all)):
            threading.Thread(target=task, name=f"lastgood-{name}", daemon=True).start()

    def accept(self, order: Order, content: memoryview, giver: int) -> None:
        """Take an order; `content` must not change until `giver` is told that it is written or has failed.

        One that comes again, because who gave it was cut off from us, is not done twice: who gives it now is told.
        """
        with self._changed:
            if order.key not in self._making:
                self._making[order.key] = _Checkpoint(self._clock())
            making = self._making[order.key]
            is_known = order.rank in making.givers
            making.givers[order.rank] = giver
            if not is_known:
                making.waiting += 1
                if order.rank == 0:
                    making.error = self._lost_parts.pop(order.key, None)
                self._orders.append((order, content))
                if order.is_urgent:
                    self._hurry()
                self._note_change()
            is_written = is_known and order.rank in making.written
        if is_written:
            self._notify(giver, Written(order.step))

    def give_up(self, key: Key | None, reason: str) -> None:
        """Parts of that checkpoint, or of all, that are not there yet will not come from other nodes."""
        with self._changed:
            for one in [key] if key is not None else list(self._making):
                if (making := self._making.get(one)) is not None:
                    making.given_up = reason
                    self._note_change()

    def take_up(self, wish: TakeUp, giver: int) -> None:
        """An attempt begins; what is on its stage is promoted from now on, on its behalf."""
        with self._changed:
            self._stage = wish.stage
            self._chores.attempt = max(self._chores.attempt, wish.attempt)
            self._set_chore(Chore(wish.attempt, 0, wish.keep, wish.writing, wish.stage), giver)
            self._note_change()

    def note_rank(self, rank: int, *, is_gone: bool) -> None:
        """A local rank has come, or has ended: a part that it has not given by then will not come."""
        with self._changed:
            self._ended[rank] = self._clock() if is_gone else None
            if self._is_alone():
                # Nobody computes here that would be disturbed.
                self._hurry()
                self._hurry_chore()
            self._note_change()

    def _is_alone(self) -> bool:
        """True if every local rank has ended. (Under the lock.)"""
        return bool(self._ended) and all(ended is not None for ended in self._ended.values())

    def _note_change(self) -> None:
        """(Under the lock.)"""
        self._changes += 1
        self._changed.notify_all()

    def hurry(self, *, promotions: bool = False) -> None:
        """Somebody waits for all that is to be written, or to be promoted, too: no gentleness until it is done."""
        with self._changed:
            self._hurry()
            if promotions:
                self._hurry_chore()

    def _hurry(self) -> None:
        self._is_hurried = bool(self._orders) or self._pacer is not None
        if self._pacer is not None:
            self._pacer.hurry()

    def _hurry_chore(self) -> None:
        if self._chore_pacer is not None:
            self._chore_pacer.hurry()

    def is_idle(self) -> bool:
        """Nothing is left to write, to commit, to promote or to delete."""
        with self._changed:
            return not self._making and self._chore is None

    def is_saved(self) -> bool:
        """Nothing is left to write or to commit."""
        with self._changed:
            return not self._making

    def waiting(self) -> list[int]:
        """Steps that are not committed yet."""
        with self._changed:
            return sorted(step for _, step in self._making)

    # The writer ----------------------------------------------------------------------------------------------

    def _write_all(self) -> None:
        while True:
            with self._changed:
                while not self._orders:
                    self._changed.wait()
                order, content = self._orders.popleft()
                if order.key in self._detours:
                    order = msgspec.structs.replace(order, stage="")
                pacer = self._pacer = work.pacer_of(order)
                if self._is_hurried:
                    pacer.hurry()
            order, error = self._write(order, content, pacer)
            del content
            with self._changed:
                self._pacer = None
                self._is_hurried = self._is_hurried and bool(self._orders)
                giver = self._note_written(order, error)
                self._note_change()
            if error is None:
                self._notify(giver, Written(order.step))
            elif order.rank != 0:
                # Rank 0 is told how its checkpoint ends, once.
                self._notify(giver, failed(order.step, error))

    def _write(self, order: Order, content: memoryview, pacer: Pacer) -> tuple[Order, LastgoodError | None]:
        """Write a part; the order as it was carried out."""
        try:
            if order.stage:
                work.put_part(self._job, order, content, pacer)
                return order, None
        except (StorageError, PermissionDeniedError) as error:
            try:
                order = self._pass_stage(order, error, pacer)
            except LastgoodError as problem:
                work.note_failed(self._job, order, problem)
                return order, problem
        except LastgoodError as error:
            work.note_failed(self._job, order, error)
            return order, error
        try:
            if order.constants_stage:
                self._chores.promoter(order.constants_stage).put_constants(order.attempt, order.constants, pacer)
        except LastgoodError as error:
            work.note_failed(self._job, order, error)
            return order, error
        return order, work.write_part(self._job, order, content, pacer)

    def _pass_stage(self, order: Order, error: LastgoodError, pacer: Pacer) -> Order:
        """The stage has failed: what is there of this checkpoint goes to the job's own directory, and what is to
        come of it, too. Answers the order that says so. Raises LastgoodError."""
        making = self._making[order.key]
        ranks = making.written | ({0} if making.leader is not None else set())
        with suppress(LastgoodError):
            # Also what was there before rank 0's order, or before this keeper.
            ranks |= set(range(order.world_size)) - set(work.missing_parts(self._job, order)) - {order.rank}
        promoter = self._chores.promoter(order.stage)
        self._chores.attempt = max(self._chores.attempt, order.attempt)
        for rank in ranks:
            promoter.carry_over(order.step, order.attempt, rank, pacer)
        for rank in [*ranks, order.rank]:
            work.writer_of(self._job, order).abandon(rank)
        with self._changed:
            self._detours = dict([*self._detours.items()][-_REMEMBERED:]) | {order.key: error.what}
            if making.leader is not None:
                making.leader = msgspec.structs.replace(making.leader, stage="")
        return msgspec.structs.replace(order, stage="")

    def _note_written(self, order: Order, error: LastgoodError | None) -> int:
        """Who is told of it. (Under the lock.)"""
        making = self._making[order.key]
        giver = making.givers[order.rank]
        making.waiting -= 1
        making.error = making.error or error
        if order.rank == 0:
            making.leader, making.leader_since = order, self._clock()
        elif error is None:
            making.written.add(order.rank)
        else:
            del making.givers[order.rank]
        if not making.waiting and 0 not in making.givers:
            # The checkpoint is committed elsewhere, or rank 0 has not come so far yet.
            del self._making[order.key]
            if making.error is not None:
                self._lost_parts = dict([*self._lost_parts.items()][-_REMEMBERED:]) | {order.key: making.error}
        return giver

    # The committer -------------------------------------------------------------------------------------------

    def _commit_all(self) -> None:
        while True:
            with self._changed:
                seen = self._changes
                ready = [m.leader for _, m in sorted(self._making.items()) if m.leader is not None and not m.waiting]
                if not ready:
                    self._changed.wait()
                    continue
            # An older one that still waits for a part must not hold up a newer one.
            if not any(self._conclude(order) for order in ready):
                with self._changed:
                    if self._changes == seen:
                        self._changed.wait(self._pause_s())

    def _pause_s(self) -> float:
        """Every look lists a directory, which may be large, and others may look, too. (Under the lock.)"""
        waits = [self._clock() - m.leader_since for m in self._making.values() if m.leader is not None]
        return min(_SELDOM_S, max(_LOOK_S, min(waits, default=0.0) / 10))

    def _conclude(self, order: Order) -> bool:
        """Commit a checkpoint, or give it up; False if a part of it is still to come."""
        making = self._making[order.key]
        event: Event
        try:
            if making.error is not None:
                raise making.error
            if self._is_part_missing(order, making):
                return False
            order, event = self._commit(order)
        except LastgoodError as error:
            work.give_back(self._job, order)
            if making.error is None:
                work.note_failed(self._job, order, error)
            event = failed(order.step, error)
        with self._changed:
            giver = making.givers[0]
            if isinstance(event, Committed):
                self._newest_commit = max(self._newest_commit, order.key)
                self._stage = order.stage or self._stage
                self._set_chore(Chore(order.attempt, order.step, order.keep, order.writing, self._stage), giver)
            if making.waiting:
                # A part that has come again, from a rank that was cut off from us, has yet to be told of.
                making.leader = None
            else:
                del self._making[order.key]
            self._note_change()
        self._notify(giver, event)
        if isinstance(event, Committed) and self._clock() - self._recorded_at >= RECORD_S:
            # A job whose directory vanishes before it could look has saved all the same.
            self._recorded_at = self._clock()
            self._records.note_saved(self._job.path, self._job.id, event.step)
        return True

    def _commit(self, order: Order) -> tuple[Order, Committed]:
        """Commit a checkpoint whose parts are all there; the order as it was carried out. Raises LastgoodError."""
        try:
            committed = work.commit_parts(self._job, order)
        except (StorageError, PermissionDeniedError) as error:
            if not order.stage:
                raise
            order = self._pass_stage(order, error, work.pacer_of(order))
            committed = work.commit_parts(self._job, order)
        return order, msgspec.structs.replace(committed, detour=printable(self._detours.get(order.key, "")))

    def _is_part_missing(self, order: Order, making: _Checkpoint) -> bool:
        """Raises RankTimeoutError if one will not come, FencedError if it is too late for all."""
        missing = work.missing_parts(self._job, order)
        if not missing:
            return False
        now = self._clock()
        with self._changed:
            if making.waiting:
                # A local rank was slower than rank 0.
                return True
            never = [rank for rank in missing if self._ended.get(rank) is not None and rank not in making.givers]
            ended = self._ended.get(0)
            given_up, is_overtaken = making.given_up, order.key < self._newest_commit
        if never:
            raise work.part_never_came(order, never, "ended before giving its part")
        if given_up:
            raise work.part_never_came(order, missing, f"gave no part ({given_up})")
        since, limit_s = making.leader_since, order.limit_s
        if ended is not None or is_overtaken:
            since = max(since, ended or since)
            limit_s = min(limit_s, max(IN_VAIN_S, 3 * (making.leader_since - making.began)))
        if now - since > limit_s:
            raise work.part_never_came(order, missing, f"gave no part within {duration(now - since)}")
        if now - making.looked_at > work.FENCE_LOOK_S:
            making.looked_at = now
            work.refuse_fenced(self._job, order)
        return True

    # Who clears up -------------------------------------------------------------------------------------------

    def _set_chore(self, chore: Chore, giver: int) -> None:
        """(Under the lock.)"""
        self._chore, self._tries = (chore, giver), 0

    def _clear_all(self) -> None:
        while True:
            with self._changed:
                while self._chore is None:
                    self._changed.wait()
                chore, giver = self._chore
                pacer = self._chore_pacer = Pacer(chore.writing)
                if self._is_alone():
                    pacer.hurry()
            events = self._chores.do(chore, pacer)
            for event in events:
                self._notify(giver, event)
            with self._changed:
                self._chore_pacer = None
                is_newest = self._chore is not None and self._chore[0] is chore
                is_left = any(isinstance(event, Promoted) and event.is_left for event in events)
                if is_newest and is_left and (self._tries < _TRIES or not self._is_alone()):
                    self._tries += 1
                    self._rest(chore)
                elif is_newest:
                    self._chore = None

    def _rest(self, chore: Chore) -> None:
        """Storage that has failed gets a while before it is tried again. (Under the lock.)"""
        limit = self._clock() + AGAIN_S
        while self._chore is not None and self._chore[0] is chore and (left_s := limit - self._clock()) > 0:
            self._changed.wait(left_s)
