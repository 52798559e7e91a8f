"""Whether the exit code of a program becomes the job's exit code, and if not, what takes its place. Pure.

Tried with bash 5.2. A script ends with the code of its last command; a compound that does nothing gives 0. `set -e` ends
it with the code of the one that failed, but not in a pipe (unless `pipefail`), not in front of `||` or `&&`, not in a
condition, and not for `cmd & wait`. `exit` without a word, and `exit $?`, give the code of the command before.
"""

import itertools
import re

import msgspec

from lastgood.audit.batch.programs import Launch
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Assignment, Command

_STATUS = ("?", "PIPESTATUS")
_ENDS = ("exit", "return")
_TALK = frozenset({"echo", "printf", "date", "true", ":", "touch", "logger", "sleep", "cat", "tee"})
_ASKS = re.compile(r"\[|\btest\b|\(\(|\bcase\b")
_TEST = re.compile(r"\[|\(\(")
_AT_THE_END = 200
_ANSWERS = re.compile(r"\b(exit|return|false|kill|scancel|scontrol|sbatch|break|continue|requeue)\b|=")
_SPREADS = ("srun", "mpirun", "torchrun", "accelerate", "deepspeed")

Item = Command | Assignment


class Lost(msgspec.Struct, frozen=True):
    """A program's exit code is not the script's."""

    how: str
    """"later" (another command's code counts), "exit" (`exit 0`), "rescued" (`|| true`) or "pipe"."""
    by: Item | None
    """Whose code counts; None for "rescued", where that is no command of its own."""
    rescued: Command | None = None
    """What stands in front of `||`: the program, or what has its code."""


def main_work(script: BatchScript) -> tuple[Command, Launch] | None:
    """The one command that the job is most likely there for: the last that is spread over tasks, or the last at all."""
    end = next((c for c in script.commands if c.name == "exit" and _is_top_level(c)), None)
    work = [found for found in script.work if _is_named(found[1]) and (end is None or found[0].begin < end.begin)]
    spread = [found for found in work if any(wrapper.name in _SPREADS for wrapper in found[1].wrappers)]
    found = spread or work
    return found[-1] if found else None


def carrier(script: BatchScript, command: Command) -> Command:
    """The command whose exit code is the program's: itself, or the only `wait` with a pid for one in the background."""
    if not command.around.is_background:
        return command
    waits = [other for other in script.follows(command) if other.name == "wait" and other.arguments]
    children = [other for other, _ in script.work if other.around.is_background]
    return waits[0] if len(waits) == len(children) == 1 else command


def _is_top_level(command: Command) -> bool:
    around = command.around
    return _is_certain(command) and not (
        around.function or around.within or around.in_subshell or around.in_substitution
    )


def _is_named(launch: Launch) -> bool:
    """`$(hook)` alone is no program that we can speak of."""
    return bool(launch.words) and not (launch.words[0].substitutions and len(launch.words[0].parts) == 1)


def lost_code(script: BatchScript, command: Command, depth: int = 0) -> Lost | None:
    """What loses a command's exit code; None if it is kept, or if that is not certain."""
    around = command.around
    if depth > 3 or around.is_condition or around.is_background or around.loops:
        return None
    if any("ERR" in trap.signals for trap in script.traps):
        return None
    if any(span.end_line >= command.span.line for span in script.shell.unreadable):
        # What comes behind it is not known.
        return None
    after = _after(script, command)
    if around.pipe_position < around.pipe_length - 1:
        if any("PIPESTATUS" in _variables(item) for item in after):
            return None
        if not has_pipefail(script, command.begin):
            return Lost("pipe", None)
        # The rest of the pipe counts with it.
        after = list(itertools.dropwhile(lambda item: item.around.pipe_position > around.pipe_position, after))
    if around.rescued_by:
        return None if _is_answered(script, around.rescued_by) else Lost("rescued", None, command)
    if has_errexit(script, command.begin) or any(wrapper.name == "exec" for wrapper in script.launch(command).wrappers):
        return None
    found = _replaced(script, command, after)
    return found if found is not None or after else _in_caller(script, command, depth)


def _in_caller(script: BatchScript, command: Command, depth: int) -> Lost | None:
    """The command is the last of its function or its string: it goes on where that is called."""
    around = command.around
    callers = [around.outer] if around.outer is not None else []
    if not callers and around.function:
        callers = [other for other in script.commands if other.name == around.function]
    if len(callers) != 1 or callers[0] is None:
        return None
    return lost_code(script, callers[0], depth + 1)


def _replaced(script: BatchScript, command: Command, after: list[Item]) -> Lost | None:
    if not after or _may_answer(script, command, after):
        return None
    certain = [item for item in after if _is_certain(item)]
    if certain and _is_end(certain[-1]):
        return _at_end(command, certain)
    if command.around.is_conditional:
        # The rest may belong to another branch.
        after = certain
    return Lost("later", after[-1]) if after else None


