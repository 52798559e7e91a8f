"""LG110: a trap on the script's end brings the job back, also when it is done or cancelled."""

from collections.abc import Iterator

from lastgood.audit.batch.restarts import requeues_itself, submits_itself
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command, Trap
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if script.uses_lastgood:
        return
    for trap in script.traps:
        again = _brings_back(script, trap)
        # A trap on TERM has a rule of its own.
        if "EXIT" not in trap.signals or "TERM" in trap.signals or again is None:
            continue
        how = "requeues the job" if again.name == "scontrol" else "submits the script again"
        yield Hit(
            span=trap.span,
            message=f"an EXIT trap runs however the script ends, and this one {how}: after success, after every failure, and "
            "when its owner cancels it",
            remedy="bring it back for one reason only: `#SBATCH --signal=B:USR1@120` with a trap on USR1, or an exit code in "
            "RequeueExit",
        )


def _brings_back(script: BatchScript, trap: Trap) -> Command | None:
    """The command that does it, unless a test stands before it: of the exit code, for example."""
    body = trap.body
    if any(command.name in ("exit", "return") and command.around.is_conditional for command in body):
        return None
    return next(
        (
            command
            for command in body
            if not command.around.is_conditional
            and not command.around.loops
            and (requeues_itself(script, command) or submits_itself(script, command))
        ),
        None,
    )


RULE = Rule(
    code="LG110",
    name="exit-trap-requeues",
    severity=Severity.WASTEFUL,
    what="A trap on EXIT that requeues the job, or submits its script again, without asking why it ended.",
    why="bash runs an EXIT trap at the end of the script, after a failure, and when SIGTERM ends it, as scancel, a preemption "
    "and the time limit do. The job comes back when it is finished, when it cannot work, and when its owner wants it gone.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
trap 'scontrol requeue "$SLURM_JOB_ID"' EXIT
srun --kill-on-bad-exit=1 python train.py --resume
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
    safe_to_ignore="The command that it runs finds out by itself whether there is anything left to do.",
    source="bash(1), trap; seen with bash 5.2: `trap 'echo E' EXIT` prints E when SIGTERM ends the shell, which then has code "
    "143. Seen with Slurm 22.05: a job with such a trap ran again after scancel",
    reads=BatchScript,
    check=check,
)
