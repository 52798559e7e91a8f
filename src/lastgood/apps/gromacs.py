"""GROMACS: `gmx mdrun`, alone or behind mpirun or srun.

Seen with GROMACS 2022.5; the manual is silent on much of it:

- `-cpi` with the name of a file that is not there starts from step 0, without a word. So we pass it only where the
  file is there, and then with `-append`, which makes that an error.
- It ends with 1 after a stop that was asked for and after a fatal error, with 0 after the last step and after `-maxh`: done
  is the step of the checkpoint against that of the run input, and the final coordinates.
- It handles SIGTERM and SIGINT alone: within some steps it writes a checkpoint. A third one aborts it without. mpirun
  turns SIGTERM into SIGKILL after a second, so that only the ranks get it.
- `-nsteps` counts from the checkpoint on: a resumed run would go too far.
- Appending is refused where an output is missing, shorter or changed, or has another name than the command gives it;
  `-noappend` goes on in new files, whose names have the number of the part.
"""

import itertools
import os
from collections.abc import Sequence
from contextlib import suppress

from lastgood.apps.gromacs_files import (
    NotACheckpointError,
    Output,
    Steps,
    complaint,
    problem_of_output,
    read_header,
    read_outputs,
    read_steps,
)
from lastgood.apps.last_words import gromacs_step, read_end
from lastgood.core.errors import UsageError
from lastgood.core.outcome import Ending, Evidence, Outcome
from lastgood.core.quoting import shown
from lastgood.core.signals import SIGTERM, SIGUSR2
from lastgood.core.units import duration
from lastgood.launch.ports import Conditions, Found, Order, StopRequest, Work
from lastgood.store import durable

_CLOCK_S = 60.0
"""How far times of files that one program writes to one file system may be apart."""
_OUTPUTS = {".log": ("-g", "md"), ".edr": ("-e", "ener"), ".trr": ("-o", "traj"), ".xtc": ("-x", "traj_comp")}
"""Options that name what is appended to, and what it is called without them."""
_SUFFIXES = (*_OUTPUTS, ".tpr", ".cpt", ".gro", ".g96", ".pdb", ".brk", ".ent", ".esp", ".tng")
"""A name that ends with none of these gets one, whatever dots are in it."""
_STORAGE_WORDS = ("System I/O error", "File input/output error")


