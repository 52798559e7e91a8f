"""LG303: the script itself begins a log anew each time the job starts."""

import re
from collections.abc import Iterator

from lastgood.audit.batch.attempts import asks_for_requeue, is_chain_of_jobs, resubmissions
from lastgood.audit.batch.limits import is_short
from lastgood.audit.batch.logs import Truncated, truncated_files
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.words import Word
from lastgood.audit.rule import Context, Hit, Rule, Severity

_SAME = (
    "HOME",
    "USER",
    "SCRATCH",
    "WORK",
    "PROJECT",
    "PWD",
    "SLURM_JOB_NAME",
    "SLURM_SUBMIT_DIR",
    "SLURM_JOB_PARTITION",
)
_LOG = re.compile(r"log|\.(out|err)\b|stdout|stderr|output|screen", re.IGNORECASE)


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    is_requeued, is_chain = asks_for_requeue(script), is_chain_of_jobs(script)
    if not (is_requeued or is_chain) or is_short(script) or not script.header.directives:
        return
    seen: set[str] = set()
    for found in truncated_files(script):
        file = script.resolve(found.file)
        if not is_requeued and _may_differ(file):
            continue
        if file.text in seen or not _is_log(script, found):
            continue
        seen.add(file.text)
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


def _may_differ(file: Word) -> bool:
    """True if the name is another one in each segment, as far as that can be told."""
    return bool(file.substitutions) or any(name not in _SAME for name in file.variables)


def _is_log(script: BatchScript, found: Truncated) -> bool:
    """Rather than a result that each attempt makes anew."""
    has_errors = "&" in found.operator or any(
        redirect.operator.startswith("2>") for redirect in found.command.redirects
    )
    return has_errors or found.operator == "tee" or _LOG.search(script.resolve(found.file).text) is not None


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
