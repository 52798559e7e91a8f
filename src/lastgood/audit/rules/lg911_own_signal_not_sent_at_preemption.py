"""LG911: a job's own --signal is not sent when it is preempted."""

from collections.abc import Iterator

from lastgood.audit.policy import Policy, place_of, where
from lastgood.audit.rule import Context, Hit, Rule, Severity

_OPTIONS = ("PreemptParameters", "SlurmctldParameters")


def check(policy: Policy, context: Context) -> Iterator[Hit]:
    options = [policy.get(name) for name in _OPTIONS]
    if None in options or any("send_user_signal" in (text or "") for text in options):
        return
    warned = [found for found in policy.preemptions if found.mode != "SUSPEND" and found.grace_s]
    if not warned:
        return
    span, path = place_of(warned[0].grace_set, policy)
    yield Hit(
        span=span,
        path=path,
        message=f"a job of {where(warned)} is told of its preemption with SIGTERM, whatever it asks for with "
        "`--signal`: one that saves only on SIGUSR1 may save nothing",
        remedy="`PreemptParameters=send_user_signal` (`SlurmctldParameters=preempt_send_user_signal` in older versions)",
    )


RULE = Rule(
    code="LG911",
    name="own-signal-not-sent-at-preemption",
    severity=Severity.NOTE,
    what="A GraceTime without `send_user_signal`.",
    why="Many jobs ask for USR1 or USR2 before their time limit and save when it comes. Without this option a "
    "preemption sends SIGTERM in its place, to the steps only, and such a program dies of it.",
    bad="""\
ClusterName=c1
SlurmctldHost=head
RequeueExit=75
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
PreemptParameters=send_user_signal
PartitionName=low Nodes=n[1-4] PriorityTier=1 GraceTime=300
PartitionName=high Nodes=n[1-4] PriorityTier=10
""",
    safe_to_ignore="Programs here save on SIGTERM.",
    source="slurm.conf(5), PreemptParameters=send_user_signal, SlurmctldParameters=preempt_send_user_signal",
    reads=Policy,
    check=check,
)
