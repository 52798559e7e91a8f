"""Chains of jobs that a script submits: which segments wait for which. Pure."""

import re
from collections.abc import Iterator

from lastgood.audit.batch.attempts import submitted
from lastgood.audit.batch.restarts import submits_itself
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command

_AFTER_OK = re.compile(r"afterok:")
_ENDS_IN_TIME = re.compile(
    rb"-maxh\b|\btimeout\s+-?\w|max_seconds|--max[-_]?(time|hours|minutes|duration)|timer\s+timeout"
)


def stops_before_its_limit(script: BatchScript) -> bool:
    """True if something in the script ends the work by itself before the time limit."""
    return _ENDS_IN_TIME.search(script.source.data) is not None


def links_that_need_success(script: BatchScript) -> Iterator[Command]:
    """The `sbatch --dependency=afterok:...` commands that submit a further segment of the same work.

    A step of a pipeline that needs what another one has made is none: there `afterok` is right.
    """
    submissions = [command for command in script.commands if command.name == "sbatch"]
    texts = [[w.text for w in script.words(command)] for command in submissions]
    for command, words in zip(submissions, texts, strict=True):
        if not any(_AFTER_OK.search(word) for word in words):
            continue
        if (
            submits_itself(script, command)
            or _is_same_in_each_round(script, command)
            or _is_repeated(script, command, submissions)
        ):
            yield command


def _is_same_in_each_round(script: BatchScript, command: Command) -> bool:
    """In a loop, where each round waits for the one before, with nothing else that differs from round to round."""
    around = command.around
    word = submitted(script, command)
    if not around.loops or not word or "$" in word or not _waits_for_itself(script, command):
        return False
    body = around.loops[-1].span
    changing = {
        assignment.name for assignment in script.shell.assignments if body.line <= assignment.span.line <= body.end_line
    }
    words = [word for word in command.words[1:] if not _AFTER_OK.search(word.text)]
    return not any(changing & set(word.variables) or word.substitutions for word in words)


def _waits_for_itself(script: BatchScript, command: Command) -> bool:
    """`JOB=$(sbatch --dependency=afterok:$JOB ...)`"""
    name = next((a.name for a in script.shell.assignments if a.begin < command.begin < a.end), "")
    return any(name in word.variables for word in command.words if _AFTER_OK.search(word.text))


def _is_repeated(script: BatchScript, command: Command, submissions: list[Command]) -> bool:
    """It waits for another line that submits the same with the same arguments."""
    own = _without_dependency(script, command)
    awaited = {name for word in command.words if _AFTER_OK.search(word.text) for name in word.variables}
    return bool(own) and any(
        other is not command
        and _without_dependency(script, other) == own
        and any(a.name in awaited and a.begin < other.begin < a.end for a in script.shell.assignments)
        for other in submissions
    )


def _without_dependency(script: BatchScript, command: Command) -> list[str]:
    word = submitted(script, command)
    if not word or "$" in word:
        return []
    words = [word.text for word in script.words(command)]
    kept = [
        word
        for before, word in zip(["", *words], words, strict=False)
        if not word.startswith(("--dependency", "--parsable", "-d", "--kill-on-invalid-dep"))
        and before not in ("-d", "--dependency")
    ]
    return [word for word in kept if "afterok:" not in word]