class Gromacs:
    """The run of one `mdrun` command, in the directory that the launcher is in."""

    name = "GROMACS"

    def __init__(self, command: Sequence[str]) -> None:
        """Raises UsageError where the command runs no mdrun, or has options with which no run can be continued."""
        self._command = list(command)
        self._at = _mdrun_at(command)
        self._options = list(command[self._at + 1 :])
        _refuse(self._options)
        before = _program_before(command, self._at)
        is_of_gmx = os.path.basename(before).startswith("gmx")
        self._gmx = [before] if is_of_gmx else ["gmx"]
        self._program = os.path.basename(before if is_of_gmx else command[self._at])
        base = self._value("-deffnm")
        self._input = self._named("-s", base or "topol", ".tpr")
        self._checkpoint = self._named("-cpo", base or "state", ".cpt")
        stem = self._checkpoint.removesuffix(".cpt")
        self._previous = f"{stem}_prev.cpt"
        self._final = self._named("-c", base or "confout", ".gro")
        self._steps: Steps | None = None
        self._outputs: dict[tuple[str, int], list[Output]] = {}

    def lock_path(self) -> str:
        return os.path.join(os.path.dirname(self._checkpoint), f".lastgood-{os.path.basename(self._checkpoint)}.lock")

    def candidates(self) -> list[Found]:
        founds = []
        for path in (self._checkpoint, self._previous):
            with suppress(FileNotFoundError):
                founds.append(_found(path))
        if len(founds) == 2 and not founds[0].problem and founds[0].step < founds[1].step:
            founds.reverse()
        return founds

    def problem_of(self, found: Found) -> str:
        planned, last = self._planned(), self._planned().last
        try:
            atoms = read_header(found.path).atoms
        except NotACheckpointError as error:
            return str(error)
        if planned.atoms not in (None, atoms):
            return f"it has {atoms} atoms, {self._input} has {planned.atoms}: it is of another system"
        if last is not None and found.step > last:
            return f"its step {found.step} is behind the last step of {self._input} ({last}): it is of another run"
        try:
            self._outputs_of(found)
        except NotACheckpointError as error:
            return str(error)
        return ""

    def order(self, found: Found | None, conditions: Conditions) -> Order:
        self._planned()
        options = _without(self._options, "-cpi", takes_value=True)
        is_appending = "-noappend" not in options
        options = [word for word in options if word not in ("-append", "-noappend")]
        notes: list[str] = []
        if self._value("-cpt") is None:
            options += ["-cpt", f"{conditions.interval_s / 60:.4g}"]
            notes.append(f"a checkpoint each {duration(conditions.interval_s)} (-cpt)")
        if conditions.left_s is not None and self._value("-maxh") is None:
            # It stops at 0.99 of what it is given.
            options += ["-maxh", f"{conditions.left_s / 0.99 / 3600:.5f}"]
        begin = found or self._given_begin()
        if begin is not None:
            options += ["-cpi", begin.path]
            notes += [f"begins from {shown(begin.path)} (step {begin.step}), as -cpi says"] if found is None else []
            refused = "" if not is_appending else self._why_not_append(begin)
            if is_appending and not refused:
                options.append("-append")
            else:
                options.append("-noappend")
                notes += [f"goes on in new files (-noappend): {refused}"] if refused else []
        elif not is_appending:
            options.append("-noappend")
        return Order([*self._command[: self._at + 1], *options], notes=tuple(notes))

    def _given_begin(self) -> Found | None:
        """What -cpi names, if that is the checkpoint of another run. Raises UsageError where it cannot be begun from."""
        if "-cpi" not in self._options:
            return None
        path = self._named("-cpi", self._value("-deffnm") or "state", ".cpt")
        if os.path.abspath(path) in map(os.path.abspath, (self._checkpoint, self._previous)):
            return None
        try:
            begin = _found(path)
            problem = begin.problem or self.problem_of(begin)
        except FileNotFoundError:
            problem = "it is not there, and mdrun would begin from step 0 without a word"
        if problem:
            raise UsageError(
                f"GROMACS cannot begin from -cpi {shown(path)}: {problem}",
                safe="nothing was started",
                remedy="name the checkpoint to begin from, or leave -cpi out",
            )
        return begin

    def put_aside(self, founds: Sequence[Found], why: str) -> list[str]:
        return [durable.put_aside(found.path, why) for found in founds]

    def ask_to_stop(self, number: int) -> StopRequest:
        if number == SIGUSR2:
            return StopRequest(None, refusal="mdrun saves at its own times only (-cpt), and dies of SIGUSR2")
        is_behind_mpi = any(
            os.path.basename(word) in ("mpirun", "mpiexec", "orterun") for word in self._command[: self._at]
        )
        return StopRequest(SIGTERM, (self._program,) if is_behind_mpi else ())

    def reached(self, output: str, since: float) -> int | None:
        steps = [gromacs_step(output)]
        with suppress(FileNotFoundError):
            steps += [gromacs_step(read_end(path)) for path in self._logs() if os.stat(path).st_mtime >= since]
        return max((step for step in steps if step is not None), default=None)

    def _logs(self) -> list[str]:
        """With -noappend each part has its own."""
        directory, name = os.path.split(self._output(".log"))
        stem = name.removesuffix(".log")
        return [
            os.path.join(directory, entry)
            for entry in os.listdir(directory or ".")
            if entry == name or (entry.startswith(f"{stem}.part") and entry.endswith(".log"))
        ]

    def work(self) -> Work | None:
        newest = next((found for found in self.candidates() if not found.problem), None)
        if newest is None:
            return None
        last = self._planned().last
        is_done = last is not None and newest.step >= last and self._has_final(newest)
        return Work(newest.step, last, is_done)

    def explain_end(self, evidence: Evidence) -> Ending | None:
        said = complaint(evidence.log_tail)
        if said and (evidence.exit_code or evidence.signal):
            is_storage = said.startswith(_STORAGE_WORDS) or "No space left" in said
            return Ending(Outcome.STORAGE_ERROR if is_storage else Outcome.PROGRAM_ERROR, said, evidence.exit_code)
        if "Run time exceeded" in evidence.log_tail and evidence.exit_code == 0:
            return Ending(Outcome.TIME_LIMIT, "saved and stopped by itself (-maxh)")
        for name in ("TERM", "INT"):
            if f"Received the {name} signal" in evidence.log_tail and evidence.exit_code in (1, 2):
                return Ending(Outcome.PREEMPTED, f"somebody sent SIG{name}; saved and stopped")
        return None

    def _planned(self) -> Steps:
        if self._steps is None:
            self._steps = read_steps(self._gmx, self._input)
        return self._steps

    def _has_final(self, newest: Found) -> bool:
        """True if the final coordinates are there, of this run: they are written behind the last checkpoint."""
        if "-noconfout" in self._options:
            return True
        directory, name = os.path.split(self._final)
        stem, suffix = os.path.splitext(name)
        # With -noappend it has the number of the part in its name.
        return any(
            (entry == name or (entry.startswith(f"{stem}.part") and entry.endswith(suffix)))
            and os.stat(os.path.join(directory, entry)).st_mtime >= newest.at - _CLOCK_S
            for entry in os.listdir(directory or ".")
        )

    def _outputs_of(self, found: Found) -> list[Output]:
        key = (found.path, os.stat(found.path).st_mtime_ns)
        if key not in self._outputs:
            self._outputs[key] = read_outputs(self._gmx, found.path)
        return self._outputs[key]

    def _why_not_append(self, found: Found) -> str:
        for output in self._outputs_of(found):
            if problem := problem_of_output(output, "."):
                return problem
            suffix = os.path.splitext(output.name)[1]
            if suffix in _OUTPUTS and output.name != (name := self._output(suffix)):
                return f"{output.name} is not {name}, which this command writes"
        return ""

    def _value(self, option: str) -> str | None:
        for word, following in itertools.pairwise([*self._options, ""]):
            if word == option:
                return following
        return None

    def _output(self, suffix: str) -> str:
        option, default = _OUTPUTS[suffix]
        return self._named(option, self._value("-deffnm") or default, suffix)

    def _named(self, option: str, default: str, suffix: str) -> str:
        """A file of the run. An option may stand without a value."""
        given = self._value(option) or ""
        name = default if not given or given.startswith("-") else given
        return name if name.endswith(_SUFFIXES) else name + suffix


