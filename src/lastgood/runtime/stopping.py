"""Reasons to stop or save that a rank notices between steps, as numbers that ranks can agree on."""

import time
from collections.abc import Callable

import msgspec

from lastgood.core.schedule import Every, stop_margin_s
from lastgood.runtime.environment import Surroundings
from lastgood.runtime.launcher import LauncherWatch
from lastgood.runtime.signals import SignalFlags

_CAUSES = ["", "launcher gone", "time limit", "SIGUSR1", "SIGTERM", "SIGINT"]
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
        every: Every,
        *,
        is_leader: bool,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._launcher = LauncherWatch(surroundings, clock)
        self._signals = signals
        self._every = every
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
        self.write_s: list[float] = []
        self.is_save_asked = False

    def note_step(self) -> None:
        now = self._clock()
        self._longest_step_s = max(self._longest_step_s * 0.9, now - self._step_at)
        self._step_at = now

    def note_saved(self) -> None:
        self._saved_at = self._step_at = self._clock()
        self.is_save_asked = False

    def wishes(self, step: int, saved_step: int) -> list[int]:
        """[stop cause, save] of this rank. A request to save is taken: it is in this answer only."""
        asked = self._signals.take_save() or self.is_save_asked
        self.is_save_asked = False
        # One rank's clock decides for all, so that ranks with different clocks save together.
        elapsed = self._clock() - self._saved_at if self._is_leader else 0.0
        is_due = self._every.seconds is not None and self._every.is_due(
            step=step, saved_step=saved_step, elapsed_s=elapsed
        )
        return [_CAUSES.index(self._stop_cause()), int(asked or is_due)]

    def agree(self, flags: list[int], step: int, saved_step: int) -> Agreed:
        """What the ranks' flags mean at this step. Saving every n steps needs no agreement."""
        cause, save = flags or [0, 0]
        is_due = self._every.steps is not None and self._every.is_due(step=step, saved_step=saved_step, elapsed_s=0.0)
        return Agreed(_CAUSES[cause], bool(save) or is_due)

    def _stop_cause(self) -> str:
        if self._signals.stop_signal:
            return self._signals.stop_signal
        if self._is_time_up():
            return "time limit"
        if self._launcher.is_gone():
            return "launcher gone"
        return ""

    def _is_time_up(self) -> bool:
        if self._deadline is None or self._deadline_steady is None:
            return False
        margin = stop_margin_s(self.write_s, self._longest_step_s)
        return self._wall_clock() + margin >= self._deadline or self._clock() + margin >= self._deadline_steady
