"""Where a script's output goes. Pure."""

import re
from collections.abc import Iterator

import msgspec

from lastgood.audit.batch.changes import new_at_each_start
from lastgood.audit.batch.directives import Directive
from lastgood.audit.batch.programs import Launch
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command
from lastgood.audit.batch.words import Word
from lastgood.audit.rule import Context

_PATTERN = re.compile(r"%(\d*)([A-Za-z%])")
_RESTARTS = "r"
_MOST_WORK = 200
NOWHERE = ("/dev/null", "none")


class Truncated(msgspec.Struct, frozen=True):
    """A file that a command of the work begins anew at each start."""

    command: Command
    launch: Launch
    operator: str
    file: Word


def output_files(script: BatchScript) -> list[Directive]:
    """The directives that name files for the job's own output."""
    found = [script.header.get("output"), script.header.get("error")]
    return [directive for directive in found if directive is not None and directive.value not in (*NOWHERE, "")]


def letters(directive: Directive) -> set[str]:
    """What Slurm puts into a file's name: the letters behind `%`.

    >>> from lastgood.audit.source import Span
    >>> sorted(letters(Directive("output", "log/%x-%4a.%%out", Span(1, 1, 1, 1), 0, 0)))
    ['a', 'x']
    """
    if "\\" in directive.value:
        return set()
    return {match[2] for match in _PATTERN.finditer(directive.value)} - {"%"}


def appends(script: BatchScript, context: Context) -> bool | None:
    """Whether the job's own output is added to what is there; None where nothing says so, which is no as a rule."""
    mode = script.header.value("open-mode").lower()
    if mode:
        return mode.startswith("a")
    return context.policy.is_true("JobFileAppend") if context.policy is not None else None


def is_new_at_each_restart(script: BatchScript) -> bool:
    found = output_files(script)
    return bool(found) and all(_RESTARTS in letters(directive) for directive in found)


def truncated_files(script: BatchScript) -> Iterator[Truncated]:
    """Files that the work's output begins anew, with a name that stays the same."""
    for command, launch in script.work[:_MOST_WORK]:
        for redirect in command.redirects:
            operator = redirect.operator.lstrip("0123456789")
            if operator in (">", "&>", ">|", ">&") and _is_log(script, redirect.target):
                yield Truncated(command, launch, redirect.operator, redirect.target)
        tee = _tee_behind(script, command)
        if tee is not None:
            yield Truncated(command, launch, "tee", tee)


def _tee_behind(script: BatchScript, command: Command) -> Word | None:
    around = command.around
    if around.pipe_position >= around.pipe_length - 1:
        return None
    following = next((other for other in script.commands if other.begin >= command.end), None)
    if following is None or following.name != "tee" or following.around.pipe_position == 0:
        return None
    files = [word for word in following.arguments if not word.text.startswith("-")]
    is_appending = any(re.match(r"-\w*a|--append", word.text) for word in following.arguments)
    return files[0] if len(files) == 1 and not is_appending and _is_log(script, files[0]) else None


def _is_log(script: BatchScript, file: Word) -> bool:
    resolved = script.resolve(file)
    if resolved.text in ("/dev/null", "/dev/stderr", "/dev/stdout", "1", "2", "-", "") or resolved.text.startswith(
        ("&", "/dev/", ">(")
    ):
        return False
    return not new_at_each_start(resolved)
