"""How a job is saved while it runs: the schedule, and what its saves have cost so far. Pure.

A pace is a value: each save makes the next one. It knows no clock; whoever has one asks `is_due`.
"""

import math

import msgspec

from lastgood.core.interval_choice import Choice, Limits, SaveCost, choose_interval
from lastgood.core.reliability import Mtti, preset_mtti
from lastgood.core.schedule import (
    DEFAULT_MARGIN_S,
    RECENT_SAVES,
    Auto,
    Every,
    EverySteps,
    Schedule,
    has_changed,
    stop_margin_s,
)
from lastgood.core.units import duration

FIRST_SAVE_S = 60.0
"""When "auto" saves first, while nothing has been measured: early, so that a save that cannot work is known."""

FIRST_SAVE_FRACTION_OF_MTTI = 0.1
"""...and earlier still where failures are that frequent."""

LEAST_S = 60.0
"""Quick saves of small states are not made more often than this..."""

LEAST_FRACTION_OF_MTTI = 0.01
"""...or than this fraction of the MTTI, where that is shorter: it costs at most half a percent."""


class Pace(msgspec.Struct, frozen=True):
    """When the next save is due. `recent` holds the newest saves of this attempt, newest last."""

    schedule: Schedule
    mtti: Mtti = preset_mtti()
    most_s: float = math.inf
    """"auto" saves at least this often, unless a save takes too long for it."""
    saves: int = 0
    recent: tuple[SaveCost, ...] = ()
    expected: SaveCost | None = None
    """What a save of an earlier attempt cost: counts until this attempt has saved."""
    choice: Choice | None = None
    """What "auto" has come to; None while nothing is known."""

    @property
    def is_by_steps(self) -> bool:
        return isinstance(self.schedule, EverySteps)

    @property
    def interval_s(self) -> float | None:
        """Seconds between the end of the last save and the next; None where steps are counted."""
        if isinstance(self.schedule, EverySteps):
            return None
        if isinstance(self.schedule, Every):
            return self.schedule.interval_s(self.saves)
        if self.choice is None:
            return min(FIRST_SAVE_S, FIRST_SAVE_FRACTION_OF_MTTI * self.mtti.seconds, self.most_s)
        return self.choice.interval_s

    @property
    def stall_s(self) -> float | None:
        """How long a save stops the loop: the median of the recent ones; None before the first of this attempt."""
        return _median([save.stall_s for save in self.recent]) if self.recent else None

    def is_due(self, *, step: int, saved_step: int, elapsed_s: float) -> bool:
        """True if a save is due after `step`; `elapsed_s` is the time since the last save (or the start)."""
        if step == saved_step:
            return False
        if isinstance(self.schedule, EverySteps):
            return step % self.schedule.steps == 0
        return elapsed_s >= (self.interval_s or 0.0)

    def expecting(self, cost: SaveCost) -> "Pace":
        """The pace of an attempt before its first save, when an earlier attempt's is known to have cost this."""
        return msgspec.structs.replace(self, expected=cost)._chosen_for(cost)

    def after_save(self, cost: SaveCost) -> "Pace":
        """The pace after another save of this attempt. "auto" goes by the median of the recent ones, and keeps
        to its interval until it is a fifth off."""
        recent = (*self.recent, cost)[-RECENT_SAVES:]
        now = msgspec.structs.replace(self, saves=self.saves + 1, recent=recent)
        stall_s = _median([save.stall_s for save in recent])
        write_s = _median([save.write_s for save in recent])
        return now._chosen_for(SaveCost(stall_s, write_s, cost.bytes))

    def _chosen_for(self, cost: SaveCost) -> "Pace":
        if not isinstance(self.schedule, Auto):
            return self
        least_s = min(LEAST_S, LEAST_FRACTION_OF_MTTI * self.mtti.seconds, self.most_s)
        choice = choose_interval(cost, self.mtti.seconds, Limits(least_s=least_s, most_s=self.most_s))
        if self.choice is not None and not has_changed(self.choice.interval_s, choice.interval_s):
            return self
        return msgspec.structs.replace(self, choice=choice)

    def margin_s(self, step_s: float) -> float:
        """How long before a time limit to stop; `step_s` is the longest step to expect. What an earlier attempt
        measured may lengthen it, but not shorten it."""
        write_s = [save.write_s for save in self.recent]
        if not write_s and self.expected is not None and self.expected.write_s > DEFAULT_MARGIN_S / 2:
            write_s = [self.expected.write_s]
        return stop_margin_s(write_s, step_s)


class Said(msgspec.Struct, frozen=True):
    """What people were last told."""

    interval_s: float | None = None
    margin_s: float | None = None


NOTHING_SAID = Said()


def pace_news(pace: Pace, margin_s: float, *, has_time_limit: bool, said: Said) -> tuple[str, Said]:
    """What to say of the pace, in one line, and what has then been said; nothing if all is as it was said.

    The interval is said of "auto" alone, since others were stated by the user, and the margin where it
    matters: under a time limit.

    >>> pace = Pace(Auto()).after_save(SaveCost(1.5, 1.5))
    >>> text, said = pace_news(pace, pace.margin_s(0.5), has_time_limit=False, said=NOTHING_SAID)
    >>> for part in text.split(", "):
    ...     print(part)
    saving every 8 min 26 s: least loss at a stall of 1.5 s a save
    interrupted once in 23 h 50 min (preset for 1 node)
    >>> pace_news(pace, pace.margin_s(0.6), has_time_limit=False, said=said)[0]
    ''
    """
    choice = pace.choice
    if choice is None and not has_time_limit:
        return "", said
    is_new_interval = choice is not None and has_changed(said.interval_s, choice.interval_s)
    if not is_new_interval and not (has_time_limit and has_changed(said.margin_s, margin_s)):
        return "", said
    parts = []
    if choice is not None:
        parts.append(f"saving every {duration(choice.interval_s)}: {choice.reason}, interrupted once in {pace.mtti}")
    if has_time_limit:
        parts.append(f"a stop needs {duration(margin_s)} before the time limit")
    if choice is not None and choice.doubt:
        parts.append(choice.doubt)
    return "; ".join(parts), Said(choice.interval_s if choice is not None else None, margin_s)


def _median(values: list[float]) -> float:
    """The middle one; of two the longer."""
    return sorted(values)[len(values) // 2]
