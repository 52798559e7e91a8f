"""A job that works, saves, fails and restarts, walked through event by event: Monte Carlo, seeded.

It shares no formula with `lastgood.core.interval`, so that the two can be held against each other. Many jobs are
walked at once, as arrays. Each job:

- starts for `restart_s`, then works; after each interval of work the loop stands still for the stall of a save;
- its write goes on beside the loop and is committed `lag_s` after the stall; storage takes one write at a time, so a save
  that is due before the last write is done waits for it, with the loop;
- with two levels, every so often a snapshot also goes to the far level, beside the loop, one at a time;
- fails when its life is over (exponential or Weibull, drawn anew after each failure; the life includes starts and
  saves), loses what was not committed, and is down for `down_s`, in which nothing fails;
- after a near failure it goes on from the newest near commit, after a far one from the newest far commit.

What is counted is the work that survives, per time that passed. Between two failures the same repeats with every save,
and with every save that also goes to the far level: all but the end of it is passed over at once.
"""

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_State = tuple[tuple[Floats, ...], tuple[Floats, ...], tuple[Floats, ...]]


class Far(msgspec.Struct, frozen=True):
    """The second level, for failures that take the node and what is on it away."""

    write_s: float
    """From the snapshot until it is committed there."""
    interval_s: float
    """A snapshot goes there when so much time has passed since the last one that did, and its write is done."""
    share: float
    """Of all failures, those that need it."""


class Walk(msgspec.Struct, frozen=True, kw_only=True):
    """What is simulated. Times in seconds."""

    interval_s: float
    stall_s: float
    lag_s: float = 0.0
    mtti_s: float
    shape: float = 1.0
    down_s: float = 0.0
    restart_s: float = 0.0
    far: Far | None = None


class Outcome(msgspec.Struct, frozen=True):
    """What came of it, each with half the width of its 99 % confidence interval."""

    efficiency: float
    efficiency_error: float
    lost_per_failure_s: float
    """Time that one failure costs: work to do again with its saves, downtime and restarts."""
    lost_error_s: float
    failures: int

    def agrees_with(self, efficiency: float) -> bool:
        return abs(self.efficiency - efficiency) <= self.efficiency_error


_Z = 2.576
"""Two-sided 99 %."""

_MOST_JOBS = 4000
_MOST_FAILURES = 100
"""Where hardly any failure needs the far level, a job ends after so many, behind a life in which its work got there. Of the
rest, which is counted as kept, a far failure takes less than one part in so many of what all of them take."""


def simulate(walk: Walk, *, failures: int = 20_000, seed: int = 1) -> Outcome:
    """Walk about so many failures. The same seed gives the same answer.

    >>> found = simulate(Walk(interval_s=1800, stall_s=60, mtti_s=14400), failures=2000)
    >>> 0.8 < found.efficiency < 0.95, found.failures >= 2000
    (True, True)
    """
    if not walk.interval_s > 0:
        raise ValueError(f"an interval of {walk.interval_s} s")
    # Of two levels only the far failures begin everything anew.
    renewals = failures * (1.0 if walk.far is None else walk.far.share)
    jobs = int(np.clip(max(renewals, failures / _MOST_FAILURES), 25, _MOST_JOBS))
    cycles = math.ceil(renewals / jobs)
    state = _Jobs(walk, jobs, cycles, np.random.default_rng(seed))
    while state.advance():
        pass
    return _outcome(state, walk)


def best_interval_s(walk: Walk, lowest_s: float, highest_s: float, *, failures: int = 20_000, seed: int = 1) -> float:
    """The interval that keeps most work, of 11 between two, spaced evenly in their logarithm; as seen with the same
    failures for each."""
    candidates = np.geomspace(lowest_s, highest_s, 11)
    reached = [
        simulate(msgspec.structs.replace(walk, interval_s=float(one)), failures=failures, seed=seed).efficiency
        for one in candidates
    ]
    # The top of a parabola through the best and its neighbours: chance moves it less than the best alone.
    at = int(np.clip(np.argmax(reached), 2, len(candidates) - 3))
    x, y = np.log(candidates[at - 2 : at + 3]), np.array(reached[at - 2 : at + 3])
    curve = np.polyfit(x - x[2], y, 2)
    top = float(x[2]) if curve[0] >= 0 else float(np.clip(x[2] - curve[1] / (2 * curve[0]), x[0], x[-1]))
    return math.exp(top)


