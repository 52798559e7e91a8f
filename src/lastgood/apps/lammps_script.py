"""What a LAMMPS input says of a run, and inputs that say themselves, in comments, how they resume:

# lastgood resume: -var resume FILE
# lastgood last-step: 20000
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from enum import Enum

import msgspec

from lastgood.apps.lammps_words import (
    Line,
    NotConstantError,
    UnreadableError,
    evaluate,
    expand,
    has_expansion,
    split_lines,
)
from lastgood.core.errors import UsageError

OWN_WAY = (
    "let the input resume by itself, and say how in comments: `# lastgood resume: -var resume FILE` and "
    "`# lastgood last-step: N` (docs/how-to/applications.md, LAMMPS)"
)
_DIRECTIVE = re.compile(r"^\s*#\s*lastgood\s+([a-z-]+):\s*(.*?)\s*$", re.MULTILINE)
_DIRECTIVES = ("resume", "last-step", "restart-files", "stop-file", "done-file")
_DEEPEST = 10


class Role(Enum):
    """What becomes of a line where a run is resumed."""

    KEPT = "kept"
    BOX = "box"
    """In its place the restart file is read."""
    BUILD = "build"
    """Left out: what it did is in the restart file."""
    ONCE = "once"
    """Left out: it was done at the beginning, and says nothing of the system."""
    DUMP = "dump"
    WRITES = "writes"
    """It would overwrite what it has written to `file NAME`."""
    LOG = "log"
    RUN = "run"
    AFTER = "after"


class Command(msgspec.Struct, frozen=True):
    role: Role
    text: str


class Script(msgspec.Struct, frozen=True):
    """What an input says of a run and of its restart files."""

    patterns: tuple[str, ...]
    """Names of restart files; `*` stands for a step."""
    last_step: int
    units: str = ""
    atom_style: str = ""
    types: int | None = None
    commands: tuple[Command, ...] = ()
    first_step: int = 0
    built_by: str = ""
    """The commands that build the system."""
    dumps: tuple[str, ...] = ()
    """Files that a resumed run appends frames to."""
    is_saving: bool = False
    may_lose_atoms: bool = False
    notes: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()
    """Words to be added to the command line; empty where the input is plain."""
    stop_file: str = ""
    done_file: str = ""


def read_input(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UsageError(
            f"there is no LAMMPS input {path}", safe="nothing was started", remedy="name it with -in"
        ) from error


def split_input(path: str, text: str) -> list[Line]:
    try:
        return split_lines(text)
    except UnreadableError as error:
        raise refusal(path, f"{error} cannot be read") from error


def refusal(where: str, why: str, remedy: str = OWN_WAY) -> UsageError:
    return UsageError(f"--app lammps: {where}: {why}", safe="nothing was started", remedy=remedy)


def directives_in(path: str, text: str) -> dict[str, str]:
    """What an input says in comments of how it resumes; empty if it is a plain one. Raises UsageError."""
    directives = dict(_DIRECTIVE.findall(text))
    for name in directives:
        if name not in _DIRECTIVES:
            raise refusal(path, f"`# lastgood {name}:` is not known", f"known are {', '.join(_DIRECTIVES)}")
    return directives


def read_own(path: str, text: str, directives: Mapping[str, str], given: Mapping[str, str]) -> Script:
    """An input that says itself how it resumes. `given` are the variables of the command line. Raises UsageError."""
    resume = _split(path, text, "resume", directives.get("resume", ""))
    if not any("FILE" in word for word in resume):
        raise refusal(
            path, "its comments do not say how it resumes from a FILE", "add `# lastgood resume: -var resume FILE`"
        )
    values: dict[str, str | None] = dict(given)
    heard: dict[str, str] = {}
    patterns: list[str] = []
    for line in split_input(path, text):
        name, words = line.words[0], line.words
        if name == "variable":
            define(words, values)
        elif name in ("units", "atom_style") and len(words) > 1 and not has_expansion(words[1]):
            heard.setdefault(name, words[1])
        elif name in ("restart", "write_restart") and "restart-files" not in directives:
            named = words[1:2] if name == "write_restart" else restart_names(words)
            try:
                patterns += [expand(word, values) for word in named]
            except NotConstantError as error:
                raise refusal(
                    f"{path}, line {line.number}",
                    f"the name of the restart file depends on {error}",
                    "name the files that are resumed from, `*` for the step: `# lastgood restart-files: rs.*`",
                ) from error
    try:
        last = round(evaluate(expand(directives["last-step"], values), values))
    except (KeyError, NotConstantError) as error:
        raise refusal(
            path, "its comments do not say at which step the work is done", "add `# lastgood last-step: N`"
        ) from error
    if "restart-files" in directives:
        patterns = _split(path, text, "restart-files", directives["restart-files"])
    return Script(
        patterns=tuple(patterns),
        last_step=last,
        units=heard.get("units", ""),
        atom_style=heard.get("atom_style", ""),
        resume=tuple(resume),
        stop_file=directives.get("stop-file", ""),
        done_file=directives.get("done-file", ""),
    )


def _split(path: str, text: str, name: str, words: str) -> list[str]:
    """The words of a directive, as a shell has them."""
    try:
        return shlex.split(words)
    except ValueError as error:
        at = [match.start(1) for match in _DIRECTIVE.finditer(text) if match[1] == name][-1]
        where = f"{path}, line {text.count(chr(10), 0, at) + 1}"
        raise refusal(where, f"`# lastgood {name}: {words}`: {error}", "balance its quotes") from error


def define(words: Sequence[str], values: dict[str, str | None]) -> None:
    """Take note of a variable; what is not constant is known not to be."""
    if len(words) < 4 or (words[2] == "index" and words[1] in values):
        # One of the command line is not overwritten.
        return
    try:
        value: str | None = expand(words[3], values)
        if words[2] == "equal":
            value = f"{evaluate(' '.join(words[3:]) if len(words) > 4 else words[3], values):.15g}"
        elif words[2] not in ("index", "string"):
            value = None
    except NotConstantError:
        value = None
    values[words[1]] = value


def restart_names(words: Sequence[str]) -> list[str]:
    """The files of a `restart N ...` command."""
    names = [word for word in words[2:4] if word not in ("fileper", "nfile")]
    if len(words) < 3 or words[1] == "0":
        return []
    return names if len(names) == 2 or "*" in names[0] else [f"{names[0]}.*"]
