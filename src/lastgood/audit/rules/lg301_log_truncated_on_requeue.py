"""LG301: the log of the attempt that failed is gone when the job starts again."""

from collections.abc import Iterator

from lastgood.audit.batch.attempts import asks_for_requeue, is_requeued
from lastgood.audit.batch.limits import is_short
from lastgood.audit.batch.logs import NOWHERE, appends, is_new_at_each_restart
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity
from lastgood.audit.source import Edit


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    header = script.header
    if not header.directives or is_short(script) or not is_requeued(script, context):
        return
    if appends(script, context) or is_new_at_each_restart(script) or header.value("output") in NOWHERE:
        return
    mode = header.get("open-mode")
    at = mode or header.get("requeue") or header.get("output") or header.directives[0]
    who = "the job is requeued" if asks_for_requeue(script) else "this cluster requeues jobs (JobRequeue=1)"
    how = (
        "`--open-mode=truncate` begins"
        if mode is not None
        else "nothing says `--open-mode=append`, so Slurm as a rule begins"
    )
    yield Hit(
        span=at.span,
        message=f"{who}, and {how} its output files anew at each start: what the failed attempt said is lost, the reason of its "
        "failure too",
        remedy="add `#SBATCH --open-mode=append`" if mode is None else "write `--open-mode=append`",
        edits=(Edit(header.end, header.end, "#SBATCH --open-mode=append\n"),) if mode is None else (),
    )


RULE = Rule(
    code="LG301",
    name="log-truncated-on-requeue",
    severity=Severity.NOTE,
    what="A job that is requeued, without `--open-mode=append`.",
    why="A requeued job keeps its id, so `slurm-%j.out` has the same name again, and with JobFileAppend=0 (the default) it is "
    "truncated. The messages of the attempt that failed are what one needs to find out why.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --output=logs/%x-%j.out
srun --kill-on-bad-exit=1 python train.py --resume
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --output=logs/%x-%j.out
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --resume
""",
    safe_to_ignore="The cluster sets JobFileAppend=1, or the program keeps a log of its own.",
    source="sbatch(1), --open-mode; slurm.conf(5), JobFileAppend",
    reads=BatchScript,
    check=check,
)
