"""Reasons to stop or save that a rank notices between steps, as numbers that ranks can agree on."""

import math
import time
from collections.abc import Callable

import msgspec

from lastgood.core.interval_choice import SaveCost
from lastgood.core.pace import Pace
from lastgood.core.stopping import TIME_LIMIT
from lastgood.runtime.environment import Surroundings
from lastgood.runtime.launcher import LauncherWatch
from lastgood.runtime.signals import SignalFlags

_CAUSES = ["", "launcher gone", TIME_LIMIT, "SIGUSR1", "SIGTERM", "SIGINT"]
"""Where ranks saw different causes the one that stands last counts for all."""


class Agreed(msgspec.Struct, frozen=True):
    """What all ranks do at this safe point."""

    stop_cause: str = ""
    """Why to save and stop; empty to go on."""
    is_save_due: bool = False


class StopWatch:
    """Looks at signals, the clock, the launcher and requests; says what this rank wants."""

    def __init__(
        self,
        surroundings: Surroundings,
        signals: SignalFlags,
        pace: Pace,
        *,
        is_leader: bool,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._launcher = LauncherWatch(surroundings, clock)
        self._signals = signals
        self.pace = pace
        """When the next save is due, by what the saves so far have cost."""
        self._is_leader = is_leader
        self._clock = clock
        self._wall_clock = wall_clock
        self._deadline = surroundings.deadline
        # The same moment by the clock that nobody sets: a wall clock that is put back must not cost the
        # last save.
        self._deadline_steady = None if self._deadline is None else clock() + self._deadline - wall_clock()
        self._saved_at = clock()
        self._step_at = clock()
        self._longest_step_s = 0.0
        self.is_save_asked = False

    def note_step(self) -> None:
        now = self._clock()
        self._longest_step_s = max(self._longest_step_s * 0.9, now - self._step_at)
        self._step_at = now

    def note_saved(self) -> None:
        self._saved_at = self._step_at = self._clock()
        self.is_save_asked = False

    def expect_cost(self, write_s: float, size: int) -> None:
        """What a save of an earlier attempt took; 0 if that is not known."""
        if 0 < write_s < math.inf:
            self.pace = self.pace.expecting(SaveCost(write_s, write_s, max(size, 0)))

    def note_cost(self, cost: SaveCost) -> None:
        """A save of this attempt is committed."""
        self.pace = self.pace.after_save(cost)

    @property
    def margin_s(self) -> float:
        """How long a stop takes: a step, and a save as slow as the slowest recent one, twice over."""
        return self.pace.margin_s(self._longest_step_s)

    @property
    def has_time_limit(self) -> bool:
        return self._deadline is not None

    def wishes(self, step: int, saved_step: int, is_free: Callable[[], bool] = lambda: True) -> list[int]:
        """[stop cause, save] of this rank. A request to save is taken: it is in this answer only.

        `is_free` says whether a save could begin at once. Where the clock asks for one it is put off until then:
        waiting would not protect the work any better than going on.
        """
        asked = self._signals.take_save() or self.is_save_asked
        self.is_save_asked = False
        # One rank's clock decides for all, so that ranks with different clocks save together.
        is_due = (
            self._is_leader
            and not self.pace.is_by_steps
            and self.pace.is_due(step=step, saved_step=saved_step, elapsed_s=self._clock() - self._saved_at)
            and is_free()
        )
        return [_CAUSES.index(self._stop_cause()), int(asked or is_due)]

    def agree(self, flags: list[int], step: int, saved_step: int) -> Agreed:
        """What the ranks' flags mean at this step. Saving every n steps needs no agreement."""
        cause, save = flags or [0, 0]
        is_due = self.pace.is_by_steps and self.pace.is_due(step=step, saved_step=saved_step, elapsed_s=0.0)
        return Agreed(_CAUSES[cause], bool(save) or is_due)

    def _stop_cause(self) -> str:
        if self._signals.stop_signal:
            return self._signals.stop_signal
        if self._is_time_up():
            return TIME_LIMIT
        if self._launcher.is_gone():
            return "launcher gone"
        return ""

    def _is_time_up(self) -> bool:
        if self._deadline is None or self._deadline_steady is None:
            return False
        margin = self.margin_s
        return self._wall_clock() + margin >= self._deadline or self._clock() + margin >= self._deadline_steady
