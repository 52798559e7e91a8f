"""Plain LAMMPS inputs: commands one after the other, one `run`, and nothing that is not on the lists of `lammps_commands`.

Each command gets a role: what becomes of it where a run is resumed. What is not known is refused: a resumed run that is
silently another one is worse than none.
"""

import os
import re
from collections.abc import Mapping, Sequence

from lastgood.apps import lammps_commands as known
from lastgood.apps.lammps_files import NotARestartFileError, read_header
from lastgood.apps.lammps_script import (
    Command,
    Role,
    Script,
    define,
    read_input,
    refusal,
    restart_names,
    split_input,
)
from lastgood.apps.lammps_words import Line, NotConstantError, evaluate, expand, has_expansion, unquoted

_DEEPEST = 10


def read_plain(path: str, given: Mapping[str, str]) -> Script:
    """`given` are the variables of the command line. Raises UsageError, OSError."""
    reader = _Reader(path, given)
    reader.read(path, 0)
    return reader.script()


class _Reader:
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
        self._is_minimized = False
        self._may_lose_atoms = False
        self._notes: list[str] = []

    def read(self, path: str, depth: int) -> None:
        if depth > _DEEPEST:
            raise refusal(path, f"inputs include each other more than {_DEEPEST} deep")
        for line in split_input(path, read_input(path)):
            where = f"{path}, line {line.number}"
            try:
                if line.words[0] == "include":
                    self.read(expand(line.words[1], self._values), depth + 1)
                else:
                    self._take(where, line)
            except NotConstantError as error:
                raise refusal(
                    where, f"{error} has another value in a resumed run than it had at the beginning"
                ) from error
            except (IndexError, ValueError) as error:
                raise refusal(where, f"`{line.text}` cannot be read") from error

    def script(self) -> Script:
        if self._last is None:
            raise refusal(self._path, "there is no `run` command in it")
        if not self._has_box:
            raise refusal(self._path, "no command in it builds a system (create_box, read_data, read_restart)")
        return Script(
            patterns=tuple(dict.fromkeys([*self._periodic, *self._written])),
            last_step=self._last,
            units=self._heard.get("units", ""),
            atom_style=self._heard.get("atom_style", ""),
            types=self._types,
            commands=tuple(self._commands),
            first_step=self._first,
            built_by="\n".join(self._built_by),
            dumps=tuple(self._dumps),
            is_saving=bool(self._periodic),
            may_lose_atoms=self._may_lose_atoms,
            notes=tuple(dict.fromkeys(self._notes)),
        )

    def _take(self, where: str, line: Line) -> None:
        name, words = line.words[0], line.words
        if name in known.NOT_PLAIN:
            raise refusal(where, f"`{name}`: {known.NOT_PLAIN[name]}")
        if self._last is not None:
            if name == "run":
                raise refusal(where, "a second `run`: a step does not tell which of them it belongs to")
            if name == "write_restart":
                self._written.append(_one_file(where, expand(words[1], self._values)))
            self._commands.append(Command(Role.AFTER, line.text))
            return
        role = self._role(where, name, words)
        if role in (Role.BUILD, Role.BOX) or name in known.SHAPES:
            self._built_by.append(" ".join(self._as_built(line.text).split()))
        if role not in (Role.BUILD, Role.BOX, Role.ONCE) and has_expansion(unquoted(line.text)):
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
        if name in known.ONCE or (name == "print" and "file" in words[2:]):
            return Role.ONCE
        if name == "shell":
            if words[1] == "cd":
                raise refusal(where, "`shell cd`: files are looked for where the launcher is")
            return Role.KEPT if words[1] == "putenv" else Role.ONCE
        if name == "restart":
            self._refuse_if_minimized(where)
            names = [_one_file(where, expand(word, self._values)) for word in restart_names(words)]
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
        elif name == "compute" and "once" in words[4:]:
            raise refusal(where, "`compute ... once`: in a resumed run that is once more")
        elif name not in known.KEPT and not name.startswith(known.KEPT_PREFIXES):
            raise refusal(where, f"`{name}` before the run: not known whether a resumed run may repeat it")
        if name == "thermo_modify" and "lost" in words:
            self._may_lose_atoms = True
        if name == "region" and set(words[3:]) & {"move", "rotate"}:
            raise refusal(where, "a region that moves begins to do so where a run begins")
        if name == "pair_style":
            self._notes += [
                f"pair_style {word} keeps its random state in no restart file"
                for word in words[1:]
                if word.split("/")[0] in known.RANDOM_PAIRS
            ]
        return Role.KEPT

    def _box(self, where: str, name: str, words: Sequence[str]) -> Role:
        if "fix" in words[2:]:
            raise refusal(where, f"`{name} ... fix`: what a fix took from the file is not read again")
        if name == "create_box":
            self._types = round(evaluate(expand(words[1], self._values), self._values))
        if name == "read_restart":
            try:
                self._first = read_header(expand(words[1], self._values)).step
            except (OSError, NotARestartFileError) as error:
                raise refusal(
                    where, f"{words[1]} cannot be read: {error}", "name a restart file that is whole"
                ) from error
        if self._has_box:
            return Role.BUILD
        self._has_box = True
        return Role.BOX

    def _build(self, where: str, name: str, words: Sequence[str]) -> Role:
        if name == "group" and set(words[2:3]) & {"dynamic", "static"}:
            raise refusal(where, f"`group {words[2]}`: such a group is not in a restart file")
        if name == "reset_timestep":
            self._first = round(evaluate(expand(words[1], self._values), self._values))
            self._is_minimized = False
        if name == "minimize":
            if self._periodic:
                raise refusal(where, "`restart` before `minimize`: steps of both are counted alike", "put it behind")
            self._is_minimized = True
        return Role.BUILD

    def _refuse_if_minimized(self, where: str) -> None:
        if self._is_minimized:
            raise refusal(
                where,
                "the steps of `minimize` count, and how many they were is not known",
                "add `reset_timestep 0` behind `minimize`",
            )

    def _run(self, where: str, words: Sequence[str]) -> None:
        self._refuse_if_minimized(where)
        steps = round(evaluate(expand(words[1], self._values), self._values))
        rest = list(words[2:])
        if rest not in ([], ["upto"]):
            raise refusal(where, f"`run {' '.join(words[1:])}`: only `run N` and `run N upto` can be continued")
        self._last = steps if rest else self._first + steps

    def _variable(self, where: str, words: Sequence[str]) -> None:
        style = words[2]
        if style not in known.VARIABLES:
            raise refusal(where, f"`variable {style}`: not known whether a resumed run has the same values")
        for word in known.OF_THE_RUN:
            if re.search(rf"\b{word}\b", " ".join(words[3:])):
                raise refusal(where, f"`{word}` counts from where a run begins, which is another step in a resumed one")
        define(words, self._values)

    def _fix(self, where: str, words: Sequence[str]) -> Role:
        if not self._has_box:
            raise refusal(where, "a fix before the system is built takes no state from a restart file")
        style = re.sub(r"/(?:omp|gpu|intel|kk|opt|kk/host|kk/device)$", "", words[3])
        if style not in known.FIXES and not style.startswith(known.FIX_PREFIXES):
            if style not in known.FIXES_WITH_NOTE:
                raise refusal(where, f"`fix {style}`: not known whether a restart file has all of its state")
            self._notes.append(f"fix {style}: {known.FIXES_WITH_NOTE[style]}")
        if "file" not in words[4:]:
            return Role.KEPT
        self._notes.append(f"fix {words[1]} ({style}) goes on in a new file NAME.from-STEP after a resume")
        return Role.WRITES

    def _dump(self, where: str, name: str, words: Sequence[str]) -> Role:
        if name == "dump_modify":
            for word in ("time", "units", "every", "header"):
                if word in words[2:]:
                    raise refusal(where, f"`dump_modify {word}`: frames that a resumed run writes again are not found")
            return Role.KEPT
        target = expand(words[5], self._values)
        if "*" in target:
            return Role.KEPT
        if words[3] not in known.DUMPS or target.endswith((".bin", ".gz", ".zst", ".mpiio")) or "%" in target:
            raise refusal(
                where,
                f"a resumed run would write {target} anew (dump {words[3]})",
                "write one file per frame (`*` in its name), or text of style atom or custom",
            )
        self._dumps.append(target)
        return Role.DUMP


def _one_file(where: str, name: str) -> str:
    if "%" in name or name.endswith(".mpiio"):
        raise refusal(where, f"{name}: restart files in pieces are not read", "leave out the % or .mpiio of its name")
    return os.path.normpath(name)
