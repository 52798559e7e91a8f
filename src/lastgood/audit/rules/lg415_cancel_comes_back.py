"""LG415: a job that its owner cannot cancel."""

from collections.abc import Iterator

from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command
from lastgood.audit.batch.signals import own_traps
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if script.uses_lastgood:
        return
    for trap in own_traps(script, "TERM", "CONT"):
        if "TERM" not in trap.signals and "CONT" not in trap.signals:
            continue
        again = next((command for command in trap.body if _starts_again(command)), None)
        if again is None or any(_asks(script, command) for command in trap.body):
            continue
        what = "requeues the job" if again.name == "scontrol" else "submits it again"
        yield Hit(
            span=again.span,
            message=f"scancel sends TERM as well, and this trap {what}: a job that is cancelled comes back",
            remedy="trap the early signal alone: `#SBATCH --signal=B:USR1@300` and `trap ... USR1`",
        )
        return


def _starts_again(command: Command) -> bool:
    if command.around.is_conditional:
        # It asks something first; what, we do not know.
        return False
    is_requeue = command.name == "scontrol" and any(w.text.startswith("requeue") for w in command.arguments)
    return is_requeue or command.name == "sbatch"


def _asks(script: BatchScript, command: Command) -> bool:
    return command.name in ("squeue", "sacct") or (
        command.name == "scontrol" and any(word.text == "show" for word in command.arguments)
    )


RULE = Rule(
    code="LG415",
    name="cancel-comes-back",
    severity=Severity.WASTEFUL,
    what="A trap for TERM that requeues the job or submits it again, whatever sent the signal.",
    why="TERM is what a job gets at the time limit, at a preemption, and when its owner cancels it. A trap that cannot tell them "
    "apart brings a cancelled job back, and it computes on until somebody notices.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --resume &
child=$!
trap 'scontrol requeue "$SLURM_JOB_ID"; wait "$child"' TERM
wait "$child"
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
srun --kill-on-bad-exit=1 python train.py --resume &
child=$!
trap 'kill -USR1 "$child"; wait "$child"; scontrol requeue "$SLURM_JOB_ID"' USR1
wait "$child"
""",
    safe_to_ignore="Nobody cancels it with a plain scancel (`scancel --signal=KILL --full`, or a hold, is used instead).",
    source="seen with Slurm 22.05: such a job ran again 9.5 s after scancel, and to its end (2 of 2)",
    reads=BatchScript,
    check=check,
)
