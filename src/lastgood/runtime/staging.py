"""Where the checkpoints of an attempt go first: to a stage of this node, as long as that works. From there the keeper
promotes them."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import xxhash

from lastgood.core.errors import LastgoodError, UsageError
from lastgood.core.retention import Keep
from lastgood.core.writing import Writing
from lastgood.keeper.client import Keeper
from lastgood.keeper.protocol import Committed, Event, Promoted
from lastgood.runtime.agreement import from_rank_0
from lastgood.runtime.background import Background
from lastgood.runtime.ports import Ranks
from lastgood.store import durable
from lastgood.store.attempts import attempt_numbers, read_events
from lastgood.store.catalogue import newest_fresh_attempt
from lastgood.store.constants import ConstantsWriter
from lastgood.store.jobdir import JobDirectory
from lastgood.store.staging import Stage, find_stages, list_copies, note_stage, open_stage
from lastgood.store.sweep import sweep_incomplete

MOST_DETOURS = 2
"""Saves in a row that may find the stage unusable; then it is left alone for the rest of the attempt."""

_WAIT_S = 1.0


class Staging:
    """On each rank. All ranks stage, or none does. Made by `open_staging`."""

    def __init__(self, job: JobDirectory, attempt: int, stage: Stage | None, found: Sequence[Stage]) -> None:
        self._job = job
        self._attempt = attempt
        self._stage = stage
        self.found = found
        """Where rank 0 looks for checkpoints beside the job's own directory."""
        self.notes: list[str] = []
        """What a person should know, each once."""
        self.detours = 0
        """Saves in a row that have found the stage unusable, as far as this rank knows."""
        self._trouble = ""

    @property
    def path(self) -> str:
        """Of the stage; empty if there is none."""
        return "" if self._stage is None else os.fspath(self._stage.path)

    def constants_writer(self) -> ConstantsWriter:
        """Writes constants to where the checkpoints go."""
        stage, attempt = self._stage, self._attempt
        if stage is None:
            return ConstantsWriter(self._job, attempt)
        return ConstantsWriter(stage.staged, attempt, fence=lambda: stage.check_fence(attempt))

    # The start -----------------------------------------------------------------------------------------------

    def tell_left(self) -> None:
        """Name what was never promoted (on rank 0): what is on this node only, and what is on others only."""
        with suppress(OSError, LastgoodError):
            for stage in self.found:
                self.notes += [
                    f"step {listed.step} of attempt {listed.attempt} is on this node only, in {stage.path}"
                    for listed in stage.pending()
                ]
            self.notes += self._left_elsewhere()

    def _left_elsewhere(self) -> list[str]:
        """By the journals, of what is newer than all that is here."""
        copies = [copy.listed for copy in list_copies(self._job, self.found) if copy.listed.is_committed]
        newest = copies[0].age_key if copies else (0, -1)
        lost: dict[tuple[int, int], str] = {}
        for number in attempt_numbers(self._job):
            if not max(newest[0], newest_fresh_attempt(self._job)) <= number < self._attempt:
                continue
            for event in read_events(self._job, number):
                step, stage = event.data.get("step"), event.data.get("stage")
                if event.kind == "committed" and isinstance(step, int) and stage:
                    lost[(number, step)] = f"{event.data.get('host')} only, in {stage}"
        return [
            f"step {step} of attempt {number} is on the node {where}, and cannot be read from here"
            for (number, step), where in sorted(lost.items(), reverse=True)[:1]
            if (number, step) > newest
        ]

    def clear_left(self) -> None:
        """Remove what dead attempts have left half-written (on rank 0), but not what is being promoted. Raises
        OSError."""
        spare = [listed.name for stage in self.found for listed in stage.pending()]
        sweep_incomplete(self._job, self._attempt, spare)
        for stage in self.found:
            sweep_incomplete(stage.staged, self._attempt)

    def begin(self, background: Background, keep: Keep, writing: Writing) -> None:
        """Have the keeper take up what is there (on rank 0), also one that takes its place."""
        left = next((stage for stage in self.found if stage.pending()), None)
        path = self.path or (os.fspath(left.path) if left is not None else "")
        if path:

            def take_up(keeper: Keeper) -> None:
                keeper.take_up(path, self._attempt, keep, writing)

            background.greetings.append(take_up)
            background.tell(take_up)

    def turn_off(self, why: str) -> None:
        """Checkpoints go to the job's own directory from now on. Every rank must call."""
        if self._stage is not None:
            self.notes.append(f"nothing is staged in {self.path} ({why}): checkpoints go to {self._job.path} directly")
            self._stage = None

    # Saves ---------------------------------------------------------------------------------------------------

    def note(self, event: Event) -> None:
        """Something became of a save."""
        if isinstance(event, Committed):
            self.detours = self.detours + 1 if event.detour else 0
            if self.detours == 1:
                self.notes.append(
                    f"the stage {self.path} could not take step {event.step} ({event.detour}): it was saved in "
                    f"{self._job.path} directly"
                )
        elif isinstance(event, Promoted):
            if event.trouble and event.trouble != self._trouble:
                again = "; it is tried again" if event.is_left else ""
                self.notes.append(f"a checkpoint stays on this node only for now ({event.trouble}){again}")
            self._trouble = event.trouble

    def await_promoted(self, background: Background, limit_s: float, beat: Callable[[], None]) -> None:
        """Wait until all that is staged has been promoted, or was given up (on rank 0)."""
        is_done = False

        def drain(keeper: Keeper) -> None:
            nonlocal is_done
            with suppress(TimeoutError):
                keeper.drain(_WAIT_S, is_last=True)
                is_done = True

        waited_s = 0.0
        while not is_done and background.is_there() and waited_s < limit_s:
            background.tell(drain)
            waited_s += _WAIT_S
            beat()

    def left(self) -> str:
        """What is on the stage only, and why (on rank 0); empty if nothing is."""
        if self._stage is None:
            return ""
        try:
            left = [listed.step for listed in self._stage.pending()]
        except OSError as error:
            return f"whether all of the stage {self.path} is promoted cannot be seen: {error}"
        why = self._trouble or "it was not promoted in time"
        return f"step {left[0]} is on this node only, in {self.path}: {why}" if left else ""

    def leave(self) -> None:
        """The job is finished, and all of it is promoted (on rank 0): leave nothing on the node."""
        with suppress(OSError, LastgoodError):
            if self._stage is not None:
                self._stage.leave(self._attempt)


