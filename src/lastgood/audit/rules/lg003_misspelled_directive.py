"""LG003: a comment that was meant for sbatch."""

from collections.abc import Iterator

from lastgood.audit.batch.misplaced import is_about_failures, misspelled_directives
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    found = list(misspelled_directives(script))
    if not found:
        return
    span, is_blank = found[0]
    others = f" (and {len(found) - 1} further)" if len(found) > 1 else ""
    why = "a blank behind `#`" if is_blank else "another spelling than `#SBATCH`"
    yield Hit(
        span=span,
        message=f"to sbatch this line{others} is a comment, because of {why}: the job runs without what is asked for here",
        remedy="write `#SBATCH`; where the line is meant to be out, `##SBATCH` says so",
        severity=None if is_about_failures(script, [span for span, _ in found]) else Severity.NOTE,
    )


RULE = Rule(
    code="LG003",
    name="misspelled-directive",
    severity=Severity.MAY_BE_LOST,
    what="A comment in front of the first command that reads `#sbatch`, `#SBTACH` or the like, or `# SBATCH` in a script "
    "that has no directive at all.",
    why="sbatch looks for `#SBATCH` in exactly these letters and says nothing about others: the job gets the defaults of "
    "the cluster, and what was to make it safe is not in effect.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBTACH --requeue
#SBATCH --signal=TERM@300
srun python train.py --resume
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --signal=TERM@300
srun python train.py --resume
""",
    safe_to_ignore="The line is meant to be out; `##SBATCH` is the usual way to say so.",
    source="sbatch(1)",
    reads=BatchScript,
    check=check,
)
