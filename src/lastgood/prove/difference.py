"""What a comparison answers: alike in which way, or first and most different where."""

import math
from collections.abc import Iterable
from typing import Literal

import msgspec

Kind = Literal["identical", "within", "differs", "not comparable"]
"""Equal in every bit; equal within the tolerance; not equal; or nothing can be said."""

_GRAVITY: tuple[Kind, ...] = ("identical", "within", "not comparable", "differs")
"""Of several answers, the last of these is the answer to all: what differs stays different, whatever else is unknown."""


class Tolerance(msgspec.Struct, frozen=True):
    """How far two numbers may be apart, as `numpy.isclose` has it: |a - b| <= absolute + relative * |b|, where b is the
    undisturbed run's."""

    relative: float = 0.0
    absolute: float = 0.0

    @property
    def is_exact(self) -> bool:
        return not self.relative and not self.absolute

    def __str__(self) -> str:
        return f"rtol {self.relative:g}, atol {self.absolute:g}"


EXACT = Tolerance()


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One place in which two runs are not equal, as people read it."""

    what: str
    """The value, array or element: "loss", "weights[3, 4]"."""
    left: str
    """Of the undisturbed run, so that reading gives the same bits; empty if it has none."""
    right: str
    """Of the other run."""
    where: str = ""
    """The file, or the rank; empty where there is only one."""
    step: int | None = None
    absolute: float | None = None
    """None where it is no number: texts, NaN, infinities."""
    relative: float | None = None
    """Of the larger of the two magnitudes, 0 to 2."""
    ulp: int | None = None
    """How many representable numbers the two are apart; for floats of one width only."""
    differing: int = 1
    """How many elements differ in the same array or file."""
    of: int = 1
    reason: str = ""
    """What kind of difference, where numbers do not tell: "shape (3,) against (4,)"."""

    def __str__(self) -> str:
        place = ", ".join(
            part for part in (f"step {self.step}" if self.step is not None else "", self.where, self.what) if part
        )
        values = " against ".join(_short(text) for text in (self.left, self.right) if text)
        distances = [f"{self.ulp:,} ULP" if self.ulp is not None else ""]
        if self.absolute is not None:
            distances.append(f"absolute {self.absolute:.3g}")
        if self.relative is not None:
            distances.append(f"relative {self.relative:.3g}")
        count = f"{self.differing:,} of {self.of:,} differ" if self.of > 1 else ""
        told = ", ".join(part for part in (values, self.reason, *distances, count) if part)
        return f"{place}: {told}" if told else place


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to "are these equal?"."""

    kind: Kind
    compared: int
    """How many single values were held against each other."""
    differing: int = 0
    """How many of them are not equal bit for bit."""
    beyond: int = 0
    """How many are further apart than the tolerance allows."""
    first: Difference | None = None
    """By step, then by name."""
    first_beyond: Difference | None = None
    """The first that the tolerance does not allow."""
    largest_absolute: Difference | None = None
    largest_relative: Difference | None = None
    largest_ulp: Difference | None = None
    notes: tuple[str, ...] = ()
    """What a person should know beside it: what was left out, what could not be compared and why."""

    @property
    def is_equal(self) -> bool:
        """True for what a proof may pass: identical, or within the tolerance that was asked for."""
        return self.kind in ("identical", "within")

    def __str__(self) -> str:
        if self.kind == "identical":
            return f"{self.compared:,} values equal bit for bit"
        if self.kind == "not comparable":
            return "cannot be compared" + (f": {'; '.join(self.notes)}" if self.notes else "")
        lines = [f"{self.differing:,} of {self.compared:,} values differ"]
        if self.kind == "within":
            lines[0] += ", all within the tolerance"
        told: dict[Difference, list[str]] = {}
        for name, difference in (
            ("first", self.first),
            ("first beyond the tolerance", self.first_beyond if self.kind == "differs" else None),
            ("largest absolute", self.largest_absolute),
            ("largest relative", self.largest_relative),
            ("largest in ULP", self.largest_ulp),
        ):
            if difference is not None:
                told.setdefault(difference, []).append(name)
        for difference, names in told.items():
            # The first is told as such: that it is also beyond the tolerance goes without saying.
            kept = [name for name in names if name != "first beyond the tolerance" or names == [name]]
            lines.append(f"{' and '.join(kept)}: {difference}")
        return "\n".join(lines)


def not_comparable(*notes: str) -> Comparison:
    return Comparison(kind="not comparable", compared=0, notes=notes)


def differs(difference: Difference, *notes: str) -> Comparison:
    """The answer where one difference says all: a file or an array that only one run has, another shape."""
    return Comparison(
        kind="differs", compared=1, differing=1, beyond=1, first=difference, first_beyond=difference, notes=notes
    )


def join(comparisons: Iterable[Comparison], nothing: str = "there is nothing to compare") -> Comparison:
    """One answer for all, in the order given. None at all is no proof of anything: not comparable.

    >>> join([]).kind
    'not comparable'
    """
    parts = list(comparisons)
    if not parts:
        return not_comparable(nothing)
    kind = max((part.kind for part in parts), key=_GRAVITY.index)
    firsts = [part.first for part in parts if part.first is not None]
    beyonds = [part.first_beyond for part in parts if part.first_beyond is not None]
    return Comparison(
        kind=kind,
        compared=sum(part.compared for part in parts),
        differing=sum(part.differing for part in parts),
        beyond=sum(part.beyond for part in parts),
        first=_earliest(firsts),
        first_beyond=_earliest(beyonds),
        largest_absolute=_largest([part.largest_absolute for part in parts], "absolute"),
        largest_relative=_largest([part.largest_relative for part in parts], "relative"),
        largest_ulp=_largest([part.largest_ulp for part in parts], "ulp"),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )


def settled(comparison: Comparison, nothing: str) -> Comparison:
    """The last word: where nothing was held against anything, such as empty files alone, nothing is proven."""
    if comparison.kind == "identical" and not comparison.compared:
        return not_comparable(nothing, *comparison.notes)
    return comparison


def _earliest(found: list[Difference]) -> Difference | None:
    # `min` keeps the first of equals: what has no step stays in the order given, after what has one.
    return min(found, key=lambda one: math.inf if one.step is None else one.step, default=None)


def _largest(found: list[Difference | None], by: Literal["absolute", "relative", "ulp"]) -> Difference | None:
    known = [one for one in found if one is not None and getattr(one, by) is not None]
    return max(known, key=lambda one: float(getattr(one, by)), default=None)


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
