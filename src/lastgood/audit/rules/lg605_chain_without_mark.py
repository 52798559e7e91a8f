"""LG605: no segment of a chain asks whether the work is done."""

import os
import re
from collections.abc import Iterator

from lastgood.audit.batch.applications import mdruns
from lastgood.audit.batch.attempts import resubmissions
from lastgood.audit.batch.limits import is_short
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity

_LOOKS = re.compile(rb"(?<![-\w])(done|finished|complete|completed|scancel|exit|stop|if)\b|\[ |&&|\|\|", re.IGNORECASE)


_REPEATS = re.compile(r"bench|eval|test|infer|predict|repeat|profil", re.IGNORECASE)
_SEGMENTS = 3


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if not script.is_chained_array or is_short(script) or script.uses_lastgood or resubmissions(script):
        return
    if b"SLURM_ARRAY_TASK" in script.source.data or _tasks(script.header.value("array")) < _SEGMENTS:
        return
    work = script.work
    if not work or _REPEATS.search(
        f"{os.path.basename(script.path)} {script.header.value('job-name')} {work[-1][1].python_script}"
    ):
        return
    if any(True for _ in mdruns(script)) or _LOOKS.search(_code(script)):
        return
    array = script.header.get("array")
    assert array is not None
    yield Hit(
        span=array.span,
        message="the tasks are segments of one job, and none asks whether the work is done: if it is done early, each further one still "
        "waits, gets its nodes and starts the program",
        remedy="leave a mark when the work is done, and look for it first: `[ -f done ] && exit 0`",
    )


def _tasks(array: str) -> int:
    """How many tasks, at least.

    >>> [_tasks(text) for text in ("1-10%1", "1,5%1", "3%1", "x%1")]
    [10, 2, 1, 2]
    """
    count = 0
    for part in array.partition("%")[0].split(","):
        first, dash, last = part.partition(":")[0].partition("-")
        count += (
            int(last) - int(first) + 1
            if dash and first.isdecimal() and last.isdecimal()
            else 1
            if part.isdecimal()
            else 2
        )
    return count


def _code(script: BatchScript) -> bytes:
    """Without comments."""
    return b"\n".join(line for line in script.source.data.split(b"\n") if not line.lstrip().startswith(b"#"))


RULE = Rule(
    code="LG605",
    name="chain-without-mark",
    severity=Severity.NOTE,
    what="An array whose tasks run one after the other (`%1`) and never use their number, without a test whether the work is done.",
    why="One asks for a few segments more than needed. When the work is done, those that are left wait for nodes, start the program and "
    "find out that there is nothing to do, or compute more than anybody asked for.",
    bad="""\
#!/bin/bash
#SBATCH --job-name=pretrain
#SBATCH --time=24:00:00
#SBATCH --array=1-10%1
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python pretrain.py --save runs/a --load runs/a
""",
    good="""\
#!/bin/bash
#SBATCH --job-name=pretrain
#SBATCH --time=24:00:00
#SBATCH --array=1-10%1
#SBATCH --requeue
#SBATCH --open-mode=append
[ -f runs/a/done ] && exit 0
srun --kill-on-bad-exit=1 python pretrain.py --save runs/a --load runs/a
""",
    safe_to_ignore="The program looks for the mark itself and ends within a minute, or it cancels the tasks that are left.",
    source="sbatch(1), --array; arrays with %1 are a common way to chain jobs",
    reads=BatchScript,
    check=check,
)
