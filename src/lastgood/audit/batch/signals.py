"""Which signals a batch script asks for, who gets them, and what its traps do with them. Pure.

Seen with bash 5.2: without a trap USR1, USR2, HUP, ALRM, XCPU and TERM end a script at once, also while it waits for a
program; INT, QUIT and CONT do not. With a trap bash first waits for the program that runs in its foreground.
"""

import re
from collections.abc import Iterable, Iterator

import msgspec

from lastgood.audit.batch.programs import Launch
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command, Trap, signal_name
from lastgood.audit.batch.words import Word
from lastgood.audit.source import Span

DEADLY = frozenset({"USR1", "USR2", "HUP", "ALRM", "XCPU", "TERM"})
"""Signals that end bash at once if it has no trap for them."""
SLACK_S = 60.0
"""How much earlier than asked for the signal may come (sbatch(1), --signal)."""
_ASKED = re.compile(r"(?P<who>[RB]{1,2}:)?(?P<name>[A-Za-z]+\d?|\d+)(@(?P<lead>\d+))?\Z")
_SHELLS = ("bash", "sh", "dash", "ksh", "zsh", "ash")
_KILLERS = ("kill", "pkill", "killall", "skill")
_HARMLESS = re.compile(
    r"(activate|bashrc|zshrc|bash_profile|profile|setup_env|setvars\.sh|conda\.sh|mamba\.sh|init/(ba)?sh|modules?\.sh|lmod\.sh"
    r"|z00_lmod\.sh|\.env|env\.sh|environment|/etc/[\w/.-]+|bashrc_[\w.-]+|GMXRC|spack[\w/.-]*\.sh)\Z"
)


class EarlySignal(msgspec.Struct, frozen=True):
    """`#SBATCH --signal=...`"""

    name: str
    """Without SIG."""
    lead_s: float
    """How long before the end it comes; 60 if nothing is said."""
    is_for_shell: bool
    """`B:`: only the batch shell gets it; otherwise only the steps that srun starts do."""
    is_lead_given: bool
    text: str
    """The option's value as it is written."""
    span: Span


def early_signal(script: BatchScript) -> EarlySignal | None:
    """What the script asks for; None for nothing, or for what cannot be read."""
    found = script.header.get("signal")
    match = _ASKED.match(found.value) if found is not None else None
    if found is None or match is None:
        return None
    lead = match["lead"]
    return EarlySignal(
        name=signal_name(match["name"]),
        lead_s=float(lead) if lead else 60.0,
        is_for_shell="B" in (match["who"] or ""),
        is_lead_given=lead is not None,
        text=found.value,
        span=found.span,
    )


def is_shell_script(script: BatchScript) -> bool:
    """False for a batch script in Python and the like, which gets signals itself."""
    first = script.source.line(1) if script.source.data.startswith(b"#!") else ""
    return not first or any(word.rpartition("/")[2] in _SHELLS for word in first[2:].split()[:2])


def reads_other_scripts(script: BatchScript) -> bool:
    """True if it sources a file that may set traps, or keep the signal in another way."""
    return any(
        command.name in ("source", ".")
        and command.arguments
        and not _HARMLESS.search(script.resolve(command.arguments[0]).text.partition(" ")[0])
        for command in script.commands
    )


def names_signal(script: BatchScript, signal: str) -> bool:
    """True if a command that is no trap is given the signal's name: a function from elsewhere may set the trap."""
    return any(
        signal_name(word.text) == signal
        for command in script.commands
        if command.name not in ("trap", "kill", "echo", "scancel")
        for word in command.arguments
    )


def own_traps(script: BatchScript, *signals: str) -> list[Trap]:
    """Traps of the batch shell itself for one of these signals, or for one whose name is not known."""
    return [
        trap
        for trap in script.traps
        if not trap.is_reset
        and trap.command.around.within != "-c"
        and not trap.command.around.in_substitution
        and any(name in signals or "$" in name for name in trap.signals)
    ]


def is_in_background(script: BatchScript, command: Command, depth: int = 0) -> bool:
    """True if bash does not wait for it: it stands behind `&`, or is in a function that is called so."""
    around = command.around
    if around.is_background:
        return True
    if depth > 5:
        return False
    callers = [around.outer] if around.outer is not None else []
    if around.function:
        callers += [other for other in script.commands if other.name == around.function]
    return any(is_in_background(script, caller, depth + 1) for caller in callers if caller is not None)


def is_replaced(script: BatchScript) -> bool:
    """True if the shell gives its place to a program (`exec srun ...`), which then gets its signals."""
    return any(launch.wrapper("exec") is not None and launch.words for _, launch in script.launches)


def ends_by_itself(launch: Launch) -> bool:
    """A program that is given its own time limit, and stops before Slurm asks."""
    return launch.wrapper("timeout") is not None or launch.has_argument("-maxh", "--max-time", "--max-duration")


