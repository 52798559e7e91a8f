"""When to save, as users say it, and when to stop before a time limit. Pure.

What "auto" comes to while a job runs is in core.pace.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from lastgood.core.errors import UsageError
from lastgood.core.units import parse_duration

_seconds = lru_cache(maxsize=16)(parse_duration)
"""The same few texts are asked for at every safe point."""


class EverySteps(msgspec.Struct, frozen=True):
    """Save after every step whose number is a multiple of `steps`."""

    steps: int


class Every(msgspec.Struct, frozen=True):
    """Save by time, closely at first: `first` after the start, then at intervals that grow to `then`.

    Each interval is `grow` times the one before, until `then` is reached. Every attempt begins with `first`
    again: what goes wrong often goes wrong early. Intervals are measured from the end of one save.

    >>> every = Every(first="1min", then="10min", grow=2.0)
    >>> [every.interval_s(saves) for saves in range(6)]
    [60.0, 120.0, 240.0, 480.0, 600.0, 600.0]
    """

    first: str
    then: str
    grow: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < parse_duration(self.first) <= parse_duration(self.then):
            raise UsageError(
                f"Every(first={self.first!r}, then={self.then!r}): first is more than nothing, then no less"
            )
        if not self.grow > 1:
            raise UsageError(f"Every(grow={self.grow}): intervals grow by a factor above 1")

    def interval_s(self, saves: int) -> float:
        """Seconds to the next save, after `saves` saves of this attempt."""
        first_s, then_s = _seconds(self.first), _seconds(self.then)
        # Compared as logarithms: a power would overflow.
        if saves * math.log(self.grow) >= math.log(then_s / first_s):
            return then_s
        return first_s * self.grow**saves


class Auto(msgspec.Struct, frozen=True):
    """Save as often as loses least time, by what saves cost and how often the job is interrupted."""


Schedule = EverySteps | Every | Auto


def parse_every(value: int | str | Every) -> Schedule:
    """`every=` as users give it: "auto"; an int counts steps; a text has a unit of time, or "steps".

    >>> parse_every(100), parse_every("10min"), parse_every("50 steps"), parse_every("auto")
    (EverySteps(steps=100), Every(first='10min', then='10min', grow=2.0), EverySteps(steps=50), Auto())
    """
    if isinstance(value, Every):
        return value
    if isinstance(value, str):
        if value.strip() == "auto":
            return Auto()
        number, _, unit = value.strip().partition(" ")
        if unit.strip() in ("step", "steps") and number.isdigit():
            value = int(number)
        else:
            if parse_duration(value) <= 0:
                raise UsageError(f"every={value!r}: must be more than nothing")
            return Every(first=value, then=value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(
            f"every={value!r}: give 'auto', a whole number of steps (1 or more), a duration such as '10min', "
            "or lastgood.Every(...)"
        )
    return EverySteps(value)


RECENT_SAVES = 5
"""How many saves back a measurement counts."""

DEFAULT_MARGIN_S = 30.0


def stop_margin_s(write_s: Sequence[float], step_s: float) -> float:
    """How long before a time limit to stop: twice the slowest recent write, one more step, and five seconds.

    Before anything was written, DEFAULT_MARGIN_S stands in for the write.

    >>> stop_margin_s([2.0, 3.0], 0.5)
    11.5
    """
    slowest = max(write_s[-RECENT_SAVES:]) if write_s else DEFAULT_MARGIN_S / 2
    return 2 * slowest + step_s + 5.0


NOTABLE_CHANGE = 0.2
"""A fifth off the best interval costs under half a percent: a smaller change is not worth a word."""


def has_changed(before: float | None, now: float) -> bool:
    """True if `now` is to be said: for the first time, or more than a fifth off what was said before.

    >>> has_changed(None, 100), has_changed(100, 119), has_changed(100, 121), has_changed(100, 79)
    (True, False, True, True)
    """
    return before is None or abs(now - before) > NOTABLE_CHANGE * before
