"""RELION: `relion_refine` and `relion_refine_mpi`, with which 2D and 3D are classified and refined.

Seen with RELION 3.1.3, one process and three ranks:

- Each iteration leaves its files (`run_it008_optimiser.star` and those that it names), written in place, the optimiser
  first and the sampling last. `--continue` takes an iteration whose particles are cut off at the end of a line, or whose
  class images are half there, and goes on with what is left.
- Without `--continue` it starts again from iteration 0, over the files of the run before: what that has left behind of
  higher iterations would be the newest.
- With `--continue` the whole first command line may follow: what cannot be changed is read from the iteration's files.
  These are first written again, in place: killed then, only the iteration before is whole.
- Every signal ends it at once. Nothing makes it save. RELION_JOB_ABORT_NOW, with `--pipeline_control`, ends it within
  milliseconds too, and stays: the next start would end at once.
- Exit code 0 for an unknown option, for a job that was done before, and where the disk was full.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from lastgood.apps.last_words import relion_iteration
from lastgood.apps.relion_files import (
    Iteration,
    NotWholeError,
    Optimiser,
    Particles,
    check_end,
    complaint,
    count_classes,
    find_iterations,
    read_iteration,
    read_particles,
)
from lastgood.core.errors import UsageError
from lastgood.core.outcome import Ending, Evidence, Outcome
from lastgood.core.signals import SIGUSR2
from lastgood.launch.ports import Conditions, Found, Order, StopRequest, Work
from lastgood.store import durable

_PROGRAMS = ("relion_refine", "relion_refine_mpi")
_SKIPPING = (
    "relion_autopick",
    "relion_convert_to_tiff",
    "relion_ctf_refine",
    "relion_motion_refine",
    "relion_preprocess",
    "relion_run_ctffind",
    "relion_run_motioncorr",
)
"""What works on one micrograph after the other and can leave out those that are done."""
_MARKERS = ("EXIT_SUCCESS", "EXIT_FAILURE", "EXIT_ABORTED", "ABORT_NOW")
_CLOCK_S = 60.0
"""How far times of files that one program writes to one file system may be apart."""
_STORAGE_WORDS = ("No space left", "Input/output error", "Disk quota exceeded")


class Relion:
    """One run of relion_refine: what it writes begins with the name that `--o` gives."""

    name = "RELION"

    def __init__(self, command: Sequence[str]) -> None:
        """Raises UsageError where the command runs a program without iterations, or one that cannot be continued."""
        self._command = list(command)
        self._at = _refine_at(command)
        self._options = list(command[self._at + 1 :])
        _refuse(self._options)
        root = self._value("--o")
        if not root:
            raise UsageError(
                "--app relion: the command has no --o, so that nothing tells where its files are",
                safe="nothing was started",
                remedy="add it, such as --o Class2D/job001/run",
            )
        self._root = root
        self._is_automatic = "--auto_refine" in self._options
        self._problems: dict[tuple[object, ...], str] = {}
        self._optimisers: dict[int, Optimiser] = {}
        self._written: dict[int, float] = {}
        self._expected: dict[tuple[str, int], Particles | None] = {}

    def lock_path(self) -> str:
        directory, base = os.path.split(self._root)
        if not os.path.isdir(directory or "."):
            raise UsageError(
                f"there is no directory {directory}, which --o names",
                safe="nothing was started",
                remedy=f"RELION does not make it. For a new run: mkdir -p {directory}",
            )
        return os.path.join(directory, f".lastgood-{base}.lock")

    def candidates(self) -> list[Found]:
        founds: list[Found] = []
        newest_before = (0.0, 0)
        for iteration in reversed(find_iterations(self._root)):
            problem = self._quick_problem(iteration)
            may_be_cut_off = bool(problem)
            at = max((ns for _, ns, _ in iteration.stamps), default=0) / 1e9
            if not problem and at < newest_before[0] - _CLOCK_S:
                problem = f"it is older than iteration {newest_before[1]}: an earlier run has left it"
            newest_before = max(newest_before, (at, iteration.number))
            if not problem:
                # A resume writes the iteration again that it starts from; that makes it no newer.
                at = self._written.setdefault(iteration.number, at)
            size_bytes = sum(size for _, _, size in iteration.stamps)
            founds.append(
                Found(
                    iteration.optimiser,
                    iteration.number,
                    at,
                    size_bytes,
                    problem,
                    f"iteration {iteration.number}",
                    iteration.paths,
                    may_be_cut_off=may_be_cut_off,
                )
            )
        return founds[::-1]

    def problem_of(self, found: Found) -> str:
        try:
            optimiser = self._optimisers[found.step]
            classes, given = count_classes(optimiser.models[0]), self._value("--K")
            # Several references in one file are as many classes, whatever --K says.
            is_asked = given is not None and (self._value("--ref") or ".mrc").endswith(".mrc")
            if is_asked and given != str(classes):
                return f"it has {classes} classes, the command asks for {given}: it is of another run"
            particles, expected = read_particles(optimiser.data), self._particles_given()
        except NotWholeError as error:
            return str(error)
        name, given = os.path.basename(optimiser.data), self._value("--i")
        if expected is not None and particles.count != expected.count:
            return f"{name} has {particles.count} particles, {given} has {expected.count}"
        if expected is not None and particles.names != expected.names:
            return f"{name} has other particles than {given}: it is of another run"
        return ""

    def order(self, found: Found | None, conditions: Conditions) -> Order:
        notes = [f"removed {path}, which an earlier run has left" for path in self._remove_markers()]
        if conditions.is_interval_given:
            notes.append("RELION saves at the end of each iteration: --save-every changes nothing")
        if found is None:
            return Order(self._command, notes=tuple(notes))
        options = list(self._options)
        if "--sgd" in options or "--grad" in options:
            # The number of its iterations comes from other options, which are in the iteration's files.
            options = _without(options, "--iter")
        return Order([*self._command[: self._at + 1], *options, "--continue", found.path], notes=tuple(notes))

    def put_aside(self, founds: Sequence[Found], why: str) -> list[str]:
        aside = []
        for found in founds:
            self._written.pop(found.step, None)
            self._optimisers.pop(found.step, None)
            aside += [durable.put_aside(path, why) for path in found.parts]
        return aside

    def ask_to_stop(self, number: int) -> StopRequest:
        """What a kill costs is the iteration that is being computed. So it gets the grace time to end it."""
        if number == SIGUSR2:
            return StopRequest(None, refusal="RELION saves at the end of each iteration, and dies of SIGUSR2")
        return StopRequest(None, is_ended_at_save=True)

    def reached(self, output: str, since: float) -> int | None:
        """The iteration that it computes: where it is killed, that one is lost."""
        return relion_iteration(output)

    def work(self) -> Work | None:
        newest = next((found for found in self.candidates() if not found.problem), None)
        if newest is None:
            return None
        if not self._is_automatic:
            total = self._total(self._optimisers[newest.step])
            return Work(newest.step, total, newest.step >= total)
        limit = _number(self._value("--auto_iter_max"))
        is_done = self._has_converged(newest) or (limit is not None and newest.step >= limit)
        return Work(newest.step, newest.step if is_done else None, is_done)

    def explain_end(self, evidence: Evidence) -> Ending | None:
        if evidence.exit_code == 2 and os.path.exists(self._marker("EXIT_ABORTED")):
            return Ending(Outcome.CANCELLED, "somebody asked RELION to abort (RELION_JOB_ABORT_NOW)")
        said = complaint(evidence.log_tail)
        if said and (evidence.exit_code or evidence.signal):
            if "out of memory" in said:
                return Ending(Outcome.OUT_OF_MEMORY, said, evidence.exit_code)
            is_storage = any(words in said for words in _STORAGE_WORDS)
            return Ending(Outcome.STORAGE_ERROR if is_storage else Outcome.PROGRAM_ERROR, said, evidence.exit_code)
        return self._explain_success() if evidence.exit_code == 0 else None

    def _explain_success(self) -> Ending | None:
        newest = next(iter(self.candidates()), None)
        if newest is not None and newest.may_be_cut_off:
            said = f"exit code 0, but {newest.problem}: RELION goes on where a disk is full"
            return Ending(Outcome.STORAGE_ERROR, said, 1)
        if newest is None or self._is_automatic:
            return Ending(Outcome.PROGRAM_ERROR, "exit code 0, but its last results are not there or not whole", 1)
        return None

    def _quick_problem(self, iteration: Iteration) -> str:
        """Each version of the files is looked at once."""
        if iteration.stamps not in self._problems:
            try:
                self._optimisers[iteration.number] = read_iteration(iteration)
                self._problems[iteration.stamps] = ""
            except NotWholeError as error:
                self._problems[iteration.stamps] = str(error)
        return self._problems[iteration.stamps]

    def _total(self, optimiser: Optimiser) -> int:
        given = _number(self._value("--iter"))
        is_given = given is not None and "--sgd" not in self._options and "--grad" not in self._options
        return given if is_given and given is not None else optimiser.iterations

    def _has_converged(self, newest: Found) -> bool:
        """True if the results of the last iteration, which has no number, are there: the sampling is their last file."""
        for part in ("data", "model", "sampling"):
            path = f"{self._root}_{part}.star"
            try:
                check_end(path)
            except NotWholeError:
                return False
            if os.stat(path).st_mtime < newest.at:
                return False
        return True

    def _particles_given(self) -> Particles | None:
        """Those of the input; None where it is no STAR file with a table of images."""
        path = self._value("--i") or ""
        if not path.endswith(".star"):
            return None
        try:
            key = (path, os.stat(path).st_mtime_ns)
            if key not in self._expected:
                particles = read_particles(path)
                self._expected[key] = particles if particles.count else None
            return self._expected[key]
        except (NotWholeError, FileNotFoundError):
            return None

    def _marker(self, name: str) -> str:
        # RELION puts one behind the other, too: without a slash at the end it is a part of the name.
        return f"{self._value('--pipeline_control') or ''}RELION_JOB_{name}"

    def _remove_markers(self) -> list[str]:
        if self._value("--pipeline_control") is None:
            return []
        there = [path for path in map(self._marker, _MARKERS) if os.path.lexists(path)]
        for path in there:
            durable.delete_file(Path(path))
        return there

    def _value(self, option: str) -> str | None:
        """Of an option that is given twice RELION takes the last."""
        pairs = zip(self._options, self._options[1:], strict=False)
        return next((value for word, value in reversed(list(pairs)) if word == option), None)


def _refine_at(command: Sequence[str]) -> int:
    for i, word in enumerate(command):
        program = os.path.basename(word)
        if program in _PROGRAMS:
            return i
        if program.startswith("relion_"):
            can_skip = program.removesuffix("_mpi") in _SKIPPING
            how = f"{program} ... --only_do_unfinished" if can_skip else f"{program} ..."
            then = "leaves out the micrographs that are done" if can_skip else "begins again"
            raise UsageError(
                f"--app relion: {program} writes nothing that it could be continued from; only relion_refine does",
                safe="nothing was started",
                remedy=f"run it as any other command, which {then} after a failure: lastgood run --job DIR -- {how}",
            )
    raise UsageError(
        "--app relion: the command runs no relion_refine",
        safe="nothing was started",
        remedy="lastgood run --app relion --job DIR -- relion_refine --o Class2D/job001/run --i particles.star ...",
    )


def _refuse(options: Sequence[str]) -> None:
    reasons = {
        "--continue": "give the command of the first start: lastgood adds the newest iteration that is whole",
        "--multibody_masks": "it starts from another run's files, which a further start must not do again: run it as any "
        "other command",
    }
    for option, reason in reasons.items():
        if option in options:
            raise UsageError(f"--app relion takes no {option}", safe="nothing was started", remedy=reason)


def _without(options: Sequence[str], option: str) -> list[str]:
    """Without an option and its value."""
    return [word for i, word in enumerate(options) if word != option and (i == 0 or options[i - 1] != option)]


def _number(value: str | None) -> int | None:
    return int(value) if value is not None and value.isdecimal() else None
