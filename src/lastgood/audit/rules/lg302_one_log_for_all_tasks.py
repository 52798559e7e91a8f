"""LG302: all tasks of an array write to the same file."""

import re
from collections.abc import Iterator

from lastgood.audit.batch.logs import appends, letters, output_files
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity

_TEMPLATE = re.compile(r"[{}<>\[\]]|%\(")
_OF_THE_TASK = {"a", "j", "J", "S"}


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    array = script.header.get("array")
    if array is None or _is_one_task(array.value):
        return
    if appends(script, context):
        # All in one file, because somebody wants it so.
        return
    if _has_files_of_its_own(script):
        return
    for directive in output_files(script):
        if not letters(directive) & _OF_THE_TASK and not _TEMPLATE.search(directive.value):
            how = "the next task begins it anew" if script.is_chained_array else "they overwrite each other"
            yield Hit(
                span=directive.span,
                message=f"all tasks of the array write to `{directive.value}`: {how}, and why one of them failed cannot be read",
                remedy=f"put the task's number into the name: `--{directive.name}={_better(directive.value)}`",
            )


def _has_files_of_its_own(script: BatchScript) -> bool:
    """True if the script sends each task's output to a file of the task."""
    return any(
        "SLURM_ARRAY_TASK_ID" in script.resolve(redirect.target).variables
        for command, _ in script.work
        for redirect in command.redirects
    )


def _is_one_task(array: str) -> bool:
    first, _, last = array.partition("%")[0].partition("-")
    return first.isdecimal() and last in ("", first)


def _better(name: str) -> str:
    stem, dot, suffix = name.rpartition(".")
    if not dot or "/" in suffix or not stem:
        stem, suffix = name, ""
    job = "" if "%A" in name else "-%A"
    return f"{stem}{job}_%a{dot if suffix else ''}{suffix}"


RULE = Rule(
    code="LG302",
    name="one-log-for-all-tasks",
    severity=Severity.NOTE,
    what="A job array whose `--output` or `--error` has neither `%a` nor `%j` in it.",
    why="Each task opens the file and truncates it (with `--open-mode=append`, which is left alone here, they mix their lines). What the task said that failed "
    "is overwritten by the others.",
    bad="""\
#!/bin/bash
#SBATCH --time=4:00:00
#SBATCH --array=0-99
#SBATCH --output=logs/simulate.out
srun ./simulate --seed $SLURM_ARRAY_TASK_ID
""",
    good="""\
#!/bin/bash
#SBATCH --time=4:00:00
#SBATCH --array=0-99
#SBATCH --output=logs/simulate-%A_%a.out
srun ./simulate --seed $SLURM_ARRAY_TASK_ID
""",
    safe_to_ignore="The tasks write nothing that anybody needs to the job's output.",
    source="sbatch(1), filename pattern",
    reads=BatchScript,
    check=check,
)