class _Jobs:
    """All jobs side by side. Each has a clock of its own; `advance` takes every job to its own next event."""

    def __init__(self, walk: Walk, jobs: int, cycles: int, rng: np.random.Generator) -> None:
        self._walk = walk
        self._rng = rng
        self._scale_s = walk.mtti_s / math.gamma(1 + 1 / walk.shape)
        self._cycles = cycles
        """Of each job, failures to walk; with two levels those that need the far one, which begin everything anew."""
        self.passed_s = np.zeros(jobs)
        self.kept_s = np.zeros(jobs)
        """Work that is durable, near."""
        self.kept_far_s = np.zeros(jobs)
        self.kept_saves = np.zeros(jobs)
        self.failures = np.zeros(jobs, dtype=np.int64)
        self._renewals = np.zeros(jobs, dtype=np.int64)
        self._kept_saves_far = np.zeros(jobs)
        # Of the present life. Times are since its begin.
        self._life_s = self._drawn(jobs)
        self._done_s = np.zeros(jobs)
        self._saves = np.zeros(jobs)
        self._next_s = np.full(jobs, float(walk.restart_s + walk.interval_s))
        """When the next save is due."""
        self._commit_s, self._commit_work, self._commit_saves = _nothing(jobs), np.zeros(jobs), np.zeros(jobs)
        self._far_s, self._far_work, self._far_saves = _nothing(jobs), np.zeros(jobs), np.zeros(jobs)
        self._far_due_s = np.zeros(jobs)
        self._has_arrived = np.zeros(jobs, dtype=np.bool_)
        self._went_s, self._went_saves = _nothing(jobs), np.zeros(jobs)
        """The last save that also went to the far level: when, and of how many saves it was the last."""
        self._near = (
            (self._next_s, self._commit_s),
            (self._done_s, self._commit_work, self.kept_s),
            (self._saves, self._commit_saves, self.kept_saves),
        )
        """Times, work and counts of saves that move on with each period."""
        self._all = (
            (*self._near[0], self._far_s, self._far_due_s),
            (*self._near[1], self._far_work, self.kept_far_s),
            (*self._near[2], self._far_saves, self._kept_saves_far),
        )

    def _drawn(self, count: int) -> Floats:
        return np.asarray(self._scale_s * self._rng.weibull(self._walk.shape, count))

    def advance(self) -> bool:
        """The next event of each job that is not through; False when all are."""
        active = self._renewals < self._cycles
        if not active.any():
            return False
        # A save that is due while a write is under way waits for it.
        busy = np.isfinite(self._commit_s) & (self._commit_s > self._next_s)
        save_s = np.where(busy, np.inf, self._next_s)
        when = np.minimum(np.minimum(save_s, self._commit_s), np.minimum(self._far_s, self._life_s))
        fails = active & (self._life_s <= when)
        commits = active & ~fails & (self._commit_s <= when)
        arrives = active & ~fails & (self._far_s <= when)
        saves = active & ~fails & ~commits & ~arrives & (save_s <= when)
        self._commit(commits)
        self._arrive(arrives)
        self._save(saves)
        self._fail(fails)
        return True

    def _commit(self, at: NDArray[np.bool_]) -> None:
        # A save that waited begins now; one that did not is still due later.
        self._next_s[at] = np.maximum(self._next_s[at], self._commit_s[at])
        self.kept_s[at] = self._commit_work[at]
        self.kept_saves[at] = self._commit_saves[at]
        self._commit_s[at] = np.inf
        if self._walk.far is None:
            self.kept_far_s[at] = self.kept_s[at]
            self._kept_saves_far[at] = self.kept_saves[at]

    def _arrive(self, at: NDArray[np.bool_]) -> None:
        self.kept_far_s[at] = self._far_work[at]
        self._kept_saves_far[at] = self._far_saves[at]
        self._far_s[at] = np.inf
        self._has_arrived |= at

    def _save(self, at: NDArray[np.bool_]) -> None:
        walk = self._walk
        self._done_s[at] += walk.interval_s
        self._saves[at] += 1
        snapshot_s = self._next_s[at] + walk.stall_s
        self._commit_s[at] = snapshot_s + walk.lag_s
        self._commit_work[at] = self._done_s[at]
        self._commit_saves[at] = self._saves[at]
        self._next_s[at] = snapshot_s + walk.interval_s
        # A save that is due before the last write is done waits for it.
        period_s = walk.stall_s + max(walk.interval_s, walk.lag_s)
        if walk.far is None:
            self._skip(at, self._all, period_s, 1, self._life_s)
        else:
            goes = at & np.isinf(self._far_s) & (self._next_s >= self._far_due_s)
            self._go_far(goes, walk.far)
            due_s = np.where(np.isinf(self._far_s), self._far_due_s, self._far_s)
            self._skip(at, self._near, period_s, 1, np.minimum(due_s, self._life_s))

    def _go_far(self, at: NDArray[np.bool_], far: Far) -> None:
        begins_s = self._next_s[at] - self._walk.interval_s
        self._far_s[at] = begins_s + far.write_s
        self._far_work[at] = self._done_s[at]
        self._far_saves[at] = self._saves[at]
        # Due counts from the interval after, so that a far interval of n near periods takes every n-th.
        self._far_due_s[at] = begins_s + far.interval_s + self._walk.interval_s * (1 - 1e-9)
        again = at & np.isfinite(self._went_s)
        period_s = self._next_s[again] - self._went_s[again]
        self._skip(again, self._all, period_s, self._saves[again] - self._went_saves[again], self._life_s)
        self._went_s[at], self._went_saves[at] = self._next_s[at], self._saves[at]

    def _skip(
        self, at: NDArray[np.bool_], state: _State, period_s: Floats | float, saves: Floats | int, until_s: Floats
    ) -> None:
        """From a save on, pass over whole periods of so many saves each; the last ones before `until_s` are walked."""
        begin_s = self._next_s[at] - self._walk.interval_s
        periods = np.maximum(np.floor((until_s[at] - begin_s) / period_s) - 1, 0)
        times, works, counts = state
        for one in times:
            one[at] += periods * period_s
        for one in works:
            one[at] += periods * saves * self._walk.interval_s
        for one in counts:
            one[at] += periods * saves

    def _fail(self, at: NDArray[np.bool_]) -> None:
        count = int(at.sum())
        if not count:
            return
        walk = self._walk
        self.passed_s[at] += self._life_s[at] + walk.down_s
        self.failures[at] += 1
        needs_far = np.zeros_like(at)
        needs_far[at] = True if walk.far is None else self._rng.random(count) < walk.far.share
        self._renewals[needs_far] += 1
        self._renewals[at & self._has_arrived & (self.failures >= self._cycles * _MOST_FAILURES)] = self._cycles
        self._has_arrived[at] = False
        self.kept_s[needs_far] = self.kept_far_s[needs_far]
        self.kept_saves[needs_far] = self._kept_saves_far[needs_far]
        self._done_s[at] = self.kept_s[at]
        self._saves[at] = self.kept_saves[at]
        self._life_s[at] = self._drawn(count)
        self._next_s[at] = walk.restart_s + walk.interval_s
        self._commit_s[at] = np.inf
        self._far_s[at] = np.inf
        self._far_due_s[at] = 0.0
        self._went_s[at] = np.inf


def _nothing(count: int) -> Floats:
    return np.full(count, np.inf)


def _outcome(state: _Jobs, walk: Walk) -> Outcome:
    """Ratios of sums over the jobs, which are independent of each other; errors by the delta method."""
    efficiency, error = _ratio(state.kept_s, state.passed_s)
    lost = state.passed_s - state.kept_s - state.kept_saves * walk.stall_s
    lost_each, lost_error = _ratio(lost, state.failures.astype(np.float64))
    return Outcome(efficiency, error, lost_each, lost_error, int(state.failures.sum()))


def _ratio(above: Floats, below: Floats) -> tuple[float, float]:
    ratio = float(above.sum() / below.sum())
    residual = above - ratio * below
    deviation = float(np.sqrt(np.sum(residual**2) * len(above) / (len(above) - 1)))
    return ratio, _Z * deviation / float(below.sum())
