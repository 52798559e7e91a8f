"""A LAMMPS input, read for what a resumed run has to do otherwise.

Two kinds can be continued. One says in comments how it resumes:

    # lastgood resume: -var resume FILE
    # lastgood last-step: 20000

Any other has to be plain: commands one after the other, one `run`, and nothing that is not on the lists of
`lammps_commands`. What is not known is refused: a resumed run that is silently another one is worse than none.
"""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from enum import Enum

import msgspec

from lastgood.apps import lammps_commands as known
from lastgood.apps.lammps_files import NotARestartFileError, read_header
from lastgood.apps.lammps_words import (
    Line,
    NotConstantError,
    UnreadableError,
    evaluate,
    expand,
    has_expansion,
    split_lines,
    unquoted,
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
    notes: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()
    """Words to be added to the command line; empty where the input is plain."""
    stop_file: str = ""
    done_file: str = ""


def read_script(path: str, given: Mapping[str, str]) -> Script:
    """`given` are the variables of the command line. Raises UsageError, OSError."""
    text = _read(path)
    directives = dict(_DIRECTIVE.findall(text))
    for name in directives:
        if name not in _DIRECTIVES:
            raise _refusal(path, f"`# lastgood {name}:` is not known", f"known are {', '.join(_DIRECTIVES)}")
    if directives:
        return _read_own(path, text, directives, given)
    reader = _PlainReader(path, given)
    reader.read(path, 0)
    return reader.script()


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UsageError(
            f"there is no LAMMPS input {path}", safe="nothing was started", remedy="name it with -in"
        ) from error


def _split(path: str, text: str) -> list[Line]:
    try:
        return split_lines(text)
    except UnreadableError as error:
        raise _refusal(path, f"{error} cannot be read") from error


def _refusal(where: str, why: str, remedy: str = OWN_WAY) -> UsageError:
    return UsageError(f"--app lammps: {where}: {why}", safe="nothing was started", remedy=remedy)


def _read_own(path: str, text: str, directives: Mapping[str, str], given: Mapping[str, str]) -> Script:
    resume = shlex.split(directives.get("resume", ""))
    if not any("FILE" in word for word in resume):
        raise _refusal(
            path, "its comments do not say how it resumes from a FILE", "add `# lastgood resume: -var resume FILE`"
        )
    values: dict[str, str | None] = dict(given)
    heard: dict[str, str] = {}
    patterns: list[str] = []
    for line in _split(path, text):
        name, words = line.words[0], line.words
        if name == "variable":
            _define(words, values)
        elif name in ("units", "atom_style") and len(words) > 1 and not has_expansion(words[1]):
            heard.setdefault(name, words[1])
        elif name in ("restart", "write_restart") and "restart-files" not in directives:
            named = words[1:2] if name == "write_restart" else _restart_names(words)
            try:
                patterns += [expand(word, values) for word in named]
            except NotConstantError as error:
                raise _refusal(
                    f"{path}, line {line.number}",
                    f"the name of the restart file depends on {error}",
                    "name the files that are resumed from, `*` for the step: `# lastgood restart-files: rs.*`",
                ) from error
    try:
        last = round(evaluate(expand(directives["last-step"], values), values))
    except (KeyError, NotConstantError) as error:
        raise _refusal(
            path, "its comments do not say at which step the work is done", "add `# lastgood last-step: N`"
        ) from error
    return Script(
        patterns=tuple(shlex.split(directives["restart-files"]) if "restart-files" in directives else patterns),
        last_step=last,
        units=heard.get("units", ""),
        atom_style=heard.get("atom_style", ""),
        resume=tuple(resume),
        stop_file=directives.get("stop-file", ""),
        done_file=directives.get("done-file", ""),
    )


def _define(words: Sequence[str], values: dict[str, str | None]) -> None:
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


def _restart_names(words: Sequence[str]) -> list[str]:
    """The files of a `restart N ...` command."""
    names = [word for word in words[2:4] if word not in ("fileper", "nfile")]
    if len(words) < 3 or words[1] == "0":
        return []
    return names if len(names) == 2 or "*" in names[0] else [f"{names[0]}.*"]


class _PlainReader:
    """Goes through an input, and gives each command its role."""

    def __init__(self, path: str, given: Mapping[str, str]) -> None:
        self._path = path
        self._values: dict[str, str | None] = dict(given)
        self._commands: list[Command] = []
        self._built_by: list[str] = []
        self._heard: dict[str, str] = {}
        self._types: int | None = None
        self._has_box = False
        self._first = 0
        self._last: int | None = None
        self._periodic: list[str] = []
        self._written: list[str] = []
        self._dumps: list[str] = []
        self._notes: list[str] = []

    def read(self, path: str, depth: int) -> None:
        if depth > _DEEPEST:
            raise _refusal(path, f"inputs include each other more than {_DEEPEST} deep")
        for line in _split(path, _read(path)):
            where = f"{path}, line {line.number}"
            try:
                if line.words[0] == "include":
                    self.read(expand(line.words[1], self._values), depth + 1)
                else:
                    self._take(where, line)
            except NotConstantError as error:
                raise _refusal(
                    where, f"{error} has another value in a resumed run than it had at the beginning"
                ) from error
            except (IndexError, ValueError) as error:
                raise _refusal(where, f"`{line.text}` cannot be read") from error

    def script(self) -> Script:
        if self._last is None:
            raise _refusal(self._path, "there is no `run` command in it")
        if not self._has_box:
            raise _refusal(self._path, "no command in it builds a system (create_box, read_data, read_restart)")
        return Script(
            patterns=tuple(dict.fromkeys([*self._periodic, *self._written])),
            last_step=self._last,
            units=self._heard.get("units", "lj"),
            atom_style=self._heard.get("atom_style", ""),
            types=self._types,
            commands=tuple(self._commands),
            first_step=self._first,
            built_by="\n".join(self._built_by),
            dumps=tuple(self._dumps),
            is_saving=bool(self._periodic),
            notes=tuple(dict.fromkeys(self._notes)),
        )

    def _take(self, where: str, line: Line) -> None:
        name, words = line.words[0], line.words
        if name in known.NOT_PLAIN:
            raise _refusal(where, f"`{name}`: {known.NOT_PLAIN[name]}")
        if self._last is not None:
            if name == "run":
                raise _refusal(where, "a second `run`: a step does not tell which of them it belongs to")
            if name == "write_restart":
                self._written.append(_one_file(where, expand(words[1], self._values)))
            self._commands.append(Command(Role.AFTER, line.text))
            return
        role = self._role(where, name, words)
        if role in (Role.BUILD, Role.BOX) or name in known.SHAPES:
            self._built_by.append(self._as_built(line.text))
        elif has_expansion(unquoted(line.text)):
            expand(unquoted(line.text), self._values)
        self._commands.append(Command(role, line.text))

    def _as_built(self, text: str) -> str:
        try:
            return expand(text, self._values)
        except NotConstantError:
            return text

    def _role(self, where: str, name: str, words: Sequence[str]) -> Role:
        if name in known.BOX:
            return self._box(where, name, words)
        if name in known.BUILD:
            return self._build(where, name, words)
        if name == "run":
            self._run(where, words)
            return Role.RUN
        if name == "restart":
            names = [_one_file(where, expand(word, self._values)) for word in _restart_names(words)]
            self._periodic = [*self._periodic, *names] if names else []
        elif name == "variable":
            self._variable(where, words)
        elif name in ("units", "atom_style"):
            self._heard[name] = expand(words[1], self._values)
        elif name == "fix":
            return self._fix(where, words)
        elif name in ("dump", "dump_modify"):
            return self._dump(where, name, words)
        elif name == "log":
            return Role.LOG
        elif name == "shell" and words[1] != "mkdir":
            raise _refusal(where, f"`shell {words[1]}` before the run is done again in a resumed one")
        elif name not in known.KEPT and not name.startswith(known.KEPT_PREFIXES):
            raise _refusal(where, f"`{name}` before the run: not known whether a resumed run may repeat it")
        if name == "region" and set(words[3:]) & {"move", "rotate"}:
            raise _refusal(where, "a region that moves begins to do so where a run begins")
        if name == "pair_style":
            self._notes += [
                f"pair_style {word} keeps its random state in no restart file"
                for word in words[1:]
                if word.split("/")[0] in known.RANDOM_PAIRS
            ]
        return Role.KEPT

    def _box(self, where: str, name: str, words: Sequence[str]) -> Role:
        if "fix" in words[2:]:
            raise _refusal(where, f"`{name} ... fix`: what a fix took from the file is not read again")
        if name == "create_box":
            self._types = round(evaluate(expand(words[1], self._values), self._values))
        if name == "read_restart":
            try:
                self._first = read_header(expand(words[1], self._values)).step
            except (OSError, NotARestartFileError) as error:
                raise _refusal(
                    where, f"{words[1]} cannot be read: {error}", "name a restart file that is whole"
                ) from error
        if self._has_box:
            return Role.BUILD
        self._has_box = True
        return Role.BOX

    def _build(self, where: str, name: str, words: Sequence[str]) -> Role:
        if name == "group" and set(words[2:3]) & {"dynamic", "static"}:
            raise _refusal(where, f"`group {words[2]}`: such a group is not in a restart file")
        if name == "reset_timestep":
            self._first = round(evaluate(expand(words[1], self._values), self._values))
        return Role.BUILD

    def _run(self, where: str, words: Sequence[str]) -> None:
        steps = round(evaluate(expand(words[1], self._values), self._values))
        rest = list(words[2:])
        if rest not in ([], ["upto"]):
            raise _refusal(where, f"`run {' '.join(words[1:])}`: only `run N` and `run N upto` can be continued")
        self._last = steps if rest else self._first + steps

    def _variable(self, where: str, words: Sequence[str]) -> None:
        style = words[2]
        if style not in known.VARIABLES:
            raise _refusal(where, f"`variable {style}`: not known whether a resumed run has the same values")
        for word in known.OF_THE_RUN:
            if re.search(rf"\b{word}\b", " ".join(words[3:])):
                raise _refusal(
                    where, f"`{word}` counts from where a run begins, which is another step in a resumed one"
                )
        _define(words, self._values)

    def _fix(self, where: str, words: Sequence[str]) -> Role:
        style = re.sub(r"/(?:omp|gpu|intel|kk|opt|kk/host|kk/device)$", "", words[3])
        if style not in known.FIXES and not style.startswith(known.FIX_PREFIXES):
            if style not in known.FIXES_WITH_NOTE:
                raise _refusal(where, f"`fix {style}`: not known whether a restart file has all of its state")
            self._notes.append(f"fix {style}: {known.FIXES_WITH_NOTE[style]}")
        if "file" not in words[4:]:
            return Role.KEPT
        self._notes.append(f"fix {words[1]} ({style}) goes on in a new file NAME.from-STEP after a resume")
        return Role.WRITES

    def _dump(self, where: str, name: str, words: Sequence[str]) -> Role:
        if name == "dump_modify":
            for word in ("time", "units", "every", "header"):
                if word in words[2:]:
                    raise _refusal(where, f"`dump_modify {word}`: frames that a resumed run writes again are not found")
            return Role.KEPT
        target = expand(words[5], self._values)
        if "*" in target:
            return Role.KEPT
        if words[3] not in known.DUMPS or target.endswith((".bin", ".gz", ".zst", ".mpiio")) or "%" in target:
            raise _refusal(
                where,
                f"a resumed run would write {target} anew (dump {words[3]})",
                "write one file per frame (`*` in its name), or text of style atom or custom",
            )
        self._dumps.append(target)
        return Role.DUMP


def _one_file(where: str, name: str) -> str:
    if "%" in name or name.endswith(".mpiio"):
        raise _refusal(where, f"{name}: restart files in pieces are not read", "leave out the % or .mpiio of its name")
    return os.path.normpath(name)
