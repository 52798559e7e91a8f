"""The moment of a fault: whether it has come, and for a phase of the program, making sure that it is still in it."""

import fnmatch
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec
import psutil

from lastgood.core.numbering import is_temporary
from lastgood.drill.checkpoints import open_files, uncommitted
from lastgood.drill.fault import Scene
from lastgood.drill.measure import Watch
from lastgood.drill.spec import COMMIT, RESTORE, SAVE, Kind, When
from lastgood.drill.stopped import stopped
from lastgood.launch.heartbeats import has_ranks_in, read_heartbeats
from lastgood.trial.trial import Sight

PATIENCE_S = 0.25
"""So long a phase is watched for closely, before the drill looks after its other affairs again."""
_LIST_AGAIN_S = 0.05
"""How old a list of the command's processes may be while its files are looked at."""


def is_due(when: When, sight: Sight, *, began: float, before: Watch | None, first_saved_at: float | None) -> bool:
    """True if the moment has come, or for a phase, if it is time to watch for it. Pure.

    `before`: of the fault before this one, if there is one; a step or a phase counts only when the job has begun again after
    it. Without one, "after" counts from the job's first checkpoint.
    """
    if when.kind is Kind.TIME:
        return sight.at - began >= when.seconds
    if before is not None and not before.has_begun_again and not before.has_come_through:
        return when.kind is Kind.PHASE and when.phase == RESTORE and before.begun_at is not None
    if when.kind is Kind.STEP:
        return sight.step is not None and sight.step >= when.step
    if when.kind is Kind.AFTER:
        since = first_saved_at if before is None else before.caught_up_at
        return since is not None and sight.at - since >= when.seconds
    if when.phase == RESTORE:
        return before is not None and not before.has_begun_again and before.begun_at is not None
    return True


class Caught(msgspec.Struct, frozen=True):
    """The program stands still in the phase."""

    sight: Sight
    evidence: str


@contextmanager
def caught_in(phase: str, scene: Scene) -> Iterator[Caught | None]:
    """Wait a moment for the phase; inside, all processes stand still in it. None if it did not come, or was over too soon:
    then nothing stands still, and it can be waited for again."""
    end = time.monotonic() + PATIENCE_S
    foreign = _ForeignFiles(scene)
    while time.monotonic() < end:
        if not _signs(phase, scene, foreign):
            if not scene.trial.look().is_running:
                break
            time.sleep(0.0002)
            continue
        with stopped(_players(phase, scene)):
            # What was seen may be over by now; what is seen from here on stays so.
            if evidence := _signs(phase, scene, foreign):
                yield Caught(scene.look(), evidence)
                return
    yield None


def _players(phase: str, scene: Scene) -> Sequence[psutil.Process]:
    players = scene.trial.of_command()
    keeper = scene.trial.keeper()
    return [*players, keeper] if phase == COMMIT and keeper is not None else players


def _signs(phase: str, scene: Scene, foreign: "_ForeignFiles") -> str:
    """What shows that the program is in the phase now; empty if nothing does."""
    record = scene.trial.newest_record()
    if scene.trial.target.checkpoints or (record is not None and record.is_wrapped):
        return foreign.signs(phase)
    directory = scene.trial.heartbeat_directory()
    beats = read_heartbeats(directory)
    if phase == COMMIT:
        names = uncommitted(scene.trial)
        return f"{names[0]} has no manifest yet" if names else ""
    if phase == RESTORE:
        is_starting = record is not None and record.number > 1 and record.first("started") is None and not beats
        is_in_our_hands = is_starting and directory is not None and has_ranks_in(directory)
        return (
            "a rank has begun to look for its checkpoint, and has not found where it goes on" if is_in_our_hands else ""
        )
    phases = {beat.phase for beat in beats.values()}
    return f"its heartbeat says that it is in {phase!r}" if phase in phases else ""


class _ForeignFiles:
    """Signs of a program that is not ours: which checkpoint files it has open. A temporary name beside them counts."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._processes: list[psutil.Process] = []
        self._listed_at = 0.0

    def signs(self, phase: str) -> str:
        pattern = self._scene.trial.target.checkpoints_in(self._scene.trial.place.work)
        if not pattern or phase not in (SAVE, COMMIT, RESTORE):
            return ""
        if time.monotonic() - self._listed_at > _LIST_AGAIN_S:
            self._processes, self._listed_at = self._scene.trial.of_command(), time.monotonic()
        paths = open_files(self._processes, for_writing=phase != RESTORE)
        path = next((path for path in sorted(paths) if is_of_pattern(path, os.path.realpath(pattern))), None)
        record = self._scene.trial.newest_record()
        number = record.number if record is not None else self._scene.trial.starts
        if path is None or (phase == RESTORE and number == 1):
            return ""
        return f"it has {os.path.basename(path)} open to {'read' if phase == RESTORE else 'write'}"


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
