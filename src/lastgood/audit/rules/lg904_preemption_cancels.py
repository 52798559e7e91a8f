"""LG904: a preempted job is cancelled, whatever it asks for."""

from collections.abc import Iterator

from lastgood.audit.policy import Policy, place_of, where
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(policy: Policy, context: Context) -> Iterator[Hit]:
    cancelling = [preemption for preemption in policy.preemptions if preemption.mode == "CANCEL"]
    if not cancelling:
        return
    span, path = place_of(cancelling[0].mode_set, policy)
    yield Hit(
        span=span,
        path=path,
        message=f"a preempted job of {where(cancelling)} is cancelled: `--requeue` does not help it, and it stays away until "
        "somebody submits it again",
        remedy="`PreemptMode=REQUEUE`; jobs that must not run twice say `--no-requeue`, and are then cancelled as now",
    )


RULE = Rule(
    code="LG904",
    name="preemption-cancels",
    severity=Severity.MAY_BE_LOST,
    what="PreemptMode=CANCEL for the cluster, a partition or a QOS whose jobs can be preempted.",
    why="With CANCEL Slurm ends a preempted job for good. What it did since its last checkpoint is lost as with "
    "REQUEUE, but nothing starts it again; scripts that ask for `--requeue` look safe and are not.",
    bad="""\
ClusterName=c1
SlurmctldHost=head
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=low Nodes=n[1-4] PriorityTier=1
PartitionName=high Nodes=n[1-4] PriorityTier=10
""",
    good="""\
ClusterName=c1
SlurmctldHost=head
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=low Nodes=n[1-4] PriorityTier=1 GraceTime=0
PartitionName=high Nodes=n[1-4] PriorityTier=10
""",
    safe_to_ignore="The partition is for work that may be thrown away, and its users know.",
    source="slurm.conf(5), PreemptMode; reports of monitors that waited for ever for jobs that were cancelled so",
    reads=Policy,
    check=check,
)
