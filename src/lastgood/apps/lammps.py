"""LAMMPS: `lmp -in FILE`, alone or behind mpirun or srun.

Seen with 29 Sep 2021; the manual is silent on much of it:

- It handles no signal at all: whatever comes kills it at once. To save and stop it needs a file that it looks for, by a
  `fix halt`; the rest of its input is carried out then, too, the final results with it.
- Restart files are written in place. One that is read is not checked: flipped bytes and a missing end pass unnoticed.
  `read_restart rs.*` takes the highest number, even of an empty file.
- A resumed run overwrites its log, and its dumps where they are not told to append; then they repeat frames.
- `run N` counts from the restart file on; `run N upto` does not, but begins what is ramped over a run once more.
- It ends with 0 after its last step and after a stop alike.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from lastgood.apps.lammps_files import Header, NotARestartFileError, cut_dump, read_header
from lastgood.apps.lammps_input import STOPPED, Names, make_input, saved_every, system_mark
from lastgood.apps.lammps_plain import read_plain
from lastgood.apps.lammps_script import Script, directives_in, read_input, read_own
from lastgood.apps.last_words import lammps_step
from lastgood.core.errors import UsageError
from lastgood.core.outcome import Ending, Evidence, Outcome
from lastgood.core.signals import SIGTERM, SIGUSR2
from lastgood.launch.ports import Conditions, Found, Order, StopRequest, Work
from lastgood.store import durable

_CLOCK_S = 60.0
"""How far times of files that one program writes to one file system may be apart."""
_PROGRAM = re.compile(r"lmp(?:_[\w+.-]+)?|lammps")
_REFUSED_OPTIONS = {
    "-partition": "several partitions have several restart files: run each as a job of its own",
    "-restart2data": "it converts a file, and runs nothing",
    "-restart2dump": "it converts a file, and runs nothing",
    "-skiprun": "it runs no steps",
}
_SHORT = {"-i": "-in", "-v": "-var", "-l": "-log", "-p": "-partition", "-r2data": "-restart2data", "-sr": "-skiprun"}


class Lammps:
    """The run of one input, in the directory that the launcher is in."""

    name = "LAMMPS"

    def __init__(self, command: Sequence[str]) -> None:
        """Raises UsageError where the command runs no lmp, or an input that cannot be continued."""
        self._command = list(command)
        self._at = _lmp_at(command)
        self._options = [_SHORT.get(word, word) for word in command[self._at + 1 :]]
        for option, reason in _REFUSED_OPTIONS.items():
            if option in self._options:
                raise UsageError(
                    f"--app lammps cannot continue a run with {option}", safe="nothing was started", remedy=reason
                )
        self._path = self._value("-in") or ""
        if not self._path:
            raise UsageError(
                "--app lammps: the command names no input",
                safe="nothing was started",
                remedy="name it with -in: what comes on standard input cannot be read before",
            )
        self._names = Names.of(self._path)
        self._script: Script | None = None
        self._headers: dict[tuple[str, int, int], Header] = {}

    def lock_path(self) -> str:
        return ".lastgood-lammps.lock"

    def candidates(self) -> list[Found]:
        founds = []
        for path in self._paths():
            try:
                status = os.stat(path)
                header = self._header(path, status)
            except FileNotFoundError:
                continue
            except NotARestartFileError as error:
                bad = Found(path, 0, status.st_mtime, status.st_size, str(error), may_be_cut_off=error.is_cut_off)
                founds.append(bad)
                continue
            founds.append(Found(path, header.step, status.st_mtime, status.st_size))
        return _newest_first(founds)

    def _header(self, path: str, status: os.stat_result) -> Header:
        """Each is read once: there may be thousands, on storage that is slow to open files."""
        key = (path, status.st_mtime_ns, status.st_size)
        if key not in self._headers:
            self._headers[key] = read_header(path)
        return self._headers[key]

    def problem_of(self, found: Found) -> str:
        script = self._read_script()
        try:
            header = read_header(found.path)
        except NotARestartFileError as error:
            return str(error)
        if found.step > script.last_step:
            return f"its step {found.step} is behind the last step of {self._path} ({script.last_step}): it is of another run"
        return _why_of_another_system(header, script, self._path) or self._why_not_of_this_start(header)

    def order(self, found: Found | None, conditions: Conditions) -> Order:
        script = self._read_script()
        for name in (self._names.stop, script.stop_file):
            if name:
                durable.delete_file(Path(name))
        options = list(self._options)
        notes = list(script.notes)
        if found is not None:
            options = self._with_new_log(options)
        if script.resume:
            options += [word.replace("FILE", found.path) for word in script.resume] if found is not None else []
            if not script.stop_file:
                notes.append(
                    "a stop loses what it did since its last restart file: its input has no `# lastgood stop-file:`"
                )
            return Order([*self._command[: self._at + 1], *options], notes=tuple(notes))
        if found is None:
            # It is of an earlier start, until the run writes it anew.
            durable.delete_file(Path(self._names.system))
        else:
            notes += [
                f"{path}: {cut} bytes from step {found.step} on are taken off and written again"
                for path in script.dumps
                if (cut := cut_dump(path, found.step))
            ]
        if not script.is_saving:
            notes.append(
                f"a restart file each {saved_every(script)} steps, a hundredth of the work: {self._path} asks for none "
                "(`restart N a b`)"
            )
        text = make_input(script, self._names, None if found is None else (found.path, found.step), conditions.left_s)
        durable.write_file(Path(self._names.input), text.encode("utf-8", "surrogateescape"))
        options[options.index("-in") + 1] = self._names.input
        return Order([*self._command[: self._at + 1], *options], notes=tuple(notes))

    def put_aside(self, founds: Sequence[Found], why: str) -> list[str]:
        return [durable.put_aside(found.path, why) for found in founds]

    def ask_to_stop(self, number: int) -> StopRequest:
        if number == SIGUSR2:
            return StopRequest(None, refusal="LAMMPS saves at its own steps only (restart N), and dies of SIGUSR2")
        script = self._read_script()
        name = script.stop_file if script.resume else self._names.stop
        if not name:
            # Nothing makes it save.
            return StopRequest(SIGTERM)
        try:
            Path(name).touch()
        except OSError:
            return StopRequest(SIGTERM)
        return StopRequest(None)

    def reached(self, output: str, since: float) -> int | None:
        return lammps_step(output)

    def work(self) -> Work | None:
        newest = next((found for found in self.candidates() if not found.problem), None)
        if newest is None:
            return None
        script = self._read_script()
        is_done = newest.step >= script.last_step and self._has_results(script, newest)
        return Work(newest.step, script.last_step, is_done)

    def explain_end(self, evidence: Evidence) -> Ending | None:
        said = _complaint(evidence.log_tail)
        if said and (evidence.exit_code or evidence.signal):
            is_storage = "No space left" in evidence.log_tail or "Disk quota exceeded" in evidence.log_tail
            return Ending(Outcome.STORAGE_ERROR if is_storage else Outcome.PROGRAM_ERROR, said, evidence.exit_code)
        if STOPPED in evidence.log_tail and evidence.exit_code == 0:
            if "Wall time limit reached" in evidence.log_tail:
                return Ending(Outcome.TIME_LIMIT, "saved and stopped by itself (timer timeout)")
            return Ending(Outcome.PREEMPTED, f"somebody made a file {self._names.stop}; saved and stopped")
        return None

    def _read_script(self) -> Script:
        if self._script is None:
            text = read_input(self._path)
            directives = directives_in(self._path, text)
            given = self._variables()
            self._script = (
                read_own(self._path, text, directives, given) if directives else read_plain(self._path, given)
            )
            if not self._script.patterns and self._script.resume:
                raise UsageError(
                    f"--app lammps: {self._path} writes no restart files",
                    safe="nothing was started",
                    remedy="add `restart N a b` to it, or name them: `# lastgood restart-files: rs.*`",
                )
        return self._script

    def _paths(self) -> list[str]:
        script = self._read_script()
        own = () if script.resume else (self._names.stopped, self._names.end, *self._names.saves)
        found: list[str] = []
        for pattern in (*script.patterns, *own):
            found += _matching(pattern)
        return list(dict.fromkeys(found))

    def _why_not_of_this_start(self, header: Header) -> str:
        """By what a start from zero has noted of its system."""
        if self._read_script().resume:
            return ""
        try:
            atoms, mark = Path(self._names.system).read_text("utf-8", "replace").split()
        except (FileNotFoundError, ValueError):
            return ""
        if atoms != str(header.atoms) and not self._read_script().may_lose_atoms:
            return f"it has {header.atoms} atoms, the run began with {atoms}: it is of another system"
        if mark != system_mark(self._read_script()):
            return f"it is of another system: the commands in {self._path} that build it were changed since"
        return ""

    def _has_results(self, script: Script, newest: Found) -> bool:
        """True if all that follows the run was done, too."""
        if not script.resume:
            try:
                return read_header(self._names.end).step >= script.last_step
            except (FileNotFoundError, NotARestartFileError):
                return False
        if not script.done_file:
            return True
        return os.path.exists(script.done_file) and os.stat(script.done_file).st_mtime >= newest.at - _CLOCK_S

    def _with_new_log(self, options: list[str]) -> list[str]:
        """A resumed run overwrites the log of the one before: it gets the first name that is free."""
        named = self._value("-log")
        if named == "none":
            return options
        base = named or "log.lammps"
        number = next(number for number in range(2, 10**6) if not os.path.lexists(f"{base}.{number}"))
        if named is None:
            return [*options, "-log", f"{base}.{number}"]
        options[options.index("-log") + 1] = f"{base}.{number}"
        return options

    def _value(self, option: str) -> str | None:
        at = self._options.index(option) + 1 if option in self._options else len(self._options)
        return self._options[at] if at < len(self._options) else None

    def _variables(self) -> dict[str, str]:
        """Those of the command line, with the first of their values."""
        words = self._options
        return {
            words[at + 1]: words[at + 2]
            for at, word in enumerate(words[:-2])
            if word == "-var" and words[at + 1 : at + 3]
        }


def _lmp_at(command: Sequence[str]) -> int:
    for i, word in enumerate(command):
        if _PROGRAM.fullmatch(os.path.basename(word)):
            return i
    raise UsageError(
        "--app lammps: the command runs no lmp",
        safe="nothing was started",
        remedy="lastgood run --app lammps --job DIR -- lmp -in in.melt",
    )


def _matching(pattern: str) -> list[str]:
    """The files of a name with `*` for a step."""
    if "*" not in pattern:
        return [pattern]
    directory, name = os.path.split(pattern)
    before, _, behind = name.partition("*")
    try:
        entries = os.listdir(directory or ".")
    except FileNotFoundError:
        return []
    # What was put aside has more behind the step.
    return [
        os.path.join(directory, entry)
        for entry in entries
        if entry.startswith(before)
        and entry.endswith(behind)
        and entry[len(before) : len(entry) - len(behind)].isdigit()
    ]


def _newest_first(founds: list[Found]) -> list[Found]:
    """By the step; those that cannot be read have none, and stand where they were written."""
    whole = sorted((found for found in founds if not found.problem), key=_age, reverse=True)
    bad = sorted((found for found in founds if found.problem), key=lambda found: found.at, reverse=True)
    at = whole[0].at if whole else 0.0
    return [*(found for found in bad if found.at >= at), *whole, *(found for found in bad if found.at < at)]


def _age(found: Found) -> tuple[int, float]:
    return found.step, found.at


def _why_of_another_system(header: Header, script: Script, path: str) -> str:
    for what, has, wanted in (
        ("units", header.units, script.units),
        ("atom style", header.atom_style, script.atom_style.removesuffix("/kk")),
        ("number of atom types", header.types, script.types),
    ):
        if wanted and has != wanted:
            return f"its {what} is {has}, that of {path} is {wanted}: it is of another system"
    return ""


def _complaint(words: str) -> str:
    """The error that LAMMPS ends with, in its own words; empty if there is none.

    >>> _complaint("Step Temp\\nERROR on proc 0: Cannot open file x (src/y.cpp:1)\\nLast command: read_data x\\n")
    'ERROR on proc 0: Cannot open file x (src/y.cpp:1) (Last command: read_data x)'
    """
    lines = words.splitlines()
    for number, line in enumerate(lines):
        if line.startswith(("ERROR:", "ERROR on proc")):
            last = next((more.strip() for more in lines[number + 1 :] if more.startswith("Last command:")), "")
            return f"{line.strip()} ({last})"[:300] if last else line.strip()[:300]
    return ""
