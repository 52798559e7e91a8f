"""When ranks talk at a safe point: every rank comes to the same answer without talking about it."""

import time
from collections.abc import Callable

from lastgood.core.cadence import safe_points_apart


class Cadence:
    """Counts safe points, by phase: those of an evaluation may follow each other much faster than steps."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._passed_at = clock()
        self._phases: dict[str, _Phase] = {}

    def is_due(self, phase: str) -> bool:
        """A safe point is passed: whether the ranks agree at it. True for the first one of a phase."""
        now = self._clock()
        found = self._phases.setdefault(phase, _Phase())
        found.passed += 1
        found.took_s += now - self._passed_at
        self._passed_at = now
        return found.passed >= found.apart

    def pace_us(self, phase: str) -> int:
        """How long this rank takes from one safe point to the next, in microseconds."""
        found = self._phases[phase]
        return int(found.took_s / found.passed * 1e6)

    def note_agreed(self, phase: str, slowest_us: int) -> None:
        """The ranks have agreed, and the slowest of them has this pace."""
        self._phases[phase] = _Phase(safe_points_apart(slowest_us * 1e-6))
        # Waiting for the others is no part of the pace.
        self._passed_at = self._clock()


class _Phase:
    def __init__(self, apart: int = 1) -> None:
        self.apart = apart
        self.passed = 0
        self.took_s = 0.0
