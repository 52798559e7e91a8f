"""LG110: a trap on SIGTERM, or on the script's end, brings the job back also after scancel."""

from collections.abc import Iterator

from lastgood.audit.batch.restarts import requeues_itself, submits_itself
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command, Trap
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if script.uses_lastgood:
        return
    for trap in script.traps:
        signals = [signal for signal in ("TERM", "EXIT") if signal in trap.signals]
        again = _brings_back(script, trap)
        if not signals or again is None:
            continue
        how = "the job comes back" if again.name == "scontrol" else "its successor is submitted"
        when = (
            "SIGTERM is also what scancel sends"
            if signals[0] == "TERM"
            else "the EXIT trap also runs when scancel ends it"
        )
        yield Hit(
            span=trap.span,
            message=f"{when}: a job that its owner cancels runs this trap, and {how}",
            remedy="ask for a signal of its own, `#SBATCH --signal=B:USR1@120`, and trap USR1",
        )


def _brings_back(script: BatchScript, trap: Trap) -> Command | None:
    """The command that does it, unless a test stands before it: of the job's state, for example."""
    return next(
        (
            command
            for command in trap.body
            if not command.around.is_conditional
            and not command.around.loops
            and (requeues_itself(script, command) or submits_itself(script, command))
        ),
        None,
    )


RULE = Rule(
    code="LG110",
    name="requeue-defeats-scancel",
    severity=Severity.WASTEFUL,
    what="A trap on TERM or EXIT that requeues or submits the job again.",
    why="scancel, preemption and the time limit all send SIGTERM, and bash runs an EXIT trap when SIGTERM ends it. The "
    "owner cancels the job and it comes back; at a preemption there are two that bring it back.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
trap 'scontrol requeue $SLURM_JOB_ID' TERM
srun python train.py --resume &
pid=$!
wait $pid
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --signal=B:USR1@120
trap 'scontrol requeue $SLURM_JOB_ID' USR1
srun python train.py --resume &
pid=$!
wait $pid
""",
    safe_to_ignore="The program that the trap calls asks Slurm first why the job is ended.",
    source="scancel(1); seen with Slurm 22.05: a job with such a trap came back 9.5 s after scancel and ran to its end; seen "
    "with bash 5.2: an EXIT trap runs when SIGTERM ends the shell",
    reads=BatchScript,
    check=check,
)
