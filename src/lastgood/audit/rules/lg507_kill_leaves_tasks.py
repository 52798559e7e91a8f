"""LG507: KILL for srun itself, which ends its tasks unsaved, or leaves them running."""

from collections.abc import Iterator

from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.signals import kills_in
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if script.uses_lastgood:
        return
    for kill in kills_in(script, script.commands):
        is_srun = any(t.wrappers and t.wrappers[0].name == "srun" for t in kill.targets) or (
            kill.is_by_name and kill.command.has_word("srun")
        )
        if kill.signal == "KILL" and is_srun:
            yield Hit(
                span=kill.command.span,
                message="KILL for srun: its second process then kills the tasks, unsaved; where that is killed, too (pkill, "
                "killall), they run on, hold the step's CPUs and GPUs, and may write beside the next attempt",
                remedy="end the step instead: `scancel $SLURM_JOB_ID.STEP`, or `kill $PID` (srun then ends its tasks)",
            )
            return


RULE = Rule(
    code="LG507",
    name="kill-leaves-tasks",
    severity=Severity.MAY_BE_LOST,
    what="`kill -9` (or `pkill -9`, `killall -9`) for an srun.",
    why="The tasks of a step are children of Slurm's own daemons, not of srun, which is two processes. When the first one is "
    "killed, the second has the tasks killed at once, before they can save. When both are killed, the tasks go on: the next step "
    "waits for their resources, or two generations write into one directory.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --resume &
child=$!
while kill -0 "$child"; do
    sleep 60
    if [ -e STUCK ]; then
        kill -9 "$child"
    fi
done
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --resume &
child=$!
while kill -0 "$child"; do
    sleep 60
    if [ -e STUCK ]; then
        kill "$child"
    fi
done
""",
    safe_to_ignore="It is the last thing that the script does.",
    source="seen with Slurm 22.05: after SIGKILL of srun's first process its task was dead within 0.1 s; after SIGKILL of both it "
    "ran on for as long as was watched, and a new step was refused (`Requested nodes are busy`); radical.pilot#3267",
    reads=BatchScript,
    check=check,
)
