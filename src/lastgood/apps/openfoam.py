"""OpenFOAM: a solver of any name, alone or behind mpirun or srun.

Seen with OpenFOAM v1912 (Debian), where the manual is silent on much of it:

- A time directory is written in place and never flushed, its mark (uniform/time) first. The newest one is taken whatever
  is in it: most damage ends the run at once, a missing `phi` is made anew, and the results differ.
- It ends with 0 after endTime, after a stop that was asked for, and where there is nothing left to do; "End" is in the log
  each time. Done is the time against endTime.
- SIGTERM and SIGINT end it without saving. Two signals of the user's choice write at the next step, and one of them stops
  it then. mpirun hands SIGUSR1 and SIGUSR2 on, but we send to the solver alone: it must not come twice.
- `stopAt writeNow` that is left behind makes each later start stop after one step.
- `startFrom startTime` begins from there each time, and writes over what is there.
- `purgeWrite` counts only what the present run has written.
- Of a full disk it says "error in IOstream", and where that shows only as a file is closed, nothing.
"""

import itertools
import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress

from lastgood.apps.last_words import openfoam_time
from lastgood.apps.openfoam_case import Case, Settings
from lastgood.apps.openfoam_control import value_of
from lastgood.apps.openfoam_files import Stamp, complaint, read_stamp
from lastgood.core.errors import UsageError
from lastgood.core.outcome import Ending, Evidence, Outcome
from lastgood.core.quoting import shown
from lastgood.core.signals import SIGUSR1, SIGUSR2, signal_name
from lastgood.core.units import duration
from lastgood.launch.ports import Conditions, Found, Order, StopRequest, Work
from lastgood.store import durable
from lastgood.store.durable import explained

_SWITCHES = "OptimisationSwitches"
_STOP = "stopAtWriteNowSignal"
_SAVE = "writeNowSignal"
_STOPPED = "sigStopAtWriteNow : setting up write and stop"
_MPIRUN = ("mpirun", "mpiexec", "orterun")
_STORAGE = re.compile(
    r"error in IOstream \S+ for operation .*Ostream|No space left|Disk quota exceeded|Input/output error|Read-only file system"
)
"""Of a full disk it says no more than that a stream for output has an error."""
_SIGFPE = 8
_ENOUGH_DIGITS = 17


