"""LG909: KillWait is shorter than a checkpoint takes."""

from collections.abc import Iterator

from lastgood.audit.policy import Policy, place_of
from lastgood.audit.rule import Context, Hit, Rule, Severity
from lastgood.core.units import duration

_TOO_SHORT_S = 10.0


def check(policy: Policy, context: Context) -> Iterator[Hit]:
    kill_wait_s = policy.kill_wait_s
    setting = policy.setting("KillWait")
    if kill_wait_s is None or not (setting or policy.is_whole_cluster):
        return
    span, path = place_of(setting, policy)
    is_short = context.write_s is not None and context.write_s > kill_wait_s
    if not is_short and (kill_wait_s >= _TOO_SHORT_S or context.write_s is not None):
        return
    compared = f", and a checkpoint takes {duration(context.write_s)}" if context.write_s else ""
    yield Hit(
        span=span,
        path=path,
        message=f"SIGKILL follows SIGTERM after {duration(kill_wait_s)} (KillWait){compared}: what is written at the time limit, at "
        "a requeue or at a preemption without grace is cut off",
        remedy="a longer `KillWait=`, or jobs that ask for their signal earlier, as `--signal=USR1@300`",
        severity=Severity.MAY_BE_LOST if is_short else None,
    )


RULE = Rule(
    code="LG909",
    name="kill-wait-short",
    severity=Severity.NOTE,
    what="KillWait against the stated time that a checkpoint takes (`--write`), or below 10 s where none is stated.",
    why="At a time limit, a requeue or a preemption without grace the processes get SIGTERM, and SIGKILL after "
    "KillWait. A checkpoint that takes longer is torn.",
    bad="""\
ClusterName=c1
SlurmctldHost=head
KillWait=30
""",
    good="""\
ClusterName=c1
SlurmctldHost=head
KillWait=180
""",
    safe_to_ignore="All jobs save by themselves before the limit, and torn files do no harm because they are renamed when "
    "they are complete.",
    source="slurm.conf(5), KillWait",
    reads=Policy,
    check=check,
    write_s=120.0,
)
