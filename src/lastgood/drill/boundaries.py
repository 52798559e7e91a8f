"""SIGKILL at the file operations of a job's own save, each time from the same state, and what the next start makes of it.

The directory of the checkpoints is a file system of ours (drill/filesystem), which sees each call that changes something
there, whoever makes it, before it takes effect:

1. the job runs until it has a complete checkpoint, and is killed between two saves: its files are kept aside;
2. it runs again from there, undisturbed, and the calls of its next save are noted;
3. for each call: its files are put back, it runs, whoever makes that call is killed right before it takes effect and all
   the rest of the job with it, and it is started again.

Where no file system can be mounted, strace sees the same of a program of one process (tracing.py). It is the second choice,
because it counts calls for each thread by itself, and cannot be told which thread to kill; to the file system the n-th
change of these files is the same one in each run, whoever makes it.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import msgspec

from lastgood.core.errors import LastgoodError, StartRefusedError
from lastgood.core.units import duration
from lastgood.drill import saving, tracing
from lastgood.drill.boundary_answer import Next, Point
from lastgood.drill.checkpoints import checkpoints_of, open_files
from lastgood.drill.fault import Answer, Call, Campaign, DrillJournal, Options, Saved, Stage, Tried
from lastgood.drill.filesystem import mounting
from lastgood.drill.filesystem.changes import Change
from lastgood.drill.filesystem.disk import FaultyDisk
from lastgood.drill.filesystem.faults import checkpoint_directory
from lastgood.drill.stopped import stopped
from lastgood.drill.tracing import StraceEye
from lastgood.store.catalogue import list_checkpoints
from lastgood.store.jobdir import open_job
from lastgood.trial.place import Place, keep_copy, make_place, restore_copy
from lastgood.trial.target import OUR_OWN, RUN, Target, Way, step_finder, step_in
from lastgood.trial.trial import LOOK_S, Sight, Trial

POINTS = 12
_STEPS_AFTER = 3
"""So many steps the next start is watched for."""
_QUIET_S = 0.1
_LINE = 160
"""So much is shown of what a start that failed said."""
_LEAST_LIMIT_S = 30.0
_TRIES = 2
"""A start that fails is given a second chance, as a person or a scheduler would."""


class KillAtEveryOperation(Campaign):
    name: ClassVar[str] = "kill-at-every-operation"
    options: ClassVar[Mapping[str, str]] = {
        "points": f"how many calls of the save are tried, spread over it (0: all; default {POINTS})",
        "seen-by": "files (a file system of ours), or strace, for programs of one process (default: files where it can be had)",
    }

    def __init__(self, options: Options) -> None:
        self.points = options.count("points", POINTS)
        seen_by = options.choice("seen-by", "auto", ("auto", "files", "strace"))
        self._is_traced = seen_by == "strace" or (seen_by == "auto" and bool(mounting.missing()))
        self._is_given = seen_by == "strace"

    def missing(self, call: Call) -> str:
        if not self._is_traced:
            return mounting.missing()
        if call.way is Way.LASTGOOD:
            why = "strace cannot tell the processes of `lastgood run` apart"
            return why if self._is_given else f"{mounting.missing()}; and {why}"
        return tracing.missing()

    def run(self, stage: Stage) -> list[Tried]:
        place = make_place(stage.root, "boundaries", stage.target)
        boundaries = Boundaries(
            stage.target, stage.way, place,
            limit_s=_limit_s(stage), journal=stage.journal, is_traced=self._is_traced,
        )  # fmt: skip
        try:
            return boundaries.run(self.points)
        except CannotTryError as error:
            return [Tried("kill at every operation of a save", error.answer, error.reason)]


class CannotTryError(Exception):
    """No save can be tried; the answer that follows from why."""

    def __init__(self, answer: Answer, reason: str) -> None:
        super().__init__(reason)
        self.answer = answer
        self.reason = reason


class Boundaries:
    """The procedure. `limit_s` is for one start."""

    def __init__(
        self, target: Target, way: Way, place: Place, *, limit_s: float, journal: DrillJournal, is_traced: bool
    ) -> None:
        self._is_traced = is_traced
        self._trial = Trial(target, place, way)
        self._place = place
        self._limit_s = limit_s
        self._journal = journal
        self._kept = place.path / "kept"
        self._lines: dict[int, str] = {}
        """What undisturbed runs said of each step."""
        self._differs: set[int] = set()
        """Steps of which two undisturbed runs said different things."""
        self._matched = 0
        self._attempt_before = 0
        self._checkpoint_step: int | None = None
        self._finder = step_finder(target.step_pattern)
        self._subject, self._is_checkpoint = _subject(target, place)

    def run(self, points: int) -> list[Tried]:
        """Raises CannotTryError. Nothing of it runs afterwards."""
        with self._trial:
            self._prepare()
            before, save = self._learn()
            patterns = saving.patterns_of(save)
            chosen = saving.spread(len(save), points)
            self._journal.note(
                "save_seen",
                calls=[saving.describe(save, i) for i in range(len(save))],
                tried=len(chosen),
                checkpoint_step=self._checkpoint_step,
                are_numbers_compared=self._are_numbers_compared,
            )
            tried = []
            for i in chosen:
                point = self._try(save, i, before + i + 1, patterns)
                self._journal.note("killed_in_save", where=point.where, who=point.who, next=point.what.value)
                tried.append(point.as_tried(self._checkpoint_step))
            return tried

    @property
    def _are_numbers_compared(self) -> bool:
        return self._matched > 0 and not self._differs

    def _eye(self) -> FaultyDisk | StraceEye:
        if self._is_traced:
            return StraceEye(self._trial, self._subject, self._place.path / "strace.txt")
        return FaultyDisk(self._subject)

    def _start(self) -> None:
        record = self._trial.newest_record()
        self._attempt_before = record.number if record is not None else 0
        self._trial.start()

    def _look(self) -> Sight:
        """What it shows of this start; of an attempt before it, nothing."""
        sight = self._trial.look()
        if sight.attempt <= self._attempt_before:
            return msgspec.structs.replace(sight, from_step=None, step=None)
        return sight

    # -- the state from which all is tried

    def _prepare(self) -> None:
        """Run it until it has a checkpoint and has gone on from there, and kill it between two saves."""
        trial = self._trial
        begin = self._output_size()
        self._start()
        end = time.monotonic() + self._limit_s
        while True:
            sight = self._look()
            saved = checkpoints_of(trial)
            if saved and _has_gone_on(saved[0], sight) and self._killed_between_saves(saved):
                break
            if not sight.is_running:
                reason = f"the job ended (exit code {trial.exit_code}) "
                reason += (
                    "before it could be killed between two saves"
                    if saved
                    else "without a checkpoint: see --checkpoints"
                )
                raise CannotTryError(Answer.UNKNOWN, reason)
            if time.monotonic() > end:
                reason = "the job is always saving" if saved else "the job made no checkpoint (see --checkpoints)"
                raise CannotTryError(Answer.UNKNOWN, f"{reason}: waited {duration(self._limit_s)}")
            time.sleep(LOOK_S)
        self._note_lines(begin)
        self._look_where_they_are(saved[0])
        keep_copy(self._place, self._kept)

    def _look_where_they_are(self, saved: Saved) -> None:
        """Of an application the launcher finds the checkpoints: among the files of the command."""
        work = self._place.work
        if not self._trial.target.checkpoints and saved.files and saved.files[0].is_relative_to(work):
            self._subject, self._is_checkpoint = work, saving.is_under(saving.pattern_of(saved.name))

    def _killed_between_saves(self, saved: list[Saved]) -> bool:
        """All of it stands still; if nothing is being written, it is killed there."""
        trial = self._trial
        everybody = trial.processes()
        with stopped(everybody):
            being_written = [path for path in open_files(everybody, for_writing=True) if self._has(path)]
            if being_written or _has_uncommitted(self._place) or checkpoints_of(trial)[:1] != saved[:1]:
                return False
            trial.end()
            return True

    # -- one save, undisturbed

    def _learn(self) -> tuple[int, list[Change]]:
        """(how many changes come before it, those of the first save) after a start from the kept state."""
        trial = self._trial
        restore_copy(self._kept, self._place)
        with self._eye() as eye:
            eye.watch()
            begin, from_step, saves, counted_at = self._output_size(), None, 0, None
            self._start()
            newest = checkpoints_of(trial)[:1]
            end = time.monotonic() + self._limit_s
            while saves < 2 and time.monotonic() < end:
                sight = self._look()
                from_step = sight.from_step if from_step is None else from_step
                if (now := checkpoints_of(trial)[:1]) and now != newest:
                    # One that is written in place is seen to change several times in one step.
                    saves += sight.step is None or sight.step != counted_at
                    newest, counted_at = now, sight.step
                if not sight.is_running:
                    break
                time.sleep(LOOK_S)
            changes = saving.changes_of_saves(eye.changes(), self._is_checkpoint)
            trial.end()
        self._checkpoint_step = from_step
        self._note_lines(begin)
        if from_step == 0:
            raise CannotTryError(
                Answer.FAIL,
                "started again after its first checkpoint, the job began from zero: it does not resume at all",
            )
        begins_at, save = saving.first_save(changes)
        if not save:
            raise CannotTryError(
                Answer.UNKNOWN,
                f"after its first checkpoint the job did not save again within {duration(self._limit_s)}",
            )
        return self._count_before(changes, begins_at, save), save

    def _count_before(self, changes: list[Change], begins_at: int, save: list[Change]) -> int:
        """How many changes that the patterns of the save match come before it."""
        patterns = saving.patterns_of(save)
        return len([c for c in changes[:begins_at] if saving.matches_any(patterns, c)])

    # -- one kill

    def _try(self, save: list[Change], i: int, nth: int, patterns: tuple[str, ...]) -> Point:
        point = Point(i + 1, saving.describe(save, i), _who(save[i].words), Next.NOT_HIT)
        trial = self._trial
        restore_copy(self._kept, self._place)
        with self._eye() as eye:
            eye.arm(save[i], nth, patterns)
            self._start()
            end = time.monotonic() + self._limit_s
            while (struck := eye.struck()) is None and time.monotonic() < end and self._look().is_running:
                time.sleep(LOOK_S)
            trial.end()
            struck = struck or eye.struck()
        if struck is None or saving.shape_of(struck) != saving.shape_of(save[i]):
            return point
        for again in range(1, _TRIES + 1):
            point = self._judge(point)
            if point.what is not Next.FAILS or again == _TRIES:
                break
        return point

    def _judge(self, point: Point) -> Point:
        """Start it again, as it is, and watch what it does."""
        trial = self._trial
        begin = self._output_size()
        self._start()
        end = time.monotonic() + self._limit_s
        sight: Sight | None = None
        while time.monotonic() < end:
            sight = self._look()
            if not sight.is_running or _is_on_its_way(sight):
                break
            time.sleep(LOOK_S)
        code = trial.exit_code
        trial.end()
        lines = self._output_since(begin)
        assert sight is not None
        if code:
            refuses = code == StartRefusedError.exit_code
            return msgspec.structs.replace(
                point, what=Next.REFUSES if refuses else Next.FAILS, said=_last_words(lines) or f"exit code {code}"
            )
        return self._went_on(point, sight, code, lines)

    def _went_on(self, point: Point, sight: Sight, code: int | None, lines: list[str]) -> Point:
        step = sight.from_step
        if step is None:
            return msgspec.structs.replace(point, what=Next.NOT_TOLD if code == 0 or sight.step else Next.HANGS)
        what, said = Next.RESUMED, ""
        wanted = (self._checkpoint_step or 0) - sight.blur_steps
        if step < wanted:
            what = Next.FROM_ZERO if step == 0 else Next.FELL_BACK
        elif self._are_numbers_compared and (said := self._other_numbers(lines)):
            what = Next.OTHER_NUMBERS
        return msgspec.structs.replace(point, what=what, step=step, said=said)

    # -- what it prints

    def _output_size(self) -> int:
        with suppress(OSError):
            return self._place.output.stat().st_size
        return 0

    def _output_since(self, begin: int) -> list[str]:
        with self._place.output.open("rb") as file:
            file.seek(begin)
            text = file.read().decode(errors="replace")
        # The last line may not be whole.
        return text.replace("\r", "\n").split("\n")[:-1]

    def _note_lines(self, begin: int) -> None:
        """What an undisturbed run has said of each step; where it said something else than the one before it, that counts."""
        for line in self._output_since(begin):
            step = step_in(self._finder, line)
            if step is None:
                continue
            if step in self._lines:
                self._matched += 1
                if self._lines[step] != line:
                    self._differs.add(step)
            self._lines.setdefault(step, line)

    def _other_numbers(self, lines: list[str]) -> str:
        for line in lines:
            step = step_in(self._finder, line)
            if step is not None and self._lines.get(step, line) != line:
                return f"{line.strip()!r} where it was {self._lines[step].strip()!r}"
        return ""

    def _has(self, path: str) -> bool:
        with suppress(ValueError):
            name = str(Path(path).relative_to(self._subject.resolve()))
            return self._is_checkpoint(name) or saving.pattern_of(name).endswith(".part")
        return False


def _limit_s(stage: Stage) -> float:
    """For one start: a few times what the whole job takes undisturbed."""
    calm_s = stage.calm.took_s * 3 + _LEAST_LIMIT_S if stage.calm.took_s else stage.target.limit_s
    return min(stage.target.limit_s, calm_s)


def _subject(target: Target, place: Place) -> tuple[Path, Callable[[str], bool]]:
    """The directory that is watched, and which names in it are of checkpoints."""
    if not target.checkpoints:
        ours = [saving.is_under(pattern) for pattern in ("checkpoints/*", "constants/*")]
        return place.job, lambda name: any(is_one(name) for is_one in ours)
    directory = checkpoint_directory(target.checkpoints, place.work)
    pattern = Path(place.work / target.checkpoints.replace(RUN, str(place.work))).relative_to(directory)
    return directory, saving.is_under(str(pattern))


def _has_uncommitted(place: Place) -> bool:
    """A checkpoint of ours is being written."""
    with suppress(OSError, LastgoodError):
        return any(not listed.is_committed for listed in list_checkpoints(open_job(place.job)))
    return False


def _has_gone_on(newest: Saved, sight: Sight) -> bool:
    """It has done a step since, so that the loss of the checkpoint would show."""
    if time.time() - newest.at < _QUIET_S:
        return False
    return sight.step is None or newest.step is None or sight.step > newest.step


def _is_on_its_way(sight: Sight) -> bool:
    if sight.from_step is None or sight.step is None:
        return False
    return sight.step >= sight.from_step + _STEPS_AFTER


def _last_words(lines: list[str]) -> str:
    """The line that names the error: the last that is neither empty, indented nor of our launcher's own talk."""
    said = [line for line in lines if line.strip() and not line.startswith((" ", "\t"))]
    theirs = [line for line in said if not line.startswith(OUR_OWN)]
    line = (theirs or said or [""])[-1].strip()
    return line if len(line) <= _LINE else line[: _LINE - 3] + "..."


def _who(words: str) -> str:
    return "the keeper" if "lastgood/keeper/__main__.py" in words else "the program"
