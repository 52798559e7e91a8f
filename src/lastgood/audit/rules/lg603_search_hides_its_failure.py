"""LG603: that a checkpoint cannot be found is hidden, and taken for a new job."""

from collections.abc import Iterator

from lastgood.audit.batch.attempts import runs_again
from lastgood.audit.batch.newest import choices_of_newest
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if script.uses_lastgood or not runs_again(script, context) or b"RESTART_COUNT" in script.source.data:
        return
    for choice in choices_of_newest(script):
        if choice.is_silent and choice.name:
            name = choice.name
            yield Hit(
                span=choice.listing.span,
                message="errors of the search for a checkpoint are thrown away: where the directory cannot be read or is not mounted, the "
                "job starts from zero without a word, and may overwrite what is there",
                remedy=f'say so after a restart: `[ -n "${name}" ] || [ "${{SLURM_RESTART_COUNT:-0}}" -eq 0 ] || echo "no checkpoint '
                'found" >&2`, or end the job there',
            )


RULE = Rule(
    code="LG603",
    name="search-hides-its-failure",
    severity=Severity.NOTE,
    what="A job that is started again and looks for its newest checkpoint with `2>/dev/null`, without asking whether there should be one.",
    why="An empty answer means two things: the job is new, or its checkpoints cannot be seen (a file system that is not mounted, a typing "
    "error, no permission). Both start from zero, and only one of them should.",
    bad="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
LATEST=$(ls -v checkpoints/step_*.pt 2>/dev/null | tail -n 1)
srun --kill-on-bad-exit=1 python train.py ${LATEST:+--resume $LATEST}
""",
    good="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
LATEST=$(ls -v checkpoints/step_*.pt 2>/dev/null | tail -n 1)
if [ -z "$LATEST" ] && [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then
  echo "attempt $SLURM_RESTART_COUNT finds no checkpoint" >&2
  exit 1
fi
srun --kill-on-bad-exit=1 python train.py ${LATEST:+--resume $LATEST}
""",
    safe_to_ignore="The job saves so late that a restart before the first checkpoint is common, and somebody reads the log.",
    source="public reports of jobs that started from zero after an unmounted or mistyped directory; sbatch(1), SLURM_RESTART_COUNT",
    reads=BatchScript,
    check=check,
)
