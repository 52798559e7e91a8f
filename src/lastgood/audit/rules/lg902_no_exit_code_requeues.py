"""LG902: no exit code brings a job back."""

from collections.abc import Iterator

from lastgood.audit.policy import Policy, place_of
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(policy: Policy, context: Context) -> Iterator[Hit]:
    setting = policy.setting("RequeueExit")
    if policy.get("RequeueExit") != "" or not (setting or policy.is_whole_cluster):
        return
    span, path = place_of(setting, policy)
    yield Hit(
        span=span,
        path=path,
        message="RequeueExit is not set: a job that saves and stops before its time limit cannot ask to be started again "
        "with its exit code, and has failed instead",
        remedy="`RequeueExit=75`, a code that programs do not end with by accident",
    )


RULE = Rule(
    code="LG902",
    name="no-exit-code-requeues",
    severity=Severity.NOTE,
    what="RequeueExit is empty or not set.",
    why="Slurm requeues after a dead node and after preemption, but not after a time limit, and not if a program "
    "saves and ends by itself when it is told to stop. An exit code in RequeueExit closes both gaps, and "
    "works also while slurmctld is away, when `scontrol requeue` from inside the job gives up.",
    bad="""\
ClusterName=c1
SlurmctldHost=head
JobRequeue=1
""",
    good="""\
ClusterName=c1
SlurmctldHost=head
JobRequeue=1
RequeueExit=75
""",
    safe_to_ignore="Jobs here are short, or chains of jobs with dependencies take care of time limits.",
    source="slurm.conf(5), RequeueExit; observed with Slurm 22.05: a batch script that ends with a listed code "
    "within KillWait is requeued, also at its time limit",
    reads=Policy,
    check=check,
)
