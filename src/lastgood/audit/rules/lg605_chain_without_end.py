"""LG605: a script submits itself again, and nothing ends that when the work is done."""

from collections.abc import Iterator

from lastgood.audit.batch.attempts import resubmissions
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    for command in resubmissions(script):
        if _is_certain(command) and not _may_end_before(script, command) and not _is_timetable(script, command):
            yield Hit(
                span=command.span,
                message="the script submits itself each time it runs, and asks nowhere whether the work is done: when it is, further segments "
                "run for ever",
                remedy="leave a mark when the work is done, and look for it first: `[ -f done ] && exit 0`",
            )
            return


def _is_certain(command: Command) -> bool:
    around = command.around
    return not (around.is_conditional or around.loops or around.function or around.within or around.in_subshell)


def _may_end_before(script: BatchScript, command: Command) -> bool:
    """True if something above may end the script, or the chain's length is handed on."""
    ends = [
        other
        for other in script.commands
        if other.name in ("exit", "scancel", "exec", "return") and other.begin < command.begin
    ]
    words = script.words(command)
    return bool(ends) or script.sets("e") or words[-1].text not in (words[0].text, _submitted_last(script, command))


def _submitted_last(script: BatchScript, command: Command) -> str:
    from lastgood.audit.batch.attempts import submitted

    return submitted(script, command)


def _is_timetable(script: BatchScript, command: Command) -> bool:
    """A job that comes back at a time of its own, as a cron job does."""
    return any(word.text.startswith(("--begin", "-b")) for word in script.words(command))


RULE = Rule(
    code="LG605",
    name="chain-without-end",
    severity=Severity.WASTEFUL,
    what="A script that submits itself in any case, without a test for a finished job.",
    why="The chain does not know that the work is done. Each further segment waits, gets its nodes, and starts the program, which ends at "
    "once or computes what nobody asked for.",
    bad="""\
#!/bin/bash
#SBATCH --job-name=pretrain
#SBATCH --time=24:00:00
#SBATCH --no-requeue
sbatch --dependency=afterany:$SLURM_JOB_ID "$0"
srun --kill-on-bad-exit=1 python pretrain.py --save runs/a --load runs/a
""",
    good="""\
#!/bin/bash
#SBATCH --job-name=pretrain
#SBATCH --time=24:00:00
#SBATCH --no-requeue
[ -f runs/a/done ] && exit 0
sbatch --dependency=afterany:$SLURM_JOB_ID "$0"
srun --kill-on-bad-exit=1 python pretrain.py --save runs/a --load runs/a && touch runs/a/done
""",
    safe_to_ignore="The program cancels the next segment itself, or the job is a service that should never end.",
    source="sbatch(1), --dependency",
    reads=BatchScript,
    check=check,
)
