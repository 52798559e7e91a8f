"""Says when a job does nothing for long: whoever waits in front of a drill is to know for what, and for how long. Pure."""

from lastgood.core.units import duration

QUIET_S = 30.0


class Quiet:
    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._marks: tuple[int, ...] | None = None
        self._since = 0.0
        self._is_told = False

    def told(self, at: float, marks: tuple[int, ...], took_s: float) -> str:
        """What to say now; empty for nothing. `marks` change whenever the job does something; `took_s`: since it began."""
        if marks != self._marks:
            self._marks, self._since, self._is_told = marks, at, False
            return ""
        if self._is_told or at - self._since < QUIET_S:
            return ""
        self._is_told = True
        return (
            f"no step for {duration(at - self._since)}: it is waited for, at most "
            f"{duration(max(self._limit_s - took_s, 0.0))} more (--limit {duration(self._limit_s)})"
        )
