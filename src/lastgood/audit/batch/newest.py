"""How a script finds its newest checkpoint: `ls *.pt | sort | tail -1` and its like. Pure."""

import itertools
import re
from collections.abc import Iterator

import msgspec

from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command
from lastgood.audit.source import Span

_CHECKPOINT = re.compile(
    r"ckpt|checkpoint|chkp|snapshot|restart|\.(pt|pth|cpt|chk|rst7?|safetensors)\b|(global_?)?step[-_]?[*?\[$]|epoch[-_=]?[*?\[$]|"
    r"iter(ation)?[-_]?[*?\[$]|\.state",
    re.IGNORECASE,
)
_BY_NUMBER = re.compile(r"-\w*[Vngh]\w*\Z|--(version|numeric|general-numeric|human-numeric)-sort\Z|-k\S*[Vngh]\S*\Z")
_PADDED = re.compile(r"\[0-9\]\[0-9\]|\?\?\?|%0\d|%Y|20\d\d")
_READERS = (
    "python",
    "gmx",
    "gmx_mpi",
    "h5dump",
    "h5ls",
    "tar",
    "gzip",
    "unzip",
    "zstd",
    "md5sum",
    "sha256sum",
    "ncdump",
    "stat",
)
_NUMBERED = re.compile(r"[*?\[]")
_OF_A_DATE = re.compile(r"date|time|year|month|day", re.IGNORECASE)
_NO_NUMBER = re.compile(r"^(job|run|slurm|version|exp|seed|fold|best)|best", re.IGNORECASE)
_RESUMES = re.compile(
    r"resum|restart|continu|(^|\s)-cpi\b|--?load\b|init[-_]?(from|check|ckpt|model)|start[-_]?from|read_restart",
    re.IGNORECASE,
)
_MOST = 100
_LAST = ("tail", "head")


class Choice(msgspec.Struct, frozen=True):
    """One place where a script takes the newest of several files."""

    span: Span
    by: str
    """"time", "name", "nothing" (the order in which `find` meets them) or "number"."""
    listing: Command
    is_silent: bool
    """What goes wrong with the listing is not shown: `2>/dev/null`."""
    name: str
    """The variable that takes it; empty if there is none."""


def choices_of_newest(script: BatchScript) -> Iterator[Choice]:
    """Each pipe that lists checkpoints and takes the first or last of them."""
    pipes = (stages for stages in _pipes(script) if stages[0].name in ("ls", "find"))
    for listing, *others in itertools.islice(pipes, _MOST):
        if not any(stage.name in _LAST for stage in others):
            continue
        name = _variable(script, listing)
        texts = [script.resolve(word).text for word in listing.arguments]
        text = " ".join(texts)
        if not _CHECKPOINT.search(f"{text} {name}") or not _is_to_resume(script, name):
            continue
        by = _order(listing, others, text)
        if by == "name" and (
            _PADDED.search(text) or _OF_A_DATE.search(name) or not any(_is_numbered(path) for path in texts)
        ):
            continue
        span = script.source.span(listing.begin, others[-1].end)
        is_silent = any(r.operator.startswith("2>") and r.target.text == "/dev/null" for r in listing.redirects)
        yield Choice(span, by, listing, is_silent, name)


def _is_numbered(path: str) -> bool:
    """The last part of a path is a pattern for names that differ in a number, such as `step_*.pt`, `*.ckpt` or `[0-9]*`."""
    last = path.rstrip("/").rpartition("/")[2]
    return _NUMBERED.search(last) is not None and _NO_NUMBER.search(last) is None


def _is_to_resume(script: BatchScript, name: str) -> bool:
    """True if what is found is given to something that resumes; one can also look for a checkpoint to test it."""
    if not name:
        return False
    names = {name}
    for assignment in script.shell.assignments:
        if assignment.value is not None and names & set(assignment.value.variables):
            if _resumes(script.source.text(assignment.begin, assignment.end), names):
                return True
            names.add(assignment.name)
    return any(
        names & {variable for word in command.words for variable in word.variables}
        and _resumes(script.source.text(command.begin, command.end), names)
        for command, _ in script.work
    )


def _resumes(text: str, names: set[str]) -> bool:
    """By the words around the variables: a restart file of a model can be read for other reasons, too."""
    if any("resume" in name.lower() for name in names):
        return True
    return _RESUMES.search(re.sub(rf"\$\{{?({'|'.join(map(re.escape, sorted(names)))})\b", "", text)) is not None


def _order(listing: Command, others: list[Command], text: str) -> str:
    options = [word.text for word in listing.arguments if re.match(r"-[A-Za-z]", word.text)]
    sort = next((stage for stage in others if stage.name == "sort"), None)
    if sort is not None:
        arguments = [word.text for word in sort.arguments]
        if listing.name == "find" and re.search(r"%[TACB]", text):
            return "time"
        after_key = " ".join(arguments)
        is_by_number = any(_BY_NUMBER.match(word) for word in arguments) or re.search(r"-k\s*\S*[Vng]", after_key)
        return "number" if is_by_number else "name"
    if listing.name == "find":
        return "nothing"
    letters = "".join(option[1:] for option in options if not option.startswith("--"))
    if "t" in letters or "--sort=time" in options:
        return "time"
    if "v" in letters or "--sort=version" in options:
        return "number"
    if any(stage.name in ("awk", "sed", "python", "python3", "perl") for stage in others):
        # Who knows what comes out of it.
        return "number"
    return "name"


def _pipes(script: BatchScript) -> Iterator[list[Command]]:
    """Commands that are joined by pipes, each from the first to the last."""
    commands = sorted(script.commands, key=lambda command: command.begin)
    for i, first in enumerate(commands):
        if first.around.pipe_position or first.around.pipe_length < 2:
            continue
        stages = [first]
        for other in commands[i + 1 :]:
            around = other.around
            if around.pipe_position == len(stages) and around.pipe_length == first.around.pipe_length:
                stages.append(other)
            if len(stages) == first.around.pipe_length or other.begin > stages[-1].end + 4096:
                break
        if len(stages) == first.around.pipe_length:
            yield stages


def _variable(script: BatchScript, command: Command) -> str:
    """The name of the variable that is given what a substitution prints."""
    for assignment in script.shell.assignments:
        if assignment.begin < command.begin < assignment.end:
            return assignment.name
    return ""


def is_looked_into(script: BatchScript, choice: Choice) -> bool:
    """True if some program is given the file before the work is: it may be a check."""
    return any(
        script.launch(command).program in _READERS and choice.name in _names(script, command)
        for command in script.commands
        if command.begin > choice.listing.end and not any(command is work for work, _ in script.work)
    )


def _names(script: BatchScript, command: Command) -> set[str]:
    """The variables that a command is given, also by way of others."""
    names = {name for word in command.words for name in word.variables}
    for assignment in reversed(script.shell.assignments):
        if assignment.name in names and assignment.value is not None:
            names |= set(assignment.value.variables)
    return names
