"""LG905: suspended jobs that nothing resumes."""

from collections.abc import Iterator

from lastgood.audit.policy import Policy, place_of, where
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(policy: Policy, context: Context) -> Iterator[Hit]:
    suspending = [preemption for preemption in policy.preemptions if preemption.mode == "SUSPEND"]
    if not suspending or policy.has_gang is not False:
        return
    span, path = place_of(suspending[0].mode_set, policy)
    is_refused = "SUSPEND" in (policy.get("PreemptMode") or "").upper()
    yield Hit(
        span=span,
        path=path,
        message="slurmctld does not start with this: it wants GANG, because only the gang scheduler resumes suspended jobs"
        if is_refused
        else f"jobs of {where(suspending)} are suspended, and only the gang scheduler resumes them, which is off: "
        "they may stand still for good",
        remedy="`PreemptMode=SUSPEND,GANG` for the cluster as a whole, or `PreemptMode=REQUEUE`",
    )


RULE = Rule(
    code="LG905",
    name="suspend-without-gang",
    severity=Severity.MAY_BE_LOST,
    what="PreemptMode=SUSPEND somewhere, without GANG in the cluster's own PreemptMode.",
    why="SUSPEND needs GANG at the cluster's level, as the manual says: the gang scheduler is what resumes a "
    "suspended job when the one that preempted it has ended.",
    bad="""\
ClusterName=c1
SlurmctldHost=head
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=low Nodes=n[1-4] PriorityTier=1 PreemptMode=SUSPEND
PartitionName=high Nodes=n[1-4] PriorityTier=10
""",
    good="""\
ClusterName=c1
SlurmctldHost=head
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=low Nodes=n[1-4] PriorityTier=1
PartitionName=high Nodes=n[1-4] PriorityTier=10
""",
    safe_to_ignore="Never.",
    source='slurm.conf(5), PreemptMode, SUSPEND: "always needs the GANG option to be specified at the cluster '
    "level\"; observed with Slurm 22.05: fatal for the cluster's own mode, accepted for a partition's",
    reads=Policy,
    check=check,
)
