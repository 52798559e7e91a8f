"""Who gets SIGTERM when a container is stopped: only process 1, which is the shell unless the program replaces it.

Process 1 ignores a signal that it has no handler for. bash replaces itself with the last command of `-c` (5.1 and newer;
older ones only if it is the one simple command), dash never does. Seen with bash 5.2 and dash 0.5.12, in a PID namespace.
"""

import re

import msgspec

from lastgood.audit.batch.shell import Command
from lastgood.audit.kubernetes.commands import SHELLS, Container, Run, ShellText
from lastgood.audit.kubernetes.purpose import main_run
from lastgood.audit.kubernetes.templates import UNKNOWN

_ENDS_IT = {"TERM", "EXIT"}
"""A trap for one of these makes bash as process 1 answer SIGTERM."""
_ENDLESS = ("sleep", "tail")
_SENDS = re.compile(r"\b(?:kill|pkill|killall)\b")


class Ending(msgspec.Struct, frozen=True):
    """How a container's script ends."""

    run: Run
    """The program that it is there for."""
    shell: ShellText
    how: str
    """"last" (nothing is behind the program), "behind", "pipe", "background" or "loop"."""
    behind: Command | None
    """What follows."""

    @property
    def program(self) -> str:
        """The program's name for a message."""
        return program_of(self.run)

    @property
    def is_replaced(self) -> bool:
        """Every bash puts the program in its own place."""
        return self.how == "last" and self.shell.shell == "bash" and len(self.shell.script.commands) == 1


def ending_of(container: Container) -> Ending | None:
    """None where no shell runs the program, where an init, a trap or a hook passes signals on, or where it is not plain
    to see."""
    shell, run = container.shell, main_run(container)
    if shell is None or run is None or run.command is None or shell.has_init or _has_sending_hook(container):
        return None
    command, around = run.command, run.command.around
    script = shell.script
    if (
        any(_ENDS_IT & set(trap.signals) for trap in script.traps)
        or run.launch.wrapper("exec")
        or around.function
        or around.in_substitution
        or around.within
    ):
        return None
    behind = [
        other
        for other in script.follows(command)
        # What stands in a branch may be the other branch.
        if not (around.is_conditional and other.around.is_conditional)
        # What a template fills in is not known to be a command.
        and not any(UNKNOWN in word.text for word in other.words[:1])
    ]
    if around.pipe_length > 1:
        return Ending(run, shell, "pipe", None)
    if around.loops:
        return Ending(run, shell, "loop", None)
    if around.is_background:
        return Ending(run, shell, "background", behind[-1] if behind else None)
    return Ending(run, shell, "behind" if behind else "last", behind[-1] if behind else None)


def _has_sending_hook(container: Container) -> bool:
    """What Kubernetes runs before SIGTERM sends a signal itself."""
    words = container.value.elements("lifecycle", "preStop", "exec", "command")
    return any(_SENDS.search(word.text()) for word in words)


def program_of(run: Run) -> str:
    """What a message calls it: a script or a module rather than what interprets it."""
    launch = run.launch
    texts = [word.text for word in launch.words]
    name = launch.python_script or launch.program
    if len(texts) > 2 and texts[1] == "-m":
        name = texts[2]
    elif launch.program in SHELLS and len(texts) > 1 and not texts[1].startswith("-"):
        name = texts[1]
    name = name.rpartition("/")[2]
    return name if re.fullmatch(r"[\w.+-]{1,40}", name) else "the program"


def is_endless(command: Command) -> bool:
    """`sleep infinity`, `tail -f /dev/null`."""
    words = {word.text for word in command.arguments}
    return command.name in _ENDLESS and bool(words & {"infinity", "inf", "/dev/null"})
