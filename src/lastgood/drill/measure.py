"""What a fault did to a job: followed by looks while it runs, and put into numbers afterwards. Pure.

    harm ........ detected ....... restarted ....... first new step ....... caught up
                  its end is seen  started again     a step is done         the step that it had reached is done again

steps lost    = step reached at the harm - step that the next start goes on after (none if that is higher)
seconds lost  = from the moment at which that step was done to the harm: work that is done again
delay         = from the harm until it has caught up: all that the fault cost
"""

from bisect import bisect_left
from typing import Literal

import msgspec

from lastgood.core.accounting import Record
from lastgood.core.events import Event
from lastgood.drill.fault import Consequence
from lastgood.trial.trial import Sight

Source = Literal["memory", "storage", "zero", ""]


class StepLog:
    """When which step was done, as looks have seen it."""

    def __init__(self) -> None:
        self._at: list[float] = []
        self._attempts: list[int] = []
        self._steps: list[int] = []
        self._newest: int | None = None

        self.changes = 0
        """How often a look saw another step than the one before."""
        self.longest_silence_s = 0.0
        self.first_step_at: float | None = None
        self._changed_at: float | None = None

    def note(self, sight: Sight) -> None:
        if sight.step is None:
            self._changed_at = None
            return
        if self.first_step_at is None and sight.step > (sight.from_step or 0):
            self.first_step_at = sight.at
        self._newest = sight.step
        self.changes += sight.step != (self._steps[-1] if self._steps else None)
        is_other = not self._steps or sight.step != self._steps[-1]
        if self._changed_at is not None and is_other:
            self.longest_silence_s = max(self.longest_silence_s, sight.at - self._changed_at)
        if is_other:
            self._changed_at = sight.at
        if is_other or sight.attempt != self._attempts[-1]:
            self._at.append(sight.at)
            self._steps.append(sight.step)
            self._attempts.append(sight.attempt)

    @property
    def last_step(self) -> int | None:
        return self._newest

    def time_of(self, step: int, before: float) -> float | None:
        """When the step was first seen to be done in the attempt that ran before that moment, or when that attempt was first
        seen, if it began after it; None if no look has seen it."""
        end = bisect_left(self._at, before)
        found = None
        for i in range(end - 1, -1, -1):
            if self._attempts[i] != self._attempts[end - 1]:
                break
            if self._steps[i] < step:
                # Between two looks: as if it had done its steps evenly.
                later, steps = (before, step + 1) if found is None else (found, self._steps[i + 1])
                return self._at[i] + (later - self._at[i]) * (step - self._steps[i]) / (steps - self._steps[i])
            found = self._at[i]
        return found

    def step_at(self, moment: float) -> int | None:
        """The newest step that was seen to be done by then."""
        end = bisect_left(self._at, moment)
        return self._steps[end - 1] if end else None


class Watch:
    """Follows one fault, from the harm on until the job has come through it."""

    def __init__(self, before: Sight, consequence: Consequence) -> None:
        """`before`: the last look before the fault is caused, which may take a while; `struck` says when the harm was done."""
        self._consequence = consequence
        self._pending: list[Sight] | None = [before]
        self.at = before.at
        self.attempt = 0
        self.start = 0
        self.reached_step: int | None = None
        """At the harm."""
        self._furthest = 0
        self._saved_step: int | None = None
        self.ended_at: float | None = None
        """When a look saw that the start in which it hit had ended."""
        self.started_again_at: float | None = None
        """When a look saw that the command runs again, or the next attempt."""
        self.begun_at: float | None = None
        """When a look saw the next attempt."""
        self.from_step: int | None = None
        self.blur_steps = 0
        self.resumed_attempt: int | None = None
        self.first_step_at: float | None = None
        self.caught_up_at: float | None = None
        self.overtaken_by: int | None = None
        """The number of the next fault, if it came before the job had come through this one."""
        self.saved_since: int | None = None
        """The newest checkpoint that was committed after the harm, where that can be seen."""

    def struck(self, at: float) -> None:
        """The harm was done then: what was seen up to it is what it hit, what was seen since is what came of it."""
        pending, self._pending = self._pending or [], None
        self.at = at
        before = next((sight for sight in reversed(pending) if sight.at <= at), pending[0])
        self.attempt, self.start = before.attempt, before.start
        self.reached_step, self._furthest = before.step, before.step or 0
        self._saved_step = before.saved_step
        for sight in pending:
            if sight is not before:
                self.note(sight)

    @property
    def has_come_through(self) -> bool:
        return self.caught_up_at is not None

    @property
    def _is_over(self) -> bool:
        """It went on without a restart: a later one has another cause."""
        return self.has_come_through and self.begun_at is None

    @property
    def has_begun_again(self) -> bool:
        """The next attempt goes on from a step that is known, or has done one."""
        return self.from_step is not None or self.first_step_at is not None

    def note(self, sight: Sight) -> None:
        if self._pending is not None:
            self._pending.append(sight)
            return
        if sight.at <= self.at or self._is_over:
            return
        if (not sight.is_running or sight.start > self.start) and self.ended_at is None:
            self.ended_at = sight.at
        if self.started_again_at is None and (sight.start > self.start or sight.attempt > self.attempt):
            self.started_again_at = sight.at
        if sight.saved_step is not None and sight.saved_step > (self._saved_step or 0):
            self.saved_since = sight.saved_step
        if sight.attempt <= self.attempt:
            self._note_same(sight)
        else:
            self._note_next(sight)

    def _note_same(self, sight: Sight) -> None:
        if sight.step is None:
            return
        if self._consequence is Consequence.GO_ON:
            went_on = sight.step > self._furthest and (self._saved_step is None or self.saved_since is not None)
            if went_on and self.caught_up_at is None:
                self.caught_up_at = sight.at
        else:
            # What it still does after the harm (it saves before it stops) is reached, too.
            self.reached_step = self._furthest = max(sight.step, self._furthest)

    def _note_next(self, sight: Sight) -> None:
        if self.begun_at is None:
            self.begun_at = sight.at
        is_clearer = self.resumed_attempt == sight.attempt and sight.blur_steps > self.blur_steps
        if sight.from_step is not None and (self.from_step is None or is_clearer):
            # The second line of the output tells how far its steps are apart.
            self.from_step, self.blur_steps = sight.from_step, sight.blur_steps
            self.resumed_attempt = sight.attempt
        if sight.step is None:
            # Where nothing tells the steps, a newer checkpoint shows that it gets on.
            if self.caught_up_at is None and (sight.saved_step or 0) > (self._saved_step or 0):
                self.caught_up_at = sight.at
            return
        if self.first_step_at is None and sight.step > (sight.from_step or 0):
            self.first_step_at = sight.at
        if self.caught_up_at is None and self.first_step_at is not None and sight.step >= self._furthest:
            self.caught_up_at = sight.at


