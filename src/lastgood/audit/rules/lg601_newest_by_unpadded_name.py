"""LG601: the newest checkpoint is taken to be the last by name, where 900 comes behind 1000."""

from collections.abc import Iterator

from lastgood.audit.batch.newest import choices_of_newest
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    for choice in choices_of_newest(script):
        if choice.by == "name":
            message = (
                "the last checkpoint by name is taken for the newest: as text, step 900 comes behind step 1000, and the job goes back "
                "unless the numbers have leading zeros"
            )
            remedy = "sort by number: `sort -V` in front of `tail -n 1`, or `ls -v`"
        elif choice.by == "nothing":
            message = (
                "`find` lists in no order at all, and the last checkpoint that it meets is taken for the newest: the job may go back to "
                "any older one"
            )
            remedy = "sort by number: `| sort -V | tail -n 1`"
        else:
            continue
        yield Hit(span=choice.span, message=message, remedy=remedy)


RULE = Rule(
    code="LG601",
    name="newest-by-unpadded-name",
    severity=Severity.MAY_BE_LOST,
    what="`ls *.pt | tail -1`, or `sort` without `-V` or `-n`, to find the newest checkpoint.",
    why="Text is compared letter by letter: `step_900.pt` comes behind `step_1000.pt`. From the first step with one more digit on, every "
    "restart goes back to the same old checkpoint, and what was computed since is computed again each time.",
    bad="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
LATEST=$(ls checkpoints/step_*.pt | sort | tail -n 1)
srun --kill-on-bad-exit=1 python train.py ${LATEST:+--resume $LATEST}
""",
    good="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
LATEST=$(ls checkpoints/step_*.pt | sort -V | tail -n 1)
srun --kill-on-bad-exit=1 python train.py ${LATEST:+--resume $LATEST}
""",
    safe_to_ignore="All names have numbers of the same length.",
    source="sort(1), -V; seen with checkpoints of several frameworks that do not pad the step",
    reads=BatchScript,
    check=check,
)