class OpenFoam:
    """The run of one solver, in the directory of its case."""

    name = "OpenFOAM"

    def __init__(self, command: Sequence[str]) -> None:
        """Raises UsageError where the command runs no solver on a case, or not as it can be continued."""
        self._command = list(command)
        options = list(command)
        directory = options[options.index("-case") + 1] if "-case" in options[:-1] else "."
        is_parallel = "-parallel" in options
        self._case = Case(directory, is_parallel=is_parallel, is_collated="collated" in options)
        with explained("read", self._case.control_path, safe="nothing was started"):
            application = self._case.settings().word("application")
        at = _solver_at(command, application)
        self._solver = os.path.basename(command[at])
        self._application = application
        self._stop_signal = SIGUSR1
        self._save_signal: int | None = None
        self._stamp: Stamp | None = None
        """Of the newest whole time, by which times of the output are counted in steps."""
        self._counted_from = ""
        _check_launcher(command[:at], is_parallel=is_parallel)
        self._case.check_ranks()

    def lock_path(self) -> str:
        return self._case.in_case(".lastgood-openfoam.lock")

    def candidates(self) -> list[Found]:
        founds = self._case.checkpoints()
        newest = next((found for found in founds if not found.problem), None)
        if newest is not None and newest.path != self._counted_from:
            stamp = read_stamp(newest.path)
            if stamp is not None:
                self._counted_from, self._stamp = newest.path, stamp
        return founds

    def problem_of(self, found: Found) -> str:
        return self._case.problem_of(found)

    def order(self, found: Found | None, conditions: Conditions) -> Order:
        with explained("read and edit", self._case.control_path, safe="nothing was started"):
            notes = self._edit_control()
            self._stop_signal = _number_of(self._case.settings(), _STOP) or SIGUSR1
            self._save_signal = _number_of(self._case.settings(), _SAVE)
            if found is None:
                self._counted_from, self._stamp = "", self._stamp_at_start()
            notes += self._what_it_keeps(conditions, is_resumed=found is not None)
        if self._application not in ("", self._solver):
            notes.append(f"the case says `application {self._application}`, the command runs {self._solver}")
        return Order(list(self._command), notes=tuple(notes))

    def _stamp_at_start(self) -> Stamp | None:
        settings = self._case.settings()
        with suppress(UsageError):
            return Stamp(settings.number("startTime"), 0, settings.number("deltaT"))
        return None

    def _edit_control(self) -> list[str]:
        """Go on from the latest time, up to the end, and save and stop on a signal; where the case has signals for it, those
        are used. Of ours SIGUSR1 stops and SIGUSR2 saves, as it is with this launcher, and with srun that hands them on."""
        settings = self._case.settings()
        changes = [("startFrom", "latestTime", ""), ("stopAt", "endTime", "")]
        if _number_of(settings, _STOP) is None:
            taken = _number_of(settings, _SAVE)
            changes.append((_STOP, str(SIGUSR2 if taken == SIGUSR1 else SIGUSR1), _SWITCHES))
            if taken is None:
                changes.append((_SAVE, str(SIGUSR2), _SWITCHES))
        kept = self._case.edit(changes)
        if not kept:
            return []
        said = ", ".join(f"{key} {value}" for key, value, inside in changes if settings.word(key, inside) != value)
        return [f"set in {shown(self._case.control_path)}: {said}; its text before is in {shown(kept)}"]

    def _what_it_keeps(self, conditions: Conditions, *, is_resumed: bool) -> list[str]:
        """What the user's own settings mean for what a failure costs."""
        settings = self._case.settings()
        every = f"writeInterval {settings.word('writeInterval')} ({settings.word('writeControl')})"
        notes = [f"a failure costs the work since the last write: {every}{self._pace()}"]
        if conditions.is_interval_given:
            notes.append(
                f"--save-every {duration(conditions.interval_s)} changes nothing: what OpenFOAM writes are the results, at "
                "the times that the case asks for. For less loss make writeInterval smaller"
            )
        purge = settings.word("purgeWrite")
        if purge == "1":
            notes.append("purgeWrite 1 leaves nothing to go back to where the newest time is damaged: 2 or more do")
        if purge not in ("", "0") and is_resumed:
            notes.append(
                f"purgeWrite {purge} counts from this start on: times from before it stay, delete them when you like"
            )
        digits = settings.word("writePrecision")
        if settings.word("writeFormat") == "ascii" and digits.isdigit() and int(digits) < _ENOUGH_DIGITS:
            notes.append(
                f"writeFormat ascii with writePrecision {digits} drops digits at each resume: the results will not be those "
                f"of an undisturbed run to the last digit; with binary, or precision {_ENOUGH_DIGITS}, they are"
            )
        return notes

    def _pace(self) -> str:
        """How long it took from one time to the next, as far as their dates tell."""
        whole = [found.at for found in self._case.checkpoints() if not found.problem][:2]
        return f", lately {duration(whole[0] - whole[1])}" if len(whole) == 2 and whole[0] - whole[1] >= 1.0 else ""

    def put_aside(self, founds: Sequence[Found], why: str) -> list[str]:
        self._case.check_start_besides(founds)
        return [durable.put_aside(part, why) for found in founds for part in found.parts]

    def ask_to_stop(self, number: int) -> StopRequest:
        if number == SIGUSR2:
            if self._save_signal is None:
                return StopRequest(None, refusal="the case has a stopAtWriteNowSignal and no writeNowSignal")
            return StopRequest(self._save_signal, (self._solver,))
        return StopRequest(self._stop_signal, (self._solver,), is_exact=True)

    def reached(self, output: str, since: float) -> int | None:
        """It prints times, not steps. Where steps are not of one length this is about right."""
        time, stamp = openfoam_time(output), self._stamp
        if time is None or stamp is None or stamp.delta_s <= 0:
            return None
        return stamp.index + max(round((time - stamp.value) / stamp.delta_s), 0)

    def work(self) -> Work | None:
        newest = next((found for found in self._case.checkpoints() if not found.problem), None)
        stamp = None if newest is None else read_stamp(newest.path)
        if newest is None or stamp is None:
            return None
        left_s = self._case.settings().number("endTime") - stamp.value
        if left_s <= stamp.delta_s / 2:
            return Work(newest.step, newest.step, is_done=True)
        return Work(newest.step, newest.step + max(round(left_s / stamp.delta_s), 1), is_done=False)

    def explain_end(self, evidence: Evidence) -> Ending | None:
        words = evidence.log_tail
        if evidence.exit_code == 0:
            return self._explain_stop(words)
        if "Could not find mandatory etc entry" in words:
            reason = "OpenFOAM does not find its own files: set WM_PROJECT_DIR, on Debian to /usr/share/openfoam"
            return Ending(Outcome.PROGRAM_ERROR, reason, evidence.exit_code)
        if said := complaint(words):
            is_storage = _STORAGE.search(said) is not None
            return Ending(Outcome.STORAGE_ERROR if is_storage else Outcome.PROGRAM_ERROR, said, evidence.exit_code)
        if evidence.signal == _SIGFPE or evidence.exit_code == 128 + _SIGFPE or "sigFpe::sigHandler" in words:
            reason = "floating point exception: the solution has diverged, or a field is damaged"
            return Ending(Outcome.PROGRAM_ERROR, reason, 128 + _SIGFPE)
        return None

    def _explain_stop(self, words: str) -> Ending | None:
        if "solution converged in" in words:
            return Ending(Outcome.FINISHED, "it says that the solution has converged, before endTime")
        if _STOPPED in words:
            return Ending(Outcome.PREEMPTED, f"somebody sent {signal_name(self._stop_signal)}; saved and stopped")
        with suppress(OSError, UsageError):
            stop_at = self._case.settings().word("stopAt")
            if stop_at != "endTime":
                return Ending(Outcome.CANCELLED, f"`stopAt {stop_at}` was set in {shown(self._case.control_path)}")
            newest = next(iter(self._case.checkpoints()), None)
            if newest is not None and newest.problem:
                # What does not fit on a disk when a file is closed is not noticed.
                reason = f"it ended without an error, but of {shown(newest.path)} {newest.problem}: is the disk full?"
                return Ending(Outcome.STORAGE_ERROR, reason, 1)
        return None


