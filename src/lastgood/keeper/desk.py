"""The keeper's work: parts are written in the order in which they come, by one thread; another commits the
checkpoints whose parts are all there, and deletes what retention gives up."""

import os
import threading
import time
from collections import deque
from collections.abc import Callable

import msgspec

from lastgood.core.errors import FencedError, LastgoodError
from lastgood.core.retention import Keep
from lastgood.core.units import duration
from lastgood.keeper import work
from lastgood.keeper.protocol import Committed, Event, Order, Written, failed
from lastgood.store.jobdir import JobDirectory
from lastgood.store.record import RECORD_S, Records, state_directory
from lastgood.store.sweep import Retention

_LOOK_S = 0.1
"""How often the parts of other nodes are looked for."""

_FENCE_LOOK_S = 2.0

Key = tuple[int, int]
Notify = Callable[[int, Event], None]


class _Checkpoint(msgspec.Struct):
    """One that is being made; local ranks give their orders one by one."""

    leader: Order | None = None
    """Rank 0's order, once its part is written: then the commit is this keeper's business."""
    waiting: int = 0
    """Orders of local ranks that are not written yet."""
    given: set[int] = set()
    error: LastgoodError | None = None
    leader_since: float = 0.0
    looked_at: float = 0.0


class Desk:
    """Writes and commits for the ranks of one job on one node. `notify` is called from its threads."""

    def __init__(self, job: JobDirectory, notify: Notify, clock: Callable[[], float] = time.monotonic) -> None:
        self._job = job
        self._notify = notify
        self._clock = clock
        self._changed = threading.Condition()
        self._orders: deque[tuple[Order, memoryview]] = deque()
        self._making: dict[Key, _Checkpoint] = {}
        self._gone: dict[int, bool] = {}
        """Local ranks, and whether each has ended."""
        self._retention: tuple[tuple[int, Keep], Retention] | None = None
        """It remembers what it has verified, so it is kept as long as it serves."""
        self._records = Records(state_directory(dict(os.environ)))
        self._recorded_at = float("-inf")
        self._to_clear: Order | None = None
        """The newest commit that retention has not followed yet."""
        self._threads = [
            threading.Thread(target=self._write_all, name="lastgood-writer", daemon=True),
            threading.Thread(target=self._commit_all, name="lastgood-committer", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def accept(self, order: Order, content: memoryview) -> None:
        """Take an order; `content` must not change until it is written or has failed."""
        with self._changed:
            making = self._making.setdefault(order.key, _Checkpoint())
            making.waiting += 1
            making.given.add(order.rank)
            self._orders.append((order, content))
            self._changed.notify_all()

    def note_rank(self, rank: int, *, is_gone: bool) -> None:
        """A local rank has come, or has ended: a part that it has not given by then will not come."""
        with self._changed:
            self._gone[rank] = is_gone
            self._changed.notify_all()

    def is_idle(self) -> bool:
        """Nothing is left to write, to commit or to delete."""
        with self._changed:
            return not self._making and self._to_clear is None

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
            error = work.write_part(self._job, order, content)
            del content
            with self._changed:
                making = self._making[order.key]
                making.waiting -= 1
                making.error = making.error or error
                if order.rank == 0:
                    making.leader, making.leader_since = order, self._clock()
                if not making.waiting and 0 not in making.given:
                    # The checkpoint is committed elsewhere; here nothing is left to do.
                    del self._making[order.key]
                self._changed.notify_all()
            if error is None:
                self._notify(order.rank, Written(order.step))
            elif order.rank != 0:
                # Rank 0 is told how its checkpoint ends, once.
                self._notify(order.rank, failed(order.step, error))

    # The committer -------------------------------------------------------------------------------------------

    def _commit_all(self) -> None:
        while True:
            with self._changed:
                order = self._next_to_commit()
                is_clearing = order is None and self._to_clear is not None
                if not is_clearing and order is None:
                    self._changed.wait(_LOOK_S if self._making else None)
                    continue
            if order is not None:
                self._conclude(order)
            else:
                self._clear()

    def _next_to_commit(self) -> Order | None:
        """The oldest whose local parts are all written. (Under the lock.)"""
        ready = [m.leader for _, m in sorted(self._making.items()) if m.leader is not None and not m.waiting]
        return ready[0] if ready else None

    def _conclude(self, order: Order) -> None:
        """Commit a checkpoint, or give it up; or wait a little if a part of it is still to come."""
        making = self._making[order.key]
        event: Event
        try:
            if making.error is not None:
                raise making.error
            if self._is_part_missing(order, making):
                with self._changed:
                    self._changed.wait(_LOOK_S)
                return
            event = work.commit_parts(self._job, order)
        except LastgoodError as error:
            if making.error is None:
                work.note_failed(self._job, order, error)
            else:
                work.writer_of(self._job, order).abandon(order.rank)
            event = failed(order.step, error)
        with self._changed:
            if isinstance(event, Committed):
                self._to_clear = order
            del self._making[order.key]
        self._notify(0, event)
        if isinstance(event, Committed) and self._clock() - self._recorded_at >= RECORD_S:
            # A job whose directory vanishes before it could look has saved all the same.
            self._recorded_at = self._clock()
            self._records.note_saved(self._job.path, self._job.id, event.step)

    def _is_part_missing(self, order: Order, making: _Checkpoint) -> bool:
        """Raises RankTimeoutError if one will not come, FencedError if it is too late for all."""
        missing = work.missing_parts(self._job, order)
        if not missing:
            return False
        with self._changed:
            if making.waiting:
                # A local rank was slower than rank 0.
                return True
            never = [rank for rank in missing if self._gone.get(rank) and rank not in making.given]
        if never:
            raise work.part_never_came(order, never, "ended before giving its part")
        waited_s = self._clock() - making.leader_since
        if waited_s > order.limit_s:
            raise work.part_never_came(order, missing, f"gave no part within {duration(waited_s)}")
        if self._clock() - making.looked_at > _FENCE_LOOK_S:
            making.looked_at = self._clock()
            work.refuse_fenced(self._job, order)
        return True

    def _clear(self) -> None:
        order = self._to_clear
        assert order is not None
        if self._retention is None or self._retention[0] != (order.attempt, order.keep):
            self._retention = ((order.attempt, order.keep), Retention(self._job, order.keep, order.attempt))
        work.pacer_of(order).enter()
        event: Event | None = None
        try:
            event = work.clear(self._job, order, self._retention[1])
        except FencedError:
            # The next save of this attempt meets the fence, too, and says so.
            event = None
        with self._changed:
            if self._to_clear is order:
                self._to_clear = None
        if event is not None:
            self._notify(0, event)
