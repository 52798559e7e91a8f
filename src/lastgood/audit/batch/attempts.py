"""How the work of a batch script comes to run again: by a requeue, or as the next segment of a chain. Pure."""

from lastgood.audit.batch.directives import takes_next_word
from lastgood.audit.batch.places import is_told_to_resume
from lastgood.audit.batch.restarts import may_be_requeued, requeues_itself, submits_itself
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command
from lastgood.audit.rule import Context

_TASK = "SLURM_ARRAY_TASK_ID"
_TALK = ("echo", "printf", "mkdir", "touch", "tee", "cat")


def asks_for_requeue(script: BatchScript) -> bool:
    """True if the script itself says that it is requeued: `--requeue`, or `scontrol requeue` somewhere in it."""
    if script.header.get("requeue") is not None:
        return True
    return any(requeues_itself(script, command) for command in script.commands)


def is_requeued(script: BatchScript, context: Context) -> bool | None:
    """Whether Slurm starts the job again after a node's death or a preemption; None where that is not known."""
    known = may_be_requeued(script, context.policy)
    return True if known is None and asks_for_requeue(script) else known


def runs_again(script: BatchScript, context: Context) -> bool:
    """True if it is known that the work is started again without anybody's doing: by a requeue, or as a chain."""
    return bool(is_requeued(script, context)) or is_chain(script)


def resubmissions(script: BatchScript) -> list[Command]:
    """The `sbatch` commands with which a script submits itself: segments of one job."""
    return [command for command in script.commands if submits_itself(script, command)]


def submitted(script: BatchScript, command: Command) -> str:
    """The script that an `sbatch` command submits, as it is written; empty if there is none, or it cannot be told."""
    words = [word.text for word in script.words(command)]
    i = 1
    while i < len(words) and words[i].startswith("-"):
        i += 2 if takes_next_word(words[i]) else 1
    return words[i] if i < len(words) else ""


def is_chain(script: BatchScript) -> bool:
    """True if several jobs, or the tasks of an array, do the work one after the other."""
    return script.is_chained_array or is_chain_of_jobs(script)


def is_chain_of_jobs(script: BatchScript) -> bool:
    """True if each segment is a job of its own, which gets an id of its own."""
    is_singleton = "singleton" in script.header.value("dependency") and not script.is_array
    # Jobs that only must not run at once wait for each other like that, too.
    return (is_singleton and any(is_told_to_resume(launch) for _, launch in script.work)) or bool(resubmissions(script))


def uses_task_number(script: BatchScript, *, except_in: frozenset[str] = frozenset()) -> bool:
    """True if the array's task number is used for more than talk, and for more than the words given.

    Such tasks do different work, and `%1` only keeps them from running at once.
    """
    return any(
        word.text not in except_in and _TASK in script.resolve(word).variables
        for command in script.commands
        if command.name not in _TALK
        for word in command.words
    )
