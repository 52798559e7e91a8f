"""LG912: MaxBatchRequeue does not limit what it seems to."""

from collections.abc import Iterator

from lastgood.audit.policy import Policy
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(policy: Policy, context: Context) -> Iterator[Hit]:
    setting = policy.setting("MaxBatchRequeue")
    dump = policy.setting("SLURM_VERSION")
    requeues = [
        name
        for name, is_so in (
            ("RequeueExit", bool(policy.requeue_codes)),
            ("preemption", any(preemption.mode == "REQUEUE" for preemption in policy.preemptions)),
        )
        if is_so
    ]
    # A dump has it always; only in a file did somebody choose it.
    if setting is None or dump is not None or not requeues:
        return
    yield Hit(
        span=setting.span,
        path=setting.path,
        message=f"this limits requeues after failed launches; those by {' or '.join(requeues)} and `scontrol requeue` have "
        "no limit, so a job that fails at once can come back for ever",
        remedy="a limit in the job itself, as `[ ${SLURM_RESTART_COUNT:-0} -lt 20 ]`, or a launcher that counts restarts without progress",
    )


RULE = Rule(
    code="LG912",
    name="batch-requeue-limit-is-no-restart-limit",
    severity=Severity.NOTE,
    what="MaxBatchRequeue is set, and jobs are requeued by exit code or by preemption.",
    why="It reads like a limit for restarts, and counts launches that failed (with some versions also dead "
    "nodes). Slurm has no limit for requeues by RequeueExit, by preemption or by `scontrol requeue`: one job "
    "was seen that was requeued 35 times and preempted hundreds of others each time.",
    bad="""\
ClusterName=c1
SlurmctldHost=head
RequeueExit=75
MaxBatchRequeue=3
""",
    good="""\
ClusterName=c1
SlurmctldHost=head
RequeueExit=75
""",
    safe_to_ignore="It is meant for failed launches.",
    source="slurm.conf(5), MaxBatchRequeue; Slurm's pull request 209, which asks for limits of the other kinds",
    reads=Policy,
    check=check,
)
