"""What is known of a job before it runs: its saves, its failures, its place in the queue, what is asked of it. Pure."""

import math

import msgspec

from lastgood.core.interval_choice import SaveCost
from lastgood.core.reliability import DAY_S, NODE_FAILURES_PER_1000_NODE_DAYS, OTHER_INTERRUPTIONS_PER_DAY


class Preset(msgspec.Struct, frozen=True):
    per_1000_node_days: float
    source: str


PRESETS: dict[str, Preset] = {
    "rsc1": Preset(NODE_FAILURES_PER_1000_NODE_DAYS, "Kokolis et al., HPCA 2025, RSC-1"),
    "rsc2": Preset(2.34, "Kokolis et al., HPCA 2025, RSC-2"),
    "llama3": Preset(1000 * 419 / (54 * 2048), "Llama 3: 419 unexpected interruptions, 54 days, 2,048 nodes"),
}
"""Published failure rates of nodes with 8 GPUs, by name. Those of Kokolis et al. (arXiv 2410.21680) are of jobs of more
than 128 GPUs; small jobs fail more often than these rates say, for other reasons."""


USUAL_WRITE_SHARE = 0.10
"""Of the time, as every="auto" has it."""


class Failures(msgspec.Struct, frozen=True, kw_only=True):
    """How often the job is interrupted. Nodes fail on their own, and the job needs all of them."""

    per_1000_node_days: float = 0.0
    others_per_day: float = 0.0
    """Preemption, full memory, maintenance: what strikes the job as a whole, however many nodes it has."""
    mtti_s: float | None = None
    """Stated for the whole job, in place of both."""
    source: str = ""
    low_per_1000_node_days: float | None = None
    high_per_1000_node_days: float | None = None
    """Where the rate was counted, between these it lies in 95 of 100 cases."""
    shape: float = 1.0
    """Of the Weibull distribution of the time between failures: 1 has no memory; below 1 they come in bursts."""

    def per_day(self, nodes: int) -> float:
        if self.mtti_s is not None:
            return DAY_S / self.mtti_s
        return nodes * self.per_1000_node_days / 1000 + self.others_per_day

    def mtti_of_s(self, nodes: int) -> float:
        return DAY_S / self.per_day(nodes)


def assumed_failures() -> Failures:
    """Of a job of which nobody has said anything: as every="auto" assumes it."""
    return Failures(
        per_1000_node_days=NODE_FAILURES_PER_1000_NODE_DAYS,
        others_per_day=OTHER_INTERRUPTIONS_PER_DAY,
        source="assumed; Kokolis et al., HPCA 2025, RSC-1, and once a day for the rest",
    )


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """All that a plan is made from. Times in seconds."""

    save: SaveCost
    save_source: str
    failures: Failures
    nodes: int = 1
    gpus: int | None = None
    local_write_s: float | None = None
    """A save to the node's own disk: until it is committed there."""
    replica_write_s: float | None = None
    """A copy of the snapshot to another node's memory: until it is there."""
    same_nodes: float = 0.0
    """Of all interruptions, the share after which the job starts again on the nodes that it had, with what is on them.
    A requeue may go anywhere."""
    detection_s: float = 0.0
    """From a failure until somebody acts on it."""
    restart_s: float = 0.0
    """From the begin of the next attempt to its first new step. A failure in it begins it anew."""
    queue_s: float = 0.0
    """Waiting for nodes after an interruption: nothing runs, so nothing fails."""
    most_lost_s: float | None = None
    """No more work than this may be lost at once: an interval, with the write that makes it count."""
    max_write_share: float | None = None
    """Stated; None: a tenth, and more where the tolerated loss needs it."""
    max_bytes_per_s: float | None = None
    limit_s: float | None = None
    step_s: float | None = None
    work_s: float | None = None
    every_s: float | None = None
    """An interval to judge in place of the best one."""

    def __post_init__(self) -> None:
        for value in (self.detection_s, self.restart_s, self.queue_s):
            if not 0 <= value < math.inf:
                raise ValueError(f"a duration of {value} s")
        if self.nodes < 1 or (self.gpus is not None and self.gpus < 1):
            raise ValueError(f"{self.nodes} nodes and {self.gpus} GPUs")

    @property
    def mtti_s(self) -> float:
        return self.failures.mtti_of_s(self.nodes)

    @property
    def usual_write_share(self) -> float:
        return USUAL_WRITE_SHARE if self.max_write_share is None else self.max_write_share

    @property
    def down_s(self) -> float:
        """After a failure, while nothing can fail."""
        return self.detection_s + self.queue_s

    def with_rate(self, factor: float) -> "Situation":
        """The same, with failures that many times as often."""
        f = self.failures
        changed = msgspec.structs.replace(
            f,
            per_1000_node_days=f.per_1000_node_days * factor,
            others_per_day=f.others_per_day * factor,
            mtti_s=None if f.mtti_s is None else f.mtti_s / factor,
        )
        return msgspec.structs.replace(self, failures=changed)

    def with_save(self, factor: float) -> "Situation":
        """The same, with saves that take that many times as long: stall and write."""
        save = SaveCost(self.save.stall_s * factor, self.save.write_s * factor, self.save.bytes)
        return msgspec.structs.replace(self, save=save)
