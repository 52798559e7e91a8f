"""LG602: the newest checkpoint is chosen by its time of change, and nothing else is tried."""

from collections.abc import Iterator

from lastgood.audit.batch.attempts import asks_for_requeue, is_chain
from lastgood.audit.batch.newest import choices_of_newest, is_looked_into
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if script.uses_lastgood:
        return
    comes_back = asks_for_requeue(script) or is_chain(script)
    for choice in choices_of_newest(script):
        if choice.by == "time" and not is_looked_into(script, choice):
            again = "each restart then fails at the same file" if comes_back else "the restart then fails at it"
            yield Hit(
                span=choice.span,
                message="the newest file by time is taken without a look into it, and that may be the one that was being written "
                f"when the job was killed: {again}, though an older one is whole",
                remedy="let the program write to another name and rename, or try the newest first and the one before it if it cannot be read",
                severity=Severity.MAY_BE_LOST if comes_back else Severity.NOTE,
            )


RULE = Rule(
    code="LG602",
    name="newest-by-time-only",
    severity=Severity.NOTE,
    what="`ls -t | head -1` and the like to choose the checkpoint that the job resumes from.",
    why="A job is often killed while it writes. The torn file is the newest by time, so it is chosen, and it cannot be read. A copy, "
    "`touch` or a restore from tape changes times, too.",
    bad="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
LATEST=$(ls -t checkpoints/*.pt | head -n 1)
srun --kill-on-bad-exit=1 python train.py ${LATEST:+--resume $LATEST}
""",
    good="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
for file in $(ls -v -r checkpoints/step_*.pt); do
  python -c 'import sys, torch; torch.load(sys.argv[1], weights_only=True)' "$file" && LATEST=$file && break
done
srun --kill-on-bad-exit=1 python train.py ${LATEST:+--resume $LATEST}
""",
    safe_to_ignore="The program writes to a temporary name and renames when all is on disk, and nobody copies checkpoints about.",
    source="rename(2); public reports of restarts that fail at a half-written newest checkpoint",
    reads=BatchScript,
    check=check,
)
