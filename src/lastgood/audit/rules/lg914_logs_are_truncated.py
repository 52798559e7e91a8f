"""LG914: a requeued job overwrites what it printed before."""

from collections.abc import Iterator

from lastgood.audit.policy import Policy
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(policy: Policy, context: Context) -> Iterator[Hit]:
    setting = policy.setting("JobFileAppend")
    if setting is None or policy.is_true("JobFileAppend") is not False:
        return
    yield Hit(
        span=setting.span,
        path=setting.path,
        message="the output file of a requeued job is emptied when it starts again, unless it says `--open-mode=append`: why the "
        "attempt before ended is then not to be found",
        remedy="`JobFileAppend=1`",
    )


RULE = Rule(
    code="LG914",
    name="logs-are-truncated",
    severity=Severity.NOTE,
    what="`JobFileAppend=0` in the scheduler's settings.",
    why="A requeued job writes to the same file. With 0 the output of the attempt that failed is gone, and with "
    "it the reason.",
    bad="""\
ClusterName=c1
SlurmctldHost=head
JobFileAppend=0
""",
    good="""\
ClusterName=c1
SlurmctldHost=head
JobFileAppend=1
""",
    safe_to_ignore="Users are used to it: a job that is submitted again with a fixed file name would add to an old log.",
    source="slurm.conf(5), JobFileAppend; sbatch(1), --open-mode",
    reads=Policy,
    check=check,
)
