"""The end of the allocation, by two clocks."""

import time
from collections.abc import Callable

from lastgood.core.stopping import stop_time


class TimeLimit:
    """Knows when the command has to be asked to stop.

    The deadline is a time of the wall clock, which can be set: put back, it would let the allocation end
    without a save. So time also passes as the monotonic clock counts it from here on, and whichever clock has
    come further counts (the monotonic one stands still while the machine sleeps).
    """

    def __init__(
        self,
        deadline: float,
        grace_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`deadline` in seconds since 1970."""
        self._clock = clock
        self._wall_clock = wall_clock
        self._began, self._began_steady = wall_clock(), clock()
        self._deadline = deadline
        self._stop_at = stop_time(deadline, self._began, grace_s)

    def is_stop_due(self) -> bool:
        return self._now() >= self._stop_at

    def left_s(self) -> float:
        """Until the deadline; 0 after it."""
        return max(self._deadline - self._now(), 0.0)

    def deadline_by_wall_clock(self) -> float:
        """The deadline for somebody who looks at the wall clock only now."""
        return self._deadline - (self._now() - self._wall_clock())

    def _now(self) -> float:
        """Seconds since 1970."""
        return max(self._wall_clock(), self._began + self._clock() - self._began_steady)
