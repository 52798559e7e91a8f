"""LG303: the script itself begins a log anew each time the job starts."""

from collections.abc import Iterator

from lastgood.audit.batch.attempts import asks_for_requeue, is_chain_of_jobs, resubmissions
from lastgood.audit.batch.changes import new_in_each_job
from lastgood.audit.batch.limits import is_short
from lastgood.audit.batch.logs import truncated_files
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    is_requeued, is_chain = asks_for_requeue(script), is_chain_of_jobs(script)
    if not (is_requeued or is_chain) or is_short(script) or not script.header.directives:
        return
    for found in truncated_files(script):
        file = script.resolve(found.file)
        if not is_requeued and new_in_each_job(file):
            continue
        if found.command.around.is_conditional or found.command.around.loops or _chooses_by_attempt(file.variables):
            continue
        again = (
            "requeued"
            if is_requeued
            else "submitted again"
            if resubmissions(script)
            else "followed by the next segment"
        )
        is_tee = found.operator == "tee"
        yield Hit(
            span=found.file.span,
            message=f"`{found.operator} {found.file.text}` begins the file anew at each start, and the job is {again}: what the attempt "
            "before wrote is lost",
            remedy=f"append: `tee -a {found.file.text}`"
            if is_tee
            else f"append: `{found.operator.replace('>', '>>', 1)} {found.file.text}`",
        )


def _chooses_by_attempt(variables: tuple[str, ...]) -> bool:
    return any("RESTART" in name or "ATTEMPT" in name for name in variables)


RULE = Rule(
    code="LG303",
    name="redirect-truncates-log",
    severity=Severity.NOTE,
    what="A job that is requeued or submits itself again, and sends the output of its work to a file with `>` or `tee`.",
    why="`>` truncates the file at each start, whatever `--open-mode` says. The log of the attempt that failed is overwritten by the "
    "next one, and with programs that write their results to standard output the results are, too.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --resume > train.log 2>&1
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --resume >> train.log 2>&1
""",
    safe_to_ignore="The file holds only the result of a whole run.",
    source="bash(1), redirecting output; sbatch(1), --requeue",
    reads=BatchScript,
    check=check,
)
