"""The moment of a fault: whether it has come, and for a phase of the program, making sure that it is still in it."""

import fnmatch
import glob
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Protocol

import msgspec
import psutil

from lastgood.core.accounting import Record
from lastgood.core.layout import CHECKPOINTS_DIR, MANIFEST_FILE, parse_checkpoint_name
from lastgood.core.numbering import is_temporary
from lastgood.drill.checkpoints import open_files
from lastgood.drill.fault import Scene
from lastgood.drill.inotify import DirectoryEvents
from lastgood.drill.measure import Watch
from lastgood.drill.spec import COMMIT, RESTORE, SAVE, Kind, When
from lastgood.drill.stopped import stopped
from lastgood.launch.heartbeats import has_ranks_in, read_heartbeats
from lastgood.trial.trial import Sight

PATIENCE_S = 0.1
"""So long a phase is watched for closely, before the drill looks after its other affairs again."""
_PAUSE_S = 0.01


def is_due(when: When, sight: Sight, *, began: float, before: Watch | None, first_saved_at: float | None) -> bool:
    """True if the moment has come, or for a phase, if it is time to watch for it. Pure.

    `before`: of the fault before this one, if there is one; a step or a phase counts only when the job has begun again after
    it. Without one, "after" counts from the job's first checkpoint.
    """
    if when.kind is Kind.TIME:
        return sight.at - began >= when.seconds
    if when.kind is Kind.PHASE and when.phase == RESTORE:
        is_started = before is not None and (before.begun_at is not None or sight.start > before.start)
        return is_started and before is not None and not before.has_begun_again
    if before is not None and not before.has_begun_again and not before.has_come_through:
        return False
    if when.kind is Kind.STEP:
        return sight.step is not None and sight.step >= when.step
    if when.kind is Kind.AFTER:
        since = first_saved_at if before is None else before.caught_up_at
        return since is not None and sight.at - since >= when.seconds
    return True


class Caught(msgspec.Struct, frozen=True):
    """The program stands still in the phase."""

    evidence: str
    players: list[psutil.Process]
    """Whoever is taken out of it does not go on when the phase is left."""


@contextmanager
def caught_in(phase: str, scene: Scene) -> Iterator[Caught | None]:
    """Wait a moment for the phase; inside, all processes stand still in it. None if it did not come, or was over too soon:
    then nothing stands still, and it can be waited for again."""
    with ExitStack() as stack:
        signs = stack.enter_context(closing(_signs_of(phase, scene)))
        # A phase can be over in a millisecond: all that takes long is found out before.
        players = list(_players(phase, scene))
        end = time.monotonic() + PATIENCE_S
        if not players:
            time.sleep(_PAUSE_S)
        while players and time.monotonic() < end:
            if not signs.may_be_now():
                continue
            with stopped(players):
                # What was seen may be over by now; what is seen from here on stays so.
                if evidence := signs.now():
                    scene.look()
                    yield Caught(evidence, players)
                    return
    yield None


def _players(phase: str, scene: Scene) -> Sequence[psutil.Process]:
    players = scene.trial.of_command()
    keeper = scene.trial.keeper()
    return [*players, keeper] if phase == COMMIT and keeper is not None else players


class _Signs(Protocol):
    def may_be_now(self) -> bool:
        """True if it may be in the phase now. It takes little time, and has been waiting for most of that."""

    def now(self) -> str:
        """What shows that the program is in the phase now; empty if nothing does."""

    def close(self) -> None: ...


def _signs_of(phase: str, scene: Scene) -> _Signs:
    record = scene.trial.newest_record()
    if scene.trial.target.checkpoints or (record is not None and record.is_wrapped):
        return _ForeignFiles(scene, phase, record)
    return _OwnWords(scene, phase, record)