def _found(path: str) -> Found:
    """Raises FileNotFoundError."""
    status = os.stat(path)
    try:
        header = read_header(path)
    except NotACheckpointError as error:
        return Found(path, 0, status.st_mtime, status.st_size, problem=str(error))
    return Found(path, header.step, status.st_mtime, status.st_size, detail=f"t = {header.time_ps:g} ps")


def _mdrun_at(command: Sequence[str]) -> int:
    for i, word in enumerate(command):
        if not os.path.basename(word).startswith("mdrun"):
            continue
        is_value = i > 0 and command[i - 1].startswith("-")
        if not is_value or os.path.basename(_program_before(command, i)).startswith("gmx"):
            return i
    raise UsageError(
        "--app gromacs: the command runs no mdrun",
        safe="nothing was started",
        remedy="lastgood run --app gromacs --job DIR -- gmx mdrun -s topol.tpr",
    )


def _program_before(command: Sequence[str], at: int) -> str:
    """The word before that one, and before options such as -quiet; empty if there is none."""
    return next((word for word in reversed(command[:at]) if not word.startswith("-")), "")


def _refuse(options: Sequence[str]) -> None:
    reasons = {
        "-nsteps": "it counts from the checkpoint on, so that a resumed run goes too far: put the number of steps into the "
        "run input (`gmx convert-tpr -nsteps N`)",
        "-cpnum": "it leaves no state.cpt to go on from",
        "-multidir": "several simulations in one command have several checkpoints: run each as a job of its own",
        "-rerun": "a rerun has no checkpoints",
    }
    for option, reason in reasons.items():
        if option in options:
            raise UsageError(
                f"--app gromacs cannot continue a run with {option}", safe="nothing was started", remedy=reason
            )
    for option, value in itertools.pairwise(options):
        if option == "-cpt" and value.startswith("-"):
            raise UsageError(
                f"mdrun {option} {value} writes no checkpoints, not even when it is told to stop",
                safe="nothing was started",
                remedy="leave -cpt to lastgood, or give minutes",
            )


def _without(options: Sequence[str], option: str, *, takes_value: bool) -> list[str]:
    kept: list[str] = []
    skip = False
    for word in options:
        if skip and not word.startswith("-"):
            skip = False
            continue
        skip = word == option and takes_value
        if word != option:
            kept.append(word)
    return kept
