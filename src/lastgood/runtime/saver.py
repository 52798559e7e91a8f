"""Saving: take the state at a safe point, have it written, and say what became of it.

With a keeper a save is over for the loop when the state is copied, and what became of it is known later, at a safe
point where the ranks agree. Without one the loop stands still until the checkpoint is committed.

A failed save never touches what is there.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from lastgood.core import errors, layout, manifest
from lastgood.core.errors import LastgoodError, StorageError, UnstorableError
from lastgood.core.units import duration
from lastgood.keeper import protocol
from lastgood.keeper.protocol import Order
from lastgood.runtime.background import Background
from lastgood.runtime.constants import Constants
from lastgood.runtime.foreground import FAILED, OK, Foreground, failed_elsewhere, severity_of, stopped_elsewhere
from lastgood.runtime.overlap import Overlap
from lastgood.runtime.ownership import portion_of
from lastgood.runtime.policy import Policy
from lastgood.runtime.ports import Framework, Ranks, Stateful
from lastgood.runtime.results import Result, Saved, Settings
from lastgood.runtime.slots import LayoutPlan
from lastgood.runtime.snapshot import NOTHING, Array, Snapshot, capture
from lastgood.runtime.staging import MOST_DETOURS, Staging
from lastgood.runtime.stillness import Stillness
from lastgood.store.attempts import Journal
from lastgood.store.jobdir import JobDirectory

_REMEMBERED = 16

SETTLE_LIMIT_S = 60.0
"""How long a program that ends waits for its last save. The keeper goes on with it."""


class Saver:
    """Saves the state of one rank, together with the other ranks."""

    def __init__(
        self,
        job: JobDirectory,
        attempt: int,
        ranks: Ranks,
        entries: dict[str, Stateful],
        frameworks: list[Framework],
        settings: Settings,
        journal: Journal,
        background: Background | None,
        staging: Staging,
        constants: Constants,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._attempt = attempt
        self._ranks = ranks
        self._entries = entries
        self._frameworks = {framework.name: framework for framework in frameworks}
        self._settings = settings
        self._background = background
        self._staging = staging
        self._constants = constants
        self._foreground = Foreground(job, attempt, ranks, settings.keep, journal)
        self._clock = clock
        self._policy = Policy(ranks, settings, clock)
        self._still = Stillness()
        self._plan = LayoutPlan()
        self._overlap = Overlap(entries.values(), self._hold_changes) if settings.overlap else None
        self._begins: dict[int, float] = {}
        self._stalls: dict[int, float] = {}
        self._commits: list[Saved] = []
        self._errors: dict[int, LastgoodError] = {}
        self._saves = 0
        self._numbers: dict[int, int] = {}
        """Saves by the keeper are numbered, the same on every rank: the number of the newest save of each step."""
        self._committed = self._failed = 0
        """The newest save that this rank knows to be committed, and to have failed."""
        self._told_committed = self._told_failed = 0
        self._trouble = ""
        self._notes_left: list[str] = []
        self._is_prepared = background is None
        self.is_expected_back = False
        """The program ends, but the job goes on: the next attempt may want what the keeper holds."""

    # Before and between saves --------------------------------------------------------------------------------

    def capture(self, internal: Mapping[str, object]) -> Snapshot:
        """The state now. Raises UnstorableError that names the place of a value that cannot be stored."""
        return capture(self._entries, internal, self._frameworks)

    def settle_background(self) -> None:
        """Find out whether every rank has a keeper: they all use theirs, or none does. Every rank must call."""
        has_none = self._background is not None and not self._background.is_there()
        if self._background is not None and self._ranks.maximum([int(has_none)])[0]:
            self._leave_background()
        if self._background is None:
            self._leave_stage("there is no keeper that would promote it")
        elif self._ranks.rank == 0:
            self._staging.begin(self._background, self._settings.keep, self._settings.writing)

    def prepare(self, internal: Callable[[], Mapping[str, object]]) -> None:
        """Get the memory for snapshots before they are needed, once the state has its size. Every rank must call."""
        if self._is_prepared or self._background is None:
            return
        self._is_prepared = True
        try:
            snapshot = self.capture(internal())
        except UnstorableError:
            # The save will meet it, too, and say so.
            snapshot = NOTHING
        mine = self._constants.rest(portion_of(snapshot, self._ranks).mine)
        slots = self._background.prepare(self._plan.of(mine).file_bytes)
        if self._ranks.maximum([int(slots == 0)])[0]:
            self._leave_background()
            self._leave_stage("there is no memory for snapshots")

    def _leave_background(self) -> None:
        assert self._background is not None
        self._notes_left = self._background.notes
        self._background.close()
        self._background = None
        self._is_prepared = True

    def _leave_stage(self, why: str) -> None:
        if self._staging.path:
            self._staging.turn_off(why)
            self._constants.move(self._staging.constants_writer())

    @property
    def is_in_background(self) -> bool:
        """A keeper writes; otherwise the loop stands still for each save."""
        return self._background is not None

    def is_free(self) -> bool:
        """True if a save would not have to wait for the one before it."""
        return self._background is None or self._background.is_free()

    def under_way(self) -> tuple[int, float] | None:
        """The oldest step that is still being saved, and for how many seconds; None if there is none."""
        steps = self._background.unfinished() if self._background is not None else []
        return (steps[0], self._clock() - self._begins.get(steps[0], self._clock())) if steps else None

    def notes(self) -> list[str]:
        """What a person should know of how saves are made, each once."""
        found, self._notes_left = self._notes_left, []
        if self._background is not None:
            found, self._background.notes = found + self._background.notes, []
        found, self._constants.notes = found + self._constants.notes, []
        if self._ranks.rank == 0:
            found, self._staging.notes = found + self._staging.notes, []
        return found

    def trouble(self) -> str:
        """Why retention could not do its work after the newest commit; empty if it could."""
        return self._trouble

    @property
    def unchanged_since(self) -> int | None:
        """An earlier save of this attempt that held the very same state, if the loop is not seen to change it."""
        return self._still.unchanged_since

    # A save --------------------------------------------------------------------------------------------------

    def save(
        self,
        step: int,
        internal: Mapping[str, object],
        *,
        is_urgent: bool = False,
        beat: Callable[[], None] = lambda: None,
        **facts: Any,
    ) -> Result | None:
        """Save as `step`; None if that goes on while the loop does. `facts` go into the manifest: metrics, config,
        fingerprint. `is_urgent`: the job waits for it. `beat` is called now and then during a wait.

        Raises FencedError if a newer attempt exists, UnstorableError for a state that cannot be stored,
        and, as the policy says, StorageError or UnprotectedError.
        """
        began, started = time.time(), self._clock()
        error: LastgoodError | None = None
        try:
            snapshot = self.capture(internal)
        except UnstorableError as problem:
            # The other ranks are on their way to compare arrays: meet them there, then tell.
            snapshot, error = NOTHING, problem
        portion = portion_of(snapshot, self._ranks)
        if error is None:
            self._still.look(step, snapshot.entries, snapshot.arrays)
            if self._ranks.rank == 0:
                self._constants.check_patterns(snapshot.arrays.keys())
        mine, constants = portion.mine, list[manifest.Constants]()
        trouble: LastgoodError | None = None
        try:
            mine, constants = self._constants.take(step, mine, portion.digests)
        except LastgoodError as problem:
            trouble = problem
        if self._background is None:
            parts = (mine, snapshot.entries, portion.shared, constants)
            return self._save_here(step, parts, error or trouble, (began, started), facts)
        if verdict := self._ranks.maximum([severity_of(error)])[0]:
            raise error or stopped_elsewhere(verdict)
        self._saves += 1
        # Few saves are under way at a time; what is older is known and told.
        self._numbers = dict([*self._numbers.items()][-_REMEMBERED:]) | {step: self._saves}
        self._stalls = dict([*self._stalls.items()][-_REMEMBERED:])
        self._begins = dict([*self._begins.items()][-_REMEMBERED:]) | {step: started}
        order = Order(
            step=step,
            attempt=self._attempt,
            rank=self._ranks.rank,
            world_size=self._ranks.world_size,
            file_bytes=self._plan.of(mine).file_bytes,
            entries=snapshot.entries,
            shared=portion.shared,
            began=started,
            limit_s=self._settings.limit_s,
            keep=self._settings.keep,
            writing=self._settings.writing,
            is_urgent=is_urgent,
            constants=constants,
            constants_stage=self._staging.path if constants else "",
            # Who waits for it may leave the node then.
            stage="" if is_urgent else self._staging.path,
            **facts,
        )
        later = self._overlap.later(mine) if self._overlap is not None else ()
        try:
            if trouble is not None:
                raise trouble
            self._background.save(order, self._plan.of(mine), mine, later, self._settings.limit_s, beat)
        except LastgoodError as problem:
            # What ranks do about it they decide together, at the next safe point.
            self._note_error(step, problem)
        self._stalls[step] = self._clock() - started
        return None

    def _hold_changes(self) -> None:
        if self._background is not None:
            self._background.hold_changes(self._settings.limit_s)

    def finish_copy(self) -> None:
        """Wait for a snapshot that is copied beside the loop, if there is one."""
        if self._background is None:
            return
        try:
            copy = self._background.finish_copy()
        except LastgoodError as problem:
            self._note_error(max(self._numbers, default=0), problem)
            return
        if copy is not None:
            self._stalls[copy.order.step] = self._stalls.get(copy.order.step, 0.0) + copy.waited_s
            if self._overlap is not None:
                self._overlap.distrust(copy.changed)

    # What became of it ---------------------------------------------------------------------------------------

    def standing(self) -> list[int]:
        """What this rank knows of its saves, as numbers whose maximum is what all know; for `conclude`."""
        if self._background is not None:
            try:
                for event in self._background.events():
                    self._note(event)
            except LastgoodError as problem:
                self._note_error(max(self._numbers, default=0), problem)
        self._give_up_waiting()
        worst = max((severity_of(error) for error in self._errors.values()), default=OK)
        return [worst, self._failed, self._committed, self._staging.detours]

    def _give_up_waiting(self) -> None:
        """A write that takes longer than a job may be without a checkpoint counts as failed, whatever becomes of it."""
        late = self.under_way()
        limit_s = self._settings.unprotected_limit_s
        if late is not None and late[1] > limit_s and self._numbers.get(late[0], 0) > self._failed:
            error = StorageError(
                f"the checkpoint of step {late[0]} is still not written after {duration(late[1])}",
                safe="earlier checkpoints are untouched",
                remedy="look at the storage: it is slow, or hangs",
            )
            self._note_error(late[0], error)

    def conclude(self, agreed: list[int]) -> list[Result]:
        """What became of saves, once all ranks know: `agreed` is the maximum of what they stand at. Every rank
        must call. Raises as `save` does."""
        severity, failed, committed, detours = agreed
        if severity > FAILED:
            worst = max(self._errors.values(), key=severity_of, default=None)
            raise worst if worst is not None and severity_of(worst) == severity else stopped_elsewhere(severity)
        if detours >= MOST_DETOURS:
            self._leave_stage("it cannot be used")
        results: list[Result] = []
        if committed > self._told_committed:
            self._told_committed = committed
            self._policy.note_saved()
            results += self._commits or [Saved(self._step_of(committed))]
            self._commits = []
        if failed > self._told_failed:
            self._told_failed = failed
            step = self._step_of(failed)
            error = self._errors.pop(step, failed_elsewhere([]))
            if self._background is not None and self._ranks.rank == 0:
                # It may wait for a part that will not come.
                self._background.give_up(step, error.what)
            results.append(self._policy.accept(step, error))
        return results

    def _step_of(self, number: int) -> int:
        return next(step for step, other in self._numbers.items() if other == number)

    def wait(self, beat: Callable[[], None]) -> None:
        """Wait until this rank knows the fate of all its saves. `conclude` says it."""
        if self._background is None:
            return
        try:
            self._background.wait(self._settings.limit_s, beat)
        except LastgoodError as problem:
            self._note_error(max(self._numbers, default=0), problem)

    def await_promoted(self, beat: Callable[[], None]) -> str:
        """Wait until all that is staged is promoted; what is on this node only, or nothing. Every rank must call."""
        left = ""
        if self._staging.path and self._background is not None and self._ranks.rank == 0:
            self._staging.await_promoted(self._background, self._settings.limit_s, beat)
            self.standing()
            left = self._staging.left()
        is_left = self._staging.path and self._ranks.maximum([int(bool(left))])[0]
        return left or ("something is on this node only: see the message of rank 0" if is_left else "")

    def leave_stage(self) -> None:
        """The job is finished, and all of it is promoted."""
        if self._ranks.rank == 0:
            self._staging.leave()

    def _note(self, event: protocol.Event) -> None:
        self._staging.note(event)
        if isinstance(event, protocol.Committed):
            stall_s = self._stalls.get(event.step, 0.0)
            # The keeper of a small state may be done before this process has gone on.
            write_s = max(event.write_s, stall_s)
            self._commits.append(Saved(event.step, event.name, event.bytes, stall_s, write_s))
            self._committed = max(self._committed, self._numbers[event.step])
        elif isinstance(event, protocol.Cleared):
            self._trouble = event.trouble
        elif isinstance(event, protocol.Failed):
            kind: type[LastgoodError] = getattr(errors, event.kind)
            self._note_error(event.step, kind(event.what, safe=event.safe, remedy=event.remedy))

    def _note_error(self, step: int, error: LastgoodError) -> None:
        self._errors[step] = error
        self._failed = max(self._failed, self._numbers.get(step, 0))

    def _save_here(
        self,
        step: int,
        parts: tuple[list[Array], dict[str, Any], list[str], list[manifest.Constants]],
        error: LastgoodError | None,
        since: tuple[float, float],
        facts: Mapping[str, Any],
    ) -> Result:
        began, started = since
        outcome = self._foreground.save(step, *parts, error, began=began, **facts)
        if isinstance(outcome, LastgoodError):
            return self._policy.accept(step, outcome)
        self._policy.note_saved()
        self._trouble = self._foreground.retain(step)
        took_s = self._clock() - started
        return Saved(step, layout.checkpoint_name(step, self._attempt), outcome, took_s, took_s)

    # The end -------------------------------------------------------------------------------------------------

    def settle(self, beat: Callable[[], None]) -> list[Saved | LastgoodError]:
        """The program ends: what becomes of the saves that are under way, as far as this rank is told in time.
        Nobody else is asked, and nothing is decided."""
        if self._background is None:
            return []
        limit_s = min(self._settings.limit_s, SETTLE_LIMIT_S)
        try:
            self._background.wait(limit_s, beat)
        except LastgoodError as problem:
            self._note_error(max(self._numbers, default=0), problem)
        self.standing()
        unheard = [error for step, error in self._errors.items() if self._numbers.get(step, 0) > self._told_failed]
        found: list[Saved | LastgoodError] = [*self._commits, *unheard]
        self._commits, self._errors = [], {}
        return found

    def close(self) -> None:
        """Let go of the keeper, in an orderly way: what it has still to write, it writes."""
        if self._overlap is not None:
            self._overlap.close()
        if self._background is not None:
            self._background.close(is_expected_back=self.is_expected_back)
            self._background = None

    def disown(self) -> None:
        if self._background is not None:
            self._background.disown()
