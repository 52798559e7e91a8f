"""The keeper's work: parts are written in the order in which they come, by one thread; another commits the
checkpoints whose parts are all there, and deletes what retention gives up."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable

import msgspec

from lastgood.core.errors import FencedError, LastgoodError, RankTimeoutError
from lastgood.core.units import duration
from lastgood.keeper.protocol import Cleared, Committed, Event, Order, Written, failed
from lastgood.store import durable
from lastgood.store.attempts import Journal, check_fence
from lastgood.store.committing import commit, note_failure, retain
from lastgood.store.gentle import FullSpeed, Pacer
from lastgood.store.jobdir import JobDirectory
from lastgood.store.sweep import Retention
from lastgood.store.writer import CheckpointWriter

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
        self._retention: tuple[Order, Retention] | None = None
        self._is_retention_due = False
        self._is_clearing = self._is_over = False
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
            return not (self._making or self._is_retention_due or self._is_clearing)

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
            error = self._write(order, content)
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

    def _write(self, order: Order, content: memoryview) -> LastgoodError | None:
        writer = self._writer(order)
        try:
            with durable.explained("look for newer attempts in", self._job.attempts):
                check_fence(self._job, order.attempt)
            writer.write_laid_out(order.rank, [content], order.entries, order.shared, _pacer(order))
        except LastgoodError as error:
            self._note_failure(order, error)
            return error
        return None

    # The committer -------------------------------------------------------------------------------------------

    def _commit_all(self) -> None:
        while True:
            with self._changed:
                order = self._next_to_commit()
                is_clearing = order is None and self._is_retention_due
                if is_clearing:
                    self._is_retention_due, self._is_clearing = False, True
                elif order is None:
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
        making = self._making[order.key]
        error = making.error
        if error is None:
            try:
                if self._is_part_missing(order, making):
                    with self._changed:
                        self._changed.wait(_LOOK_S)
                    return
                event = self._commit(order)
            except LastgoodError as problem:
                error = problem
                self._note_failure(order, error)
        if error is not None:
            self._writer(order).abandon(order.rank)
            event = failed(order.step, error)
        with self._changed:
            del self._making[order.key]
        self._notify(0, event)

    def _is_part_missing(self, order: Order, making: _Checkpoint) -> bool:
        """Raises RankTimeoutError if one will not come, FencedError if it is too late for all."""
        try:
            missing = self._writer(order).missing_parts(order.world_size)
        except OSError as error:
            raise durable.explain(error, "look for the parts in", self._writer(order).directory) from error
        if not missing:
            return False
        with self._changed:
            if making.waiting:
                # A local rank was slower than rank 0.
                return True
            never = [rank for rank in missing if self._gone.get(rank) and rank not in making.given]
        waited_s = self._clock() - making.leader_since
        if never or waited_s > order.limit_s:
            ranks = _listed(never or missing)
            how = "ended before giving its part" if never else f"gave no part within {duration(waited_s)}"
            raise RankTimeoutError(
                f"{ranks} {how} of the checkpoint of step {order.step}",
                safe="earlier checkpoints are untouched",
                remedy="look for the first error in that rank's output",
            )
        if self._clock() - making.looked_at > _FENCE_LOOK_S:
            making.looked_at = self._clock()
            with durable.explained("look for newer attempts in", self._job.attempts):
                check_fence(self._job, order.attempt)
        return True

    def _commit(self, order: Order) -> Event:
        journal = Journal(self._job, order.attempt)
        try:
            manifest, write_s = commit(
                self._writer(order),
                journal,
                order.world_size,
                clock=time.time,
                began=order.began,
                metrics=order.metrics,
                config=order.config,
                fingerprint=order.fingerprint,
            )
        finally:
            journal.close()
        self._is_retention_due = True
        if self._retention is None or (self._retention[0].attempt, self._retention[0].keep) != (
            order.attempt,
            order.keep,
        ):
            self._retention = (order, Retention(self._job, order.keep, order.attempt))
        else:
            self._retention = (order, self._retention[1])
        return Committed(order.step, manifest.name, manifest.bytes, write_s)

    def _clear(self) -> None:
        assert self._retention is not None
        order, retention = self._retention
        _pacer(order).enter()
        journal = Journal(self._job, order.attempt)
        try:
            trouble = retain(retention, journal, order.step)
        except FencedError:
            # The next save of this attempt meets the fence, too, and says so.
            trouble = ""
        finally:
            journal.close()
            with self._changed:
                self._is_clearing = False
        self._notify(0, Cleared(order.step, trouble))

    # ---------------------------------------------------------------------------------------------------------

    def _writer(self, order: Order) -> CheckpointWriter:
        return CheckpointWriter(self._job, order.step, order.attempt)

    def _note_failure(self, order: Order, error: LastgoodError) -> None:
        self._writer(order).abandon(order.rank)
        journal = Journal(self._job, order.attempt)
        note_failure(journal, order.step, order.rank, error)
        journal.close()


def _pacer(order: Order) -> Pacer:
    return FullSpeed(order.writing.threads) if order.is_urgent else Pacer(order.writing)


def _listed(ranks: Iterable[int]) -> str:
    found = [str(rank) for rank in ranks]
    return f"rank{'s' if len(found) > 1 else ''} {', '.join(found[:20])}"
