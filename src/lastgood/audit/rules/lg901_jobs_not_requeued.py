"""LG901: jobs are not requeued unless each one asks for it."""

from collections.abc import Iterator

from lastgood.audit.policy import Policy
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(policy: Policy, context: Context) -> Iterator[Hit]:
    setting = policy.setting("JobRequeue")
    if setting is None or policy.is_true("JobRequeue") is not False:
        return
    are_cancelled = any(preemption.mode == "REQUEUE" for preemption in policy.preemptions)
    yield Hit(
        span=setting.span,
        path=setting.path,
        message="a job that does not say `--requeue` ends for good when its node dies"
        + (
            ", and is cancelled where another one preempts it, although PreemptMode says REQUEUE"
            if are_cancelled
            else ""
        )
        + "; `scontrol requeue` is refused for it, too",
        remedy="`JobRequeue=1`; jobs that must not run twice say `--no-requeue`",
        severity=Severity.MAY_BE_LOST if are_cancelled else None,
    )


RULE = Rule(
    code="LG901",
    name="jobs-not-requeued",
    severity=Severity.WASTEFUL,
    what="`JobRequeue=0` in the scheduler's settings.",
    why="JobRequeue is the default of `--requeue`. With 0 a job whose node dies is not started again, "
    "PreemptMode=REQUEUE cancels jobs in place of requeueing them, and `scontrol requeue` is refused. Most "
    "users do not know that they have to ask for it.",
    bad="""\
ClusterName=c1
SlurmctldHost=head
JobRequeue=0
""",
    good="""\
ClusterName=c1
SlurmctldHost=head
JobRequeue=1
""",
    safe_to_ignore="Many users' jobs must not run twice, and the site tells all others to write `--requeue`.",
    source="slurm.conf(5), JobRequeue and PreemptMode; sbatch(1), --requeue",
    reads=Policy,
    check=check,
)
