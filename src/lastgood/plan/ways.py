"""The ways to save: where a checkpoint goes, what the loop waits for, and which failures it survives. Pure.

| way | the loop waits for | a snapshot counts | lost with a node |
|---|---|---|---|
| synchronous shared | the whole write | at once | nothing |
| asynchronous shared | the copy in memory | after the write | the write under way |
| synchronous local | the write to the node's disk | at once, on this node | all since the last promoted one |
| asynchronous local | the copy in memory | after the local write, on this node | all since the last promoted one |
| replicated in memory | the copy in memory | after the copy, on these nodes | all since the last promoted one |

What is on a node counts only where the job starts again on that node. A requeue may go anywhere, and empties memory.
"""

import math

import msgspec

from lastgood.core.interval import efficiency
from lastgood.plan.situation import Situation


class Promotion(msgspec.Struct, frozen=True):
    """How local checkpoints come to shared storage, beside the loop."""

    write_s: float
    interval_s: float
    """Between two that go there, if the near interval is shorter."""
    share: float
    """Of all interruptions, those that need one from there."""


class Way(msgspec.Struct, frozen=True):
    """One way to save, with its times for a situation."""

    name: str
    stall_s: float
    write_s: float
    """Until a checkpoint counts, from the safe point."""
    is_offered: bool
    """lastgood does this for such a job."""
    how: str
    """How to get it, or why lastgood does not offer it."""
    promotion: Promotion | None = None

    @property
    def lag_s(self) -> float:
        return self.write_s - self.stall_s


ASYNCHRONOUS_SHARED = "asynchronous shared"
SYNCHRONOUS_SHARED = "synchronous shared"
ASYNCHRONOUS_LOCAL = "asynchronous local"
SYNCHRONOUS_LOCAL = "synchronous local"
REPLICATED = "replicated in memory"


def ways_of(s: Situation) -> list[Way]:
    """The ways whose times are known, those of lastgood first."""
    stall_s, write_s = s.save.stall_s, s.save.write_s
    found = []
    if stall_s < write_s:
        found.append(Way(ASYNCHRONOUS_SHARED, stall_s, write_s, True, "as lastgood saves by itself"))
    found.append(Way(SYNCHRONOUS_SHARED, write_s, write_s, True, "Run(background=False), or LASTGOOD_KEEPER=off"))
    promotion = Promotion(write_s, write_s / s.usual_write_share, 1 - s.same_nodes)
    if s.local_write_s is not None:
        is_offered = s.nodes == 1
        how = 'Run(stage="DIR on the node\'s disk")' if is_offered else "lastgood stages jobs of one node only"
        near_stall_s = min(stall_s, s.local_write_s)
        if near_stall_s < s.local_write_s:
            found.append(Way(ASYNCHRONOUS_LOCAL, near_stall_s, s.local_write_s, is_offered, how, promotion))
        found.append(Way(SYNCHRONOUS_LOCAL, s.local_write_s, s.local_write_s, False, how, promotion))
    if s.replica_write_s is not None:
        near_stall_s = min(stall_s, s.replica_write_s)
        how = "lastgood keeps snapshots on the node that made them, and copies none to another"
        found.append(Way(REPLICATED, near_stall_s, s.replica_write_s, False, how, promotion))
    return found


def way_efficiency(way: Way, interval_s: float, s: Situation) -> float:
    """Share of the time that is work which is never done again, at this interval, under failures without memory.

    One level: `core.interval.efficiency`, exact. Two, with q the share that needs promoted ones, J their interval, W their
    write: (I/P) f((1 - q)P/M) f(qJ/M) exp(-((1 - q)L + qW + R)/M) / (1 + D/M), f(x) = x/(e^x - 1). Exact for q = 0 and
    q = 1, where it is one level; between them the levels are taken not to touch each other. A write that does not fit
    into the interval makes the next save wait: the loop stands still for it.
    """
    mtti_s = s.mtti_s
    # Storage takes one write at a time: a save that is due before waits, and the loop with it.
    waiting_s = max(way.write_s - interval_s - way.stall_s, 0.0)
    stall_s = way.stall_s + waiting_s
    if way.promotion is None:
        return efficiency(interval_s, stall_s, mtti_s, lag_s=way.lag_s, detection_s=s.down_s, restart_s=s.restart_s)
    period_s = interval_s + stall_s
    far = way.promotion
    near_share = 1 - far.share
    again = _without_repeated(near_share * period_s / mtti_s)
    again *= _without_repeated(far.share * max(far.interval_s, period_s) / mtti_s)
    not_committed_s = near_share * way.lag_s + far.share * far.write_s
    after = math.exp(-(not_committed_s + s.restart_s) / mtti_s) / (1 + s.down_s / mtti_s)
    return interval_s / period_s * again * after


def _without_repeated(x: float) -> float:
    if x == 0:
        return 1.0
    return x / math.expm1(x) if x < 700 else 0.0


def loss_after_failure_s(way: Way, interval_s: float) -> float:
    """Mean work to be done again after an interruption, first order: half an interval, and what was not committed."""
    near_s = interval_s / 2 + way.lag_s
    if way.promotion is None:
        return near_s
    far = way.promotion
    far_s = max(far.interval_s, interval_s) / 2 + far.write_s
    return (1 - far.share) * near_s + far.share * far_s