def open_staging(job: JobDirectory, attempt: int, ranks: Ranks, wished: str | os.PathLike[str] | None) -> Staging:
    """Open the stage that the program wishes. One that cannot be used is told of, and done without. Every rank must
    call. Raises UsageError if the ranks do not see the same directory."""
    paths = [] if wished is None else [Path(wished).absolute()]

    def work() -> dict[str, Any]:
        problem = ""
        try:
            for path in paths:
                with durable.explained("remember the stage in", job.path):
                    note_stage(open_stage(job, path), attempt)
        except LastgoodError as error:
            problem = error.what
        return {"problem": problem, "found": [os.fspath(stage.path) for stage in find_stages(job, *paths)]}

    told = from_rank_0(ranks, work)
    found = [Stage(job, Path(path)) for path in told["found"]]
    if not paths or told["problem"]:
        staging = Staging(job, attempt, None, found)
        if told["problem"]:
            staging.notes.append(f"nothing is staged in {paths[0]} ({told['problem']})")
        return staging
    stage = Stage(job, paths[0])
    if not ranks.equal([_identity(stage, ranks.rank)])[0]:
        raise UsageError(
            f"the stage {stage.path} is not one directory for all ranks: they run on several nodes",
            safe="nothing was changed",
            remedy="leave stage= out, or run all ranks on one node: staging is for those",
        )
    return Staging(job, attempt, stage, found)


def _identity(stage: Stage, rank: int) -> int:
    """Which directory of which machine it is; another number on each rank that does not see it."""
    try:
        found = os.stat(stage.staged.path)
        machine = Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        return rank
    return xxhash.xxh3_64_intdigest(f"{machine} {found.st_dev} {found.st_ino}".encode()) >> 1
