"""Counts single comparisons, and remembers the first difference and the largest ones."""

import math
from typing import Literal

import msgspec

from lastgood.prove.difference import EXACT, Comparison, Difference, Tolerance, join

By = Literal["absolute", "relative", "ulp"]


class Tally:
    """Takes values one by one; for arrays whole answers are joined."""

    def __init__(self, tolerance: Tolerance = EXACT) -> None:
        self.tolerance = tolerance
        self.compared = 0
        self.differing = 0
        self.beyond = 0
        self.beyond_in_all = 0
        """Of joined answers, too."""
        self.notes: dict[str, None] = {}
        self.first: Difference | None = None
        self.first_beyond: Difference | None = None
        self._largest: dict[By, Difference] = {}
        self._others: list[Comparison] = []

    def add_equal(self, count: int = 1) -> None:
        self.compared += count

    def add(self, difference: Difference, *, is_allowed: bool) -> None:
        """One value that is not equal bit for bit; `is_allowed`: the tolerance has room for it."""
        self.compared += 1
        self.differing += 1
        self.first = self.first or difference
        if not is_allowed:
            self.beyond += 1
            self.beyond_in_all += 1
            self.first_beyond = self.first_beyond or difference
        bys: tuple[By, ...] = ("absolute", "relative", "ulp")
        for by in bys:
            value = getattr(difference, by)
            if value is not None and (by not in self._largest or value > getattr(self._largest[by], by)):
                self._largest[by] = difference

    @property
    def is_empty(self) -> bool:
        """Nothing was held against anything."""
        return not self.compared and not self._others

    def join(self, comparison: Comparison) -> None:
        self.beyond_in_all += comparison.beyond
        self._others.append(comparison)

    def note(self, text: str) -> None:
        self.notes[text] = None

    def comparison(self, nothing: str = "there is nothing to compare") -> Comparison:
        """The answer. Nothing compared is not "identical"."""
        own = Comparison(
            kind="differs" if self.beyond else "within" if self.differing else "identical",
            compared=self.compared,
            differing=self.differing,
            beyond=self.beyond,
            first=self.first,
            first_beyond=self.first_beyond,
            largest_absolute=self._largest.get("absolute"),
            largest_relative=self._largest.get("relative"),
            largest_ulp=self._largest.get("ulp"),
        )
        answer = join([own] * bool(self.compared) + self._others, nothing)
        notes = tuple(dict.fromkeys([*answer.notes, *self.notes]))
        return msgspec.structs.replace(answer, notes=notes)


def is_close(left: float, right: float, tolerance: Tolerance) -> bool:
    """As `numpy.isclose(right, left)`, except that two NaN are close; `left` is the undisturbed run's.

    >>> is_close(100.0, 100.5, Tolerance(relative=0.01)), is_close(math.inf, 1.0, Tolerance(relative=0.01))
    (True, False)
    """
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    if math.isinf(left) or math.isinf(right):
        return left == right
    return abs(left - right) <= tolerance.absolute + tolerance.relative * abs(left)