def _number_of(settings: Settings, switch: str) -> int | None:
    """The signal that a switch is set to; None if it is off."""
    given = value_of(settings.text, switch, _SWITCHES) or ""
    return int(given) if given.isdigit() and int(given) > 0 else None


def _solver_at(command: Sequence[str], application: str) -> int:
    """Where the solver is: the case's `application`, or else a program with Foam in its name."""
    named = [
        i
        for i, word in enumerate(command)
        if (os.path.basename(word) == application or "foam" in os.path.basename(word).lower())
        and not word.startswith("-")
        and (i == 0 or command[i - 1] not in ("-case", "-wdir", "-wd", "--wdir", "-hostfile", "--hostfile"))
    ]
    for i in named:
        if shutil.which(command[i]) is not None:
            return i
    if named:
        raise UsageError(
            f"--app openfoam: {shown(command[named[0]])}: there is no such solver in PATH",
            safe="nothing was started",
            remedy="check the spelling, or load the environment of that OpenFOAM",
        )
    raise UsageError(
        f"--app openfoam: the command runs no solver: neither {application or 'an `application` of system/controlDict'}, "
        "nor a program with Foam in its name",
        safe="nothing was started",
        remedy="lastgood run --app openfoam --job DIR -- mpirun -np 4 icoFoam -parallel",
    )


def _check_launcher(before: Sequence[str], *, is_parallel: bool) -> None:
    is_mpirun = any(os.path.basename(word) in _MPIRUN for word in before)
    is_one = any(word in ("-np", "-n", "-c") and count == "1" for word, count in itertools.pairwise(before))
    if is_mpirun and not is_parallel and not is_one:
        raise UsageError(
            "mpirun and no -parallel: each rank would run the whole case, and all write to the same files",
            safe="nothing was started",
            remedy="decomposePar, then: mpirun -np N SOLVER -parallel",
        )
    if is_parallel and not before:
        raise UsageError(
            "-parallel and no mpirun: a solver does not start its ranks by itself",
            safe="nothing was started",
            remedy="mpirun -np N SOLVER -parallel",
        )
