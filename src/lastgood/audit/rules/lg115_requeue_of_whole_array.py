"""LG115: a task of an array that requeues all of them."""

from collections.abc import Iterator

from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command
from lastgood.audit.rule import Context, Hit, Rule, Severity

_WHOLE = ("SLURM_ARRAY_JOB_ID",)
_RAW = ("SLURM_JOB_ID", "SLURM_JOBID")


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if not script.is_array or script.uses_lastgood:
        return
    for command in script.commands:
        name = _named(script, command)
        if not name:
            continue
        yield Hit(
            span=command.span,
            message="in the array's last task SLURM_JOB_ID is the number of the whole array: this requeues its other tasks, too, "
            "and ends those that run"
            if name in _RAW
            else "SLURM_ARRAY_JOB_ID is the whole array: each task that comes here requeues all the others, too, and ends those "
            "that run",
            remedy='write `scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"`',
        )
        return


def _named(script: BatchScript, command: Command) -> str:
    """The variable that `scontrol requeue` is given alone."""
    words = command.arguments
    if command.name != "scontrol" or len(words) < 2 or not words[0].text.startswith("requeue"):
        return ""
    found = script.resolve(words[-1])
    names = found.variables
    return names[0] if len(found.parts) == 1 and len(names) == 1 and names[0] in (*_WHOLE, *_RAW) else ""


RULE = Rule(
    code="LG115",
    name="requeue-of-whole-array",
    severity=Severity.MAY_BE_LOST,
    what="`scontrol requeue $SLURM_JOB_ID` (or `$SLURM_ARRAY_JOB_ID`) in a task of an array.",
    why="Slurm gives the number of the array to its last task as SLURM_JOB_ID. A requeue by that number means all tasks: those that "
    "run are ended where they are, and lose what they did since their last checkpoint.",
    bad="""\
#!/bin/bash
#SBATCH --array=0-9
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%A_%a.out
#SBATCH --signal=B:USR1@300
trap 'kill -USR1 "$child"; wait "$child"; scontrol requeue "$SLURM_JOB_ID"' USR1
python train.py --resume --run "$SLURM_ARRAY_TASK_ID" &
child=$!
wait "$child"
""",
    good="""\
#!/bin/bash
#SBATCH --array=0-9
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%A_%a.out
#SBATCH --signal=B:USR1@300
trap 'kill -USR1 "$child"; wait "$child"; scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"' USR1
python train.py --resume --run "$SLURM_ARRAY_TASK_ID" &
child=$!
wait "$child"
""",
    safe_to_ignore="All tasks reach their limit at the same time, and are to be requeued together.",
    source="seen with Slurm 22.05: the last task has SLURM_JOB_ID equal to SLURM_ARRAY_JOB_ID; Lightning#15022, the same in a library",
    reads=BatchScript,
    check=check,
)
