"""How the work of a batch script comes to run again: by a requeue, or as the next segment of a chain. Pure."""

import os
import re

from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command
from lastgood.audit.rule import Context

_SELF = re.compile(r"\$\{?(0|BASH_SOURCE)\b|\$\{(0|BASH_SOURCE)\}|Command=|BatchScript")
_SBATCH_VALUE = frozenset("-A -a -b -c -C -d -D -e -G -J -L -M -N -n -o -p -q -t -w -x --export --dependency".split())


def asks_for_requeue(script: BatchScript) -> bool:
    """True if the script itself says that it is requeued: `--requeue`, or `scontrol requeue` somewhere in it."""
    return script.header.get("requeue") is not None or any(is_requeue(command) for command in script.commands)


def is_requeue(command: Command) -> bool:
    return command.name == "scontrol" and command.has_word("requeue")


def is_requeued(script: BatchScript, context: Context) -> bool | None:
    """Whether Slurm starts the job again after a node's death or a preemption; None where that is not known."""
    if script.header.get("no-requeue") is not None:
        return False
    if asks_for_requeue(script):
        return True
    return context.policy.is_true("JobRequeue") if context.policy is not None else None


def runs_again(script: BatchScript, context: Context) -> bool:
    """True if it is known that the work is started again without anybody's doing: by a requeue, or as a chain."""
    return bool(is_requeued(script, context)) or is_chain(script)


def resubmissions(script: BatchScript) -> list[Command]:
    """The `sbatch` commands with which a script submits itself: segments of one job."""
    return [command for command in script.commands if command.name == "sbatch" and submits_itself(script, command)]


def submits_itself(script: BatchScript, command: Command) -> bool:
    word = submitted(script, command)
    if not word:
        return False
    own = os.path.basename(script.path)
    return bool(_SELF.search(word)) or ("$" not in word and os.path.basename(word) == own)


def submitted(script: BatchScript, command: Command) -> str:
    """The script that an `sbatch` command submits, as it is written; empty if there is none, or it cannot be told."""
    words = [word.text for word in script.words(command)]
    i = 1
    while i < len(words) and words[i].startswith("-"):
        i += 2 if words[i] in _SBATCH_VALUE else 1
    if i < len(words):
        return words[i]
    return next((redirect.target.text for redirect in command.redirects if redirect.operator == "<"), "")


def is_chain(script: BatchScript) -> bool:
    """True if several jobs, or the tasks of an array, do the work one after the other."""
    return script.is_chained_array or _is_singleton(script) or bool(resubmissions(script))


def is_chain_of_jobs(script: BatchScript) -> bool:
    """True if each segment is a job of its own, which gets an id of its own."""
    return _is_singleton(script) or bool(resubmissions(script))


def _is_singleton(script: BatchScript) -> bool:
    return "singleton" in script.header.value("dependency") and not script.is_array
