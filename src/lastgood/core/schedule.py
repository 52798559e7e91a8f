"""When to save, and when to stop before a time limit. Pure."""

import msgspec

from lastgood.core.errors import UsageError
from lastgood.core.units import parse_duration


class Every(msgspec.Struct, frozen=True):
    """Save every so many steps, or seconds; exactly one is given."""

    steps: int | None = None
    seconds: float | None = None

    def is_due(self, *, step: int, saved_step: int, elapsed_s: float) -> bool:
        """True if a save is due after `step`; `elapsed_s` is the time since the last save (or the start)."""
        if step == saved_step:
            return False
        if self.steps is not None:
            return step % self.steps == 0
        return self.seconds is not None and elapsed_s >= self.seconds


def parse_every(value: int | float | str) -> Every:
    """`every=` as users give it: an int counts steps; a text has a unit of time, or "steps".

    >>> parse_every(100), parse_every("10min"), parse_every("50 steps")
    (Every(steps=100, seconds=None), Every(steps=None, seconds=600.0), Every(steps=50, seconds=None))
    """
    if isinstance(value, str):
        number, _, unit = value.strip().partition(" ")
        if unit.strip() in ("step", "steps") and number.isdigit():
            value = int(number)
        else:
            seconds = parse_duration(value)
            if seconds <= 0:
                raise UsageError(f"every={value!r}: must be more than nothing")
            return Every(seconds=seconds)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"every={value!r}: give a whole number of steps (1 or more) or a duration such as '10min'")
    return Every(steps=value)


DEFAULT_MARGIN_S = 30.0


def stop_margin_s(write_s: list[float], step_s: float) -> float:
    """How long before a time limit to stop: twice the slowest recent write, one more step, and five seconds.

    Before anything was written, DEFAULT_MARGIN_S stands in for the write.

    >>> stop_margin_s([2.0, 3.0], 0.5)
    11.5
    """
    slowest = max(write_s[-5:]) if write_s else DEFAULT_MARGIN_S / 2
    return 2 * slowest + step_s + 5.0