class Measured(msgspec.Struct, frozen=True):
    """One fault in numbers. None: not known, or it did not come to that."""

    reached_step: int | None
    """Last step that was done before the harm."""
    checkpoint_step: int | None
    """Of the newest checkpoint that was whole before it."""
    resumed_step: int | None
    """The step that the next start goes on after; 0 for a start from zero."""
    blur_steps: int
    """`resumed_step` may be off by as much as this: the output does not tell every step. 0: it is exact."""
    resumed_from: Source
    """ "memory", "storage", "zero"; empty if there was no other start, or nothing tells."""
    lost_steps: int | None
    lost_s: float | None
    detected_s: float | None
    """From the harm until its end was seen."""
    ended_as: str
    """What the launcher took it for; empty without our launcher."""
    restarted_s: float | None
    """From the harm until it was started again."""
    first_step_s: float | None
    caught_up_s: float | None
    saved_since: int | None
    overtaken_by: int | None = None
    """The number of the next fault, if it came before the job had come through this one: its times count both."""


def measure(watch: Watch, records: list[Record], steps: StepLog, checkpoint_step: int | None) -> Measured:
    """Put what was seen into numbers; where there are journals, their moments are taken before those of looks."""
    own = next((record for record in records if record.number == watch.attempt), None)
    following = [record for record in records if record.number > watch.attempt]
    has_restarted = watch.begun_at is not None
    launches = (event.at for record in following if (event := record.first("launched")) is not None)
    begun = next(launches, None) if following and following[0].is_launched else watch.started_again_at
    is_inside = bool(following) and not following[0].is_launched and _has_launcher(records, following[0].launch)
    seen, told_end, detected_at = None, None, None
    if has_restarted and not is_inside:
        # Of a restart inside an attempt (torchrun's) the launcher sees nothing, and its last word is about the whole.
        seen = _first_after(own, watch.at, "hang", "ended") if own is not None and own.is_launched else None
        told_end = _first_after(own, watch.at, "ended")
        detected_at = seen.at if seen is not None else watch.ended_at
    started = next((event for record in following if (event := record.first("started"))), None)
    resumed = watch.from_step
    lost_steps = lost_s = None
    if resumed is not None and watch.reached_step is not None:
        lost_steps = max(watch.reached_step - resumed, 0)
        done_at = steps.time_of(resumed, watch.at) if resumed else None
        began = own.began if own is not None else None
        since = done_at if done_at is not None else began
        lost_s = max(watch.at - since, 0.0) if lost_steps and since is not None else None if lost_steps else 0.0
    elif resumed is not None and own is not None and own.first("started") is None:
        # It had not begun yet.
        lost_steps, lost_s = 0, 0.0
    return Measured(
        reached_step=watch.reached_step,
        checkpoint_step=checkpoint_step,
        resumed_step=resumed,
        blur_steps=watch.blur_steps,
        resumed_from=_resumed_from(resumed, started),
        lost_steps=lost_steps,
        lost_s=lost_s,
        detected_s=_since(watch.at, detected_at),
        ended_as=str(told_end.data.get("outcome", "")) if told_end is not None else "",
        restarted_s=_since(watch.at, begun) if has_restarted else None,
        first_step_s=_since(watch.at, watch.first_step_at),
        caught_up_s=_since(watch.at, watch.caught_up_at),
        saved_since=watch.saved_since,
        overtaken_by=watch.overtaken_by,
    )


def _has_launcher(records: list[Record], launch: str) -> bool:
    return any(record.is_launched and record.launch == launch for record in records)


def _resumed_from(resumed: int | None, started: Event | None) -> Source:
    if resumed is None:
        return ""
    if resumed == 0:
        return "zero"
    return "memory" if started is not None and started.data.get("is_from_memory") else "storage"


def _first_after(record: Record | None, at: float, *kinds: str) -> Event | None:
    if record is None:
        return None
    return next((event for event in record.events if event.kind in kinds and event.at >= at - 0.001), None)


def _since(at: float, moment: float | None) -> float | None:
    return None if moment is None else max(moment - at, 0.0)
