"""LG109: the script starts itself again without a limit."""

from collections.abc import Iterator

from lastgood.audit.batch.restarts import after_any_failure, counts_restarts, requeues_itself, submits_itself
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command
from lastgood.audit.rule import Context, Hit, Rule, Severity

_REMEDY = 'write `if [ ! -e finished ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 20 ]; then ... fi` around it'


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if script.uses_lastgood or counts_restarts(script):
        return
    for command in script.commands:
        is_requeue = requeues_itself(script, command)
        if not is_requeue and not submits_itself(script, command):
            continue
        if command.around.within == "trap" or command.around.in_substitution or _is_of_a_trap(script, command):
            continue
        what = "requeues the job" if is_requeue else "submits the script"
        waits_for = " ".join(word.text for word in command.arguments)
        if after_any_failure(script, command) or "afternotok" in waits_for:
            yield Hit(
                span=command.span,
                message=f"every failure {what} again, also one that does not pass, such as an error in the program: it comes "
                "back for ever",
                remedy='count, as in `[ "${SLURM_RESTART_COUNT:-0}" -lt 20 ] &&` before it',
            )
            return
        elif not command.around.is_conditional and not _has_way_out(script, command):
            when = "after every success" if "afterok" in waits_for else "whatever happened before"
            also = "a job" if "afterok" in waits_for else "a program that fails at once, or a job"
            yield Hit(
                span=command.span,
                message=f"this {what} again {when}: {also} that is finished comes back for ever",
                remedy=_REMEDY,
            )
            return


def _is_of_a_trap(script: BatchScript, command: Command) -> bool:
    """A trap runs when a signal comes, which is a limit in itself."""
    return any(command in trap.body for trap in script.traps)


def _has_way_out(script: BatchScript, command: Command) -> bool:
    """Something above may end the script before it gets there."""
    return any(
        other.begin < command.begin and other.name in ("exit", "return") and other.around.is_conditional
        for other in script.commands
    ) or any(loop for loop in command.around.loops)


RULE = Rule(
    code="LG109",
    name="requeues-itself-without-end",
    severity=Severity.WASTEFUL,
    what="`scontrol requeue` or `sbatch $0` that is reached in any case, or after any failure, with no limit in sight.",
    why="Slurm limits launches that fail (MaxBatchRequeue), but not what a job asks for itself. A program that fails at "
    "once, or that is finished, is started again until somebody notices.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --resume || scontrol requeue $SLURM_JOB_ID
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --resume && exit 0
if [ "${SLURM_RESTART_COUNT:-0}" -lt 20 ]; then
    scontrol requeue $SLURM_JOB_ID
fi
exit 1
""",
    safe_to_ignore="The program counts its own starts and ends the chain.",
    source="slurm.conf(5), MaxBatchRequeue; seen with Slurm 22.05: `srun ... || exit 75` with RequeueExit=75 made 25 attempts "
    "in 260 s, each failing at the same step",
    reads=BatchScript,
    check=check,
)
