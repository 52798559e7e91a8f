"""LG908: a job that ends within its grace may not come back."""

from collections.abc import Iterator

from lastgood.audit.policy import Policy, place_of, where
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(policy: Policy, context: Context) -> Iterator[Hit]:
    if policy.requeue_codes != frozenset():
        return
    warned = [found for found in policy.preemptions if found.mode == "REQUEUE" and found.grace_s]
    if not warned:
        return
    span, path = place_of(warned[0].grace_set, policy)
    yield Hit(
        span=span,
        path=path,
        message=f"with a GraceTime and no RequeueExit, a job of {where(warned)} whose program saves and ends when "
        "it is told of the preemption may count as failed or finished, and is then not requeued",
        remedy="`RequeueExit=75`, and programs that end with 75 when they have saved and are not done",
    )


RULE = Rule(
    code="LG908",
    name="grace-without-requeue-exit",
    severity=Severity.MAY_BE_LOST,
    what="GraceTime above 0 where preempted jobs are requeued, while RequeueExit is empty.",
    why="At the begin of the grace time only the steps get SIGTERM. A program that saves and ends lets the batch "
    "script end by itself, and its exit code counts: the job is FAILED or COMPLETED with work left. The time "
    "that was meant for saving is what loses the job.",
    bad="""\
ClusterName=c1
SlurmctldHost=head
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=low Nodes=n[1-4] PriorityTier=1 GraceTime=300
PartitionName=high Nodes=n[1-4] PriorityTier=10
""",
    good="""\
ClusterName=c1
SlurmctldHost=head
RequeueExit=75
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=low Nodes=n[1-4] PriorityTier=1 GraceTime=300
PartitionName=high Nodes=n[1-4] PriorityTier=10
""",
    safe_to_ignore="The version of Slurm here counts a job that ends in its grace as preempted: try it with `srun sleep "
    "1000` in a batch script.",
    source="Observed with Slurm 22.05 (state FAILED 15:0, not requeued); newer versions may differ",
    reads=Policy,
    check=check,
)