def foreground_work(script: BatchScript) -> list[tuple[Command, Launch]]:
    """Programs that bash waits for before it runs a trap; none where the script itself waits for others."""
    background = _background(script)
    waits = any(command.name == "wait" and command.around.within != "trap" for command in script.commands)
    if waits and background:
        return []
    # What stands above a program in the background has prepared something for it.
    last = max((command.begin for command in background), default=-1)
    return [
        (command, launch)
        for command, launch in script.work
        if command.begin > last
        and not is_in_background(script, command)
        and launch.wrapper("exec") is None
        and not ends_by_itself(launch)
        and not command.around.is_condition
    ]


class Kill(msgspec.Struct, frozen=True):
    """A command that sends a signal on."""

    command: Command
    signal: str
    """Without SIG; TERM if the command says nothing."""
    targets: tuple[Launch, ...]
    """The script's background programs that it reaches, as far as that is known."""
    is_by_name: bool
    """`pkill`, `killall`: whatever has the name on this node."""
    is_of_pipe: bool = False
    """The target is the last command of a pipe."""


def kills_in(script: BatchScript, commands: Iterable[Command]) -> Iterator[Kill]:
    """The `kill`, `pkill` and `killall` among commands; those that only ask (`kill -0`) are left out."""
    for command in commands:
        if command.name in _KILLERS and not command.has_word("-l", "-L", "--list"):
            signal, targets = _arguments(command)
            if signal == "EXIT":
                # kill -0
                continue
            jobs = [job for word in targets for job in _jobs(script, command, word)]
            yield Kill(
                command=command,
                signal=signal,
                targets=tuple(script.launch(job) for job in jobs),
                is_by_name=command.name != "kill",
                is_of_pipe=any(job.around.pipe_length > 1 for job in jobs),
            )


def _arguments(command: Command) -> tuple[str, list[Word]]:
    signal = "TERM"
    targets: list[Word] = []
    words = list(command.arguments)
    while words:
        word = words.pop(0)
        if word.text in ("-s", "-n", "--signal") and words:
            signal = signal_name(words.pop(0).text)
        elif word.text.startswith("--signal="):
            signal = signal_name(word.text.partition("=")[2])
        elif re.fullmatch(r"-(SIG)?([A-Z]{2,}\d?|\d{1,2})", word.text) and not targets:
            signal = signal_name(word.text[1:])
        elif not word.text.startswith("-"):
            targets.append(word)
    return signal, targets


def _jobs(script: BatchScript, command: Command, target: Word) -> list[Command]:
    """The background commands that `$PID`, `$!`, `%1` or `$(jobs -p)` stand for."""
    jobs = _background(script)
    if any("jobs" in text for text in target.substitutions):
        return jobs
    if re.fullmatch(r"%\d", target.text):
        return jobs[int(target.text[1:]) - 1 :][:1] if target.text != "%0" else []
    found = []
    for name in target.variables:
        if name == "!":
            found += _last_above(jobs, command.begin if command.around.within != "trap" else len(script.source.data))
        for assignment in script.shell.assignments:
            if assignment.name == name and assignment.value is not None and assignment.value.variables == ("!",):
                found += _last_above(jobs, assignment.begin)
    return list({job.begin: job for job in found}.values())


def _last_above(jobs: list[Command], offset: int) -> list[Command]:
    return [job for job in jobs if job.end <= offset][-1:]


def _background(script: BatchScript) -> list[Command]:
    """Commands that `$!` is the number of: of a pipe that is its last."""
    return [
        command
        for command in script.commands
        if command.around.is_background
        and command.around.within != "-c"
        and command.around.pipe_position == command.around.pipe_length - 1
    ]


def name_of(launch: Launch) -> str:
    """A program's name for a message: of its own file rather than of what runs it."""
    path = launch.python_script
    if not path and launch.program in _SHELLS and len(launch.words) > 1 and launch.words[1].is_literal:
        path = launch.words[1].text
    return path.rpartition("/")[2] or launch.program or "the program"


def shown(signal: EarlySignal) -> str:
    """As it is written, for a message."""
    return f"`--signal={signal.text}`"


def reached(script: BatchScript, asked: EarlySignal) -> list[tuple[Command, Launch, str]]:
    """The programs that the early signal comes to, each with the signal's name: what srun runs, or what a trap passes
    it on to."""
    if not asked.is_for_shell:
        return [(command, launch, asked.name) for command, launch in script.work if launch.wrapper("srun") is not None]
    kills = [kill for trap in own_traps(script, asked.name) for kill in kills_in(script, trap.body)]
    by_words = {launch.words: command for command, launch in script.launches}
    return [(by_words[t.words], t, kill.signal) for kill in kills for t in kill.targets if t.words in by_words]