def _at_end(command: Command, certain: list[Item]) -> Lost | None:
    """Whose code `exit` gives."""
    end = certain[-1]
    assert isinstance(end, Command)
    code = end.arguments[0].text if end.arguments else "${?}"
    if code == "0":
        return Lost("exit" if end.name == "exit" else "later", end)
    if code != "${?}" or len(certain) == 1:
        return None
    return Lost("later", certain[-2])


def _may_answer(script: BatchScript, command: Command, after: list[Item]) -> bool:
    """True if something behind the command may end the script with its code, or do something about it."""
    kept = {item.name for item in after if isinstance(item, Assignment) and set(_variables(item)) & {*_STATUS}}
    certain = [item for item in after if _is_certain(item)]
    last = certain[-1] if certain else None
    asks = bool(kept) or _asks(script, command.end)
    if asks and last is not None and _TEST.search(script.source.text(last.end, last.end + _AT_THE_END)):
        return True
    for item in after:
        if isinstance(item, Assignment) or (item is last and _is_end(item)):
            continue
        if _is_end(item) and (not item.arguments or item.arguments[0].text != "0"):
            return True
        if item is last and set(_variables(item)) & {*_STATUS, *kept} and item.name not in _TALK:
            return True
        if asks and item.around.is_conditional and (item.name not in _TALK or _writes_a_file(item)):
            return True
    return False


def _asks(script: BatchScript, begin: int) -> bool:
    """Behind a place stands a test of the code of the command before; what is in here-documents is no test."""
    pieces = []
    for doc in script.shell.heredocs:
        if doc.end > begin:
            pieces.append(script.source.text(begin, max(begin, doc.begin)))
            begin = doc.end
    pieces.append(script.source.text(begin, len(script.source.data)))
    for line in "\n".join(pieces).split("\n"):
        code = max(line.rfind("$?"), line.rfind("${?"))
        if code >= 0 and _ASKS.search(line, 0, code):
            return True
    return False


def _writes_a_file(command: Command) -> bool:
    return any(
        redirect.operator.startswith((">", "1>", "&>"))
        and not redirect.target.text.startswith(("&", "/dev/", "1", "2"))
        for redirect in command.redirects
    )


def _after(script: BatchScript, command: Command) -> list[Item]:
    """What runs behind a command at its own level, assignments too, in the order of the text."""
    commands = [other for other in script.follows(command) if other.around.outer is command.around.outer]
    assignments = [
        other
        for other in script.shell.assignments
        if other.begin >= command.end
        and other.around.function == command.around.function
        and other.around.within == command.around.within
        and not other.around.in_substitution
    ]
    starts = {item.begin for item in commands}
    items: list[Item] = [*commands, *(item for item in assignments if item.begin not in starts)]
    return sorted(items, key=lambda item: item.begin)


def _is_certain(item: Item) -> bool:
    around = item.around
    return not (around.is_conditional or around.loops or around.is_background or around.is_condition)


def _is_end(item: Item) -> bool:
    return isinstance(item, Command) and item.name in _ENDS


def _variables(item: Item) -> tuple[str, ...]:
    if isinstance(item, Assignment):
        return item.value.variables if item.value is not None else ()
    return tuple(name for word in item.words for name in word.variables)


def _is_answered(script: BatchScript, rescue: str) -> bool:
    """True if what stands behind `||` may end the script, or is a function or a program of its own."""
    plain = _without_strings(rescue)
    first = plain.split()[0].rpartition("/")[2] if plain.split() else ""
    words = set(re.findall(r"[\w.-]+", plain))
    return (
        _ANSWERS.search(plain) is not None
        or bool(words & script.shell.functions.keys())
        or first.strip("{;(") not in (*_TALK, "", "rm", "mkdir", "cp", "mv", "mail", "sacct", "seff")
    )


def _without_strings(text: str) -> str:
    return re.sub(r"\"[^\"]*\"|'[^']*'", "", text)


def has_errexit(script: BatchScript, offset: int) -> bool:
    """True if `set -e` holds at a place."""
    return _is_set(script, offset, "e", "errexit")


def has_pipefail(script: BatchScript, offset: int) -> bool:
    return _is_set(script, offset, "", "pipefail")


def _is_set(script: BatchScript, offset: int, letter: str, name: str) -> bool:
    """By the last `set` above, or the first line."""
    shebang = script.source.line(1).split()[1:] if script.source.data.startswith(b"#!") else []
    calls = [["set", *shebang]]
    calls += [
        [w.text for w in command.words]
        for command in script.commands
        if command.name == "set" and command.begin < offset
    ]
    found = False
    for _, *words in calls:
        for i, word in enumerate(words):
            is_long = i > 0 and words[i - 1][-1:] == "o" and words[i - 1][:1] in "-+" and word == name
            is_letter = bool(letter) and word[:1] in ("-", "+") and letter in word[1:]
            if is_long:
                found = words[i - 1][0] == "-"
            elif is_letter:
                found = word[0] == "-"
    return found
