"""LG907: preempted jobs have KillWait and no more to save."""

from collections.abc import Iterator

from lastgood.audit.policy import Policy, place_of, where
from lastgood.audit.rule import Context, Hit, Rule, Severity
from lastgood.core.units import duration


def check(policy: Policy, context: Context) -> Iterator[Hit]:
    kill_wait_s = policy.kill_wait_s
    sudden = [found for found in policy.preemptions if found.mode != "SUSPEND" and found.grace_s == 0]
    if not sudden or kill_wait_s is None:
        return
    is_short = context.write_s is not None and context.write_s > kill_wait_s
    needs = f", and a checkpoint takes {duration(context.write_s)}" if is_short and context.write_s else ""
    span, path = place_of(sudden[0].grace_set or sudden[0].mode_set, policy)
    yield Hit(
        span=span,
        path=path,
        message=f"a preempted job of {where(sudden)} is killed {duration(kill_wait_s)} (KillWait) after its first "
        f"signal, because GraceTime is 0{needs}",
        remedy="`GraceTime=` a few minutes for that partition (or QOS), together with `RequeueExit=75`",
        severity=Severity.MAY_BE_LOST if is_short else None,
    )


RULE = Rule(
    code="LG907",
    name="no-grace-before-preemption",
    severity=Severity.NOTE,
    what="GraceTime 0 for a partition or QOS whose jobs can be preempted.",
    why="GraceTime is the time between the notice of a preemption and its execution. Without it SIGTERM and "
    "SIGKILL are KillWait apart, 30 s by default, which is less than large checkpoints take. With it, "
    "programs that save and end by themselves need an exit code in RequeueExit to come back.",
    bad="""\
ClusterName=c1
SlurmctldHost=head
RequeueExit=75
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=low Nodes=n[1-4] PriorityTier=1
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
    safe_to_ignore="Jobs save often, or within KillWait: then GraceTime 0 has the advantage that a preempted job is requeued "
    "whatever code it ends with.",
    source="slurm.conf(5), GraceTime and KillWait; observed with Slurm 22.05. Whether GraceTime applies to a job "
    "differs between versions and between preempt/qos and preempt/partition_prio",
    reads=Policy,
    check=check,
)