class _OwnWords:
    """Of a program that uses our library: its heartbeats, and its checkpoints that are on their way."""

    def __init__(self, scene: Scene, phase: str, record: Record | None) -> None:
        self._phase = phase
        self._record = record
        self._trial = scene.trial
        self._directory = scene.trial.heartbeat_directory()
        self._checkpoints = scene.trial.place.job / CHECKPOINTS_DIR
        self._committed: set[str] = set()

    def may_be_now(self) -> bool:
        # Not even a short sleep: a save can be shorter than what a sleep takes.
        return bool(self.now())

    def close(self) -> None:
        """Nothing is open."""

    def now(self) -> str:
        if self._phase == COMMIT:
            return self._uncommitted()
        if self._phase == RESTORE:
            return self._restoring()
        beats = read_heartbeats(self._directory)
        is_there = any(beat.phase == self._phase for beat in beats.values())
        return f"its heartbeat says {self._phase!r}" if is_there else ""

    def _uncommitted(self) -> str:
        with suppress(OSError):
            for name in sorted(os.listdir(self._checkpoints), reverse=True):
                parsed = parse_checkpoint_name(name)
                # What an attempt that was killed has left behind is not on its way any more.
                is_ours = parsed is not None and self._record is not None and parsed[1] == self._record.number
                if is_ours and name not in self._committed:
                    if not (self._checkpoints / name / MANIFEST_FILE).exists():
                        return f"checkpoint {name} has no manifest yet"
                    self._committed.add(name)
        return ""

    def _restoring(self) -> str:
        record = self._trial.newest_record()
        if record is None or record.number == 1 or record.first("started") is not None:
            return ""
        directory = self._trial.heartbeat_directory()
        if directory is None or not has_ranks_in(directory) or read_heartbeats(directory):
            return ""
        return "a rank looks for its checkpoint, and has not said where it goes on"


class _ForeignFiles:
    """Of a program that is not ours: which checkpoint files it has open. A temporary name beside them counts."""

    def __init__(self, scene: Scene, phase: str, record: Record | None) -> None:
        pattern = scene.trial.target.checkpoints_in(scene.trial.place.work)
        is_first = (record.number if record is not None else scene.trial.starts) == 1
        self._is_possible = bool(pattern) and phase in (SAVE, COMMIT, RESTORE) and not (phase == RESTORE and is_first)
        self._pattern = os.path.realpath(pattern) if pattern else ""
        self._phase = phase
        self._processes = scene.trial.of_command()
        places = {os.path.dirname(self._pattern), *map(os.path.dirname, glob.glob(self._pattern))}
        self._events = DirectoryEvents([place for place in places if os.path.isdir(place)])

    def may_be_now(self) -> bool:
        if not self._is_possible:
            time.sleep(_PAUSE_S)
            return False
        # Something is done there: whether it is a save is seen when it stands still.
        return self._events.wait(_PAUSE_S) if self._events.is_watching else bool(self.now())

    def close(self) -> None:
        self._events.close()

    def now(self) -> str:
        if not self._is_possible:
            return ""
        paths = open_files(self._processes, for_writing=self._phase != RESTORE)
        path = next((path for path in sorted(paths) if is_of_pattern(path, self._pattern)), None)
        if path is None:
            return ""
        return f"it has {os.path.basename(path)} open to {'read' if self._phase == RESTORE else 'write'}"


def is_of_pattern(path: str, pattern: str) -> bool:
    """A file that the pattern matches, one in a directory that it matches, or one that is to become such a one. Pure.

    >>> [is_of_pattern(p, "/w/out/*.pt") for p in ("/w/out/a.pt", "/w/out/a.pt.tmp", "/w/out/train.log", "/w/a.pt")]
    [True, True, False, False]
    >>> is_of_pattern("/w/out/checkpoint-5/optimizer.pt", "/w/out/checkpoint-*")
    True
    """
    directory, name = os.path.split(pattern)
    while path not in ("/", ""):
        above, last = os.path.split(path)
        if fnmatch.fnmatch(above, directory):
            is_temporary_name = is_temporary(last) or last.startswith("tmp")
            if fnmatch.fnmatchcase(last, name) or is_temporary_name:
                return True
        path = above
    return False
