"""The ways to save: where a checkpoint goes, what the loop waits for, and which failures it survives. Pure.

| way | the loop waits for | a snapshot counts | lost with a node |
|---|---|---|---|
| synchronous shared | the whole write | at once | nothing |
| asynchronous shared | the copy in memory | after the write | the write under way |
| synchronous local | the write to the node's disk | at once, while the node lives | all since the last promoted one |
| asynchronous local | the copy in memory | after the local write | all since the last promoted one |
| replicated in memory | the copy in memory | after the copy to another node | what both nodes held |
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
    promotion = Promotion(write_s, write_s / s.usual_write_share, s.failures.node_share(s.nodes))
    if s.local_write_s is not None:
        is_offered = s.nodes == 1
        how = 'Run(stage="DIR on the node\'s disk")' if is_offered else "lastgood stages jobs of one node only"
        near_stall_s = min(stall_s, s.local_write_s)
        if near_stall_s < s.local_write_s:
            found.append(Way(ASYNCHRONOUS_LOCAL, near_stall_s, s.local_write_s, is_offered, how, promotion))
        found.append(Way(SYNCHRONOUS_LOCAL, s.local_write_s, s.local_write_s, False, how, promotion))
    if s.replica_write_s is not None:
        # One lost node is survived; how often two are lost at once, nobody has said.
        far = msgspec.structs.replace(promotion, share=0.0)
        near_stall_s = min(stall_s, s.replica_write_s)
        how = "lastgood keeps snapshots on the node that made them, and copies none to another"
        found.append(Way(REPLICATED, near_stall_s, s.replica_write_s, False, how, far))
    return found


def way_efficiency(way: Way, interval_s: float, s: Situation) -> float:
    """Share of the time that is work which is never done again, at this interval, under failures without memory.

    One level: `core.interval.efficiency`, exact. Two: (I/P) exp(-(loss + restart)/M) / (1 + down/M) with the loss
    (1 - q)(P/2 + lag) + q (J/2 + promotion): first order in each level, q the share that needs promoted ones, J their
    interval. A write that does not fit into the interval makes the next save wait: the loop stands still for it.
    """
    mtti_s = s.mtti_s
    # Storage takes one write at a time: a save that is due before waits, and the loop with it.
    waiting_s = max(way.write_s - interval_s - way.stall_s, 0.0)
    stall_s = way.stall_s + waiting_s
    if way.promotion is None:
        return efficiency(interval_s, stall_s, mtti_s, lag_s=way.lag_s, detection_s=s.down_s, restart_s=s.restart_s)
    period_s = interval_s + stall_s
    loss_s = loss_after_failure_s(way, period_s)
    return interval_s / period_s * math.exp(-(loss_s + s.restart_s) / mtti_s) / (1 + s.down_s / mtti_s)


def loss_after_failure_s(way: Way, interval_s: float) -> float:
    """Mean work to be done again after an interruption, first order: half an interval, and what was not committed."""
    near_s = interval_s / 2 + way.lag_s
    if way.promotion is None:
        return near_s
    far = way.promotion
    far_s = max(far.interval_s, interval_s) / 2 + far.write_s
    return (1 - far.share) * near_s + far.share * far_s
