"""A stated statistical bound for results that have errors, such as of Monte Carlo: two estimates agree where they are apart by
no more than a number of standard errors.

z = (a - b) / sqrt(s_a^2 + s_b^2), alarm where |z| is above the bound. A bound of 3 alarms falsely once in 370 comparisons of
equal runs. Here that is the probability for all names and runs together: each is held against a wider bound, so that the
sum of their probabilities is no larger (Bonferroni). Errors that are estimated from few batches are themselves uncertain:
the bound is then the quantile of Student's t of the same probability, with the degrees of freedom of Welch and Satterthwaite.

Runs that share random numbers up to the kill are closer to each other than their errors say: such a test alarms less often
than stated, and finds less.

Sources: B. L. Welch, Biometrika 34 (1947) 28; C. J. Geyer, Statistical Science 7 (1992) 473, and J. M. Flegal, G. L. Jones,
Annals of Statistics 38 (2010) 1034 for batch means of correlated series, with batches as long as the root of the series;
O. J. Dunn, JASA 56 (1961) 52 for the bound over several comparisons.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import NormalDist
from typing import Any

import msgspec

from lastgood.prove.difference import Comparison, Difference, Kind, differs, join, not_comparable
from lastgood.prove.values import printed_number

BOUND = 3.0
_LEAST_BATCHES = 10
_NORMAL = NormalDist()

Series = Mapping[int, Mapping[str, Any]]


class Estimate(msgspec.Struct, frozen=True):
    """A value with its standard error."""

    value: float
    error: float
    freedom: float | None = None
    """Degrees of freedom of the error; None: it is known so well that it counts as exact."""
    note: str = ""


class Test(msgspec.Struct, frozen=True, kw_only=True):
    """One value of one run, or of several together, against the undisturbed run's."""

    __test__ = False

    name: str
    run: str
    """Such as "run 2", "3 runs together"."""
    left: Estimate
    right: Estimate
    z: float | None
    """Difference in standard errors, its sign that of (right - left); None where there is no error and they differ."""
    bound: float
    """In standard errors, for this comparison."""
    probability: float
    """Of a difference as large as this one, or larger, between equal runs."""

    @property
    def is_within(self) -> bool:
        return self.z is not None and abs(self.z) <= self.bound

    @property
    def smallest_seen(self) -> float:
        """A bias that this comparison finds nine times of ten."""
        return (self.bound + _NORMAL.inv_cdf(0.9)) * math.hypot(self.left.error, self.right.error)

    def __str__(self) -> str:
        apart = "no error is known, and they differ" if self.z is None else f"{self.z:+.2f} standard errors"
        return (
            f"{self.name}, {self.run}: {self.left.value:.6g} ± {self.left.error:.2g} against {self.right.value:.6g} ± "
            f"{self.right.error:.2g}, {apart} (bound {self.bound:.2f})"
        )


class Lacking(msgspec.Struct, frozen=True, kw_only=True):
    """A value that the undisturbed run has an estimate of, and another run has not."""

    name: str
    run: str
    left: Estimate

    def __str__(self) -> str:
        return f"{self.name}, {self.run}: no estimate in finite numbers, where the undisturbed run has one"


class StatisticalComparison(msgspec.Struct, frozen=True, kw_only=True):
    """All comparisons of a proof, and what they may be trusted for."""

    tests: tuple[Test, ...]
    bound: float
    """As it was asked for."""
    false_alarm: float
    """Probability that any of the comparisons alarms, if all runs are equal."""
    lacking: tuple[Lacking, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_within(self) -> bool:
        return bool(self.tests) and not self.lacking and all(test.is_within for test in self.tests)

    @property
    def worst(self) -> Test | None:
        return min(self.tests, key=lambda test: (test.is_within, test.probability), default=None)

    def __str__(self) -> str:
        if self.worst is None:
            return "no estimate to compare: " + "; ".join(map(str, (*self.lacking, *self.notes)))
        outside = sum(not test.is_within for test in self.tests)
        how_sure = f"for all together (a false alarm: {self.false_alarm:.2g})"
        lines = [
            f"{outside} of {len(self.tests)} comparisons beyond the bound of {self.bound:g} standard errors {how_sure}",
            f"{'worst' if outside else 'furthest'}: {self.worst}",
        ]
        lines += map(str, self.lacking)
        return "\n".join([*lines, self.sensitivity] if self.sensitivity else lines)

    @property
    def sensitivity(self) -> str:
        """What would not be seen; empty where something was."""
        hardest = max(self.tests, key=lambda test: test.smallest_seen, default=None)
        if hardest is None or not self.is_within:
            return ""
        return f"a bias of {hardest.name} below {hardest.smallest_seen:.2g} would not be seen"


def false_alarm_of(bound: float) -> float:
    """How often two equal values are further apart than `bound` standard errors.

    >>> f"{false_alarm_of(3):.4f}"
    '0.0027'
    """
    return math.erfc(bound / math.sqrt(2))


def estimate_of_batches(values: Sequence[float]) -> Estimate:
    """The mean of a series in the order in which it came, with a standard error that allows for correlation: the scatter of
    the means of batches that are long enough to be independent of each other.

    Raises ValueError for less than two values, or values that are no finite numbers.
    """
    count = len(values)
    if count < 2 or not all(map(math.isfinite, values)):
        raise ValueError("an error needs two finite values at least")
    size = 1 if count < 2 * _LEAST_BATCHES else min(math.isqrt(count), count // _LEAST_BATCHES)
    # What does not fill a batch is left out at the begin, which is the furthest from equilibrium.
    used = values[count % size :]
    means = [math.fsum(used[at : at + size]) / size for at in range(0, len(used), size)]
    mean = math.fsum(means) / len(means)
    squares = math.fsum((one - mean) ** 2 for one in means)
    error = math.sqrt(squares / (len(means) - 1) / len(means))
    note = ""
    if squares > 0:
        neighbours = math.fsum((a - mean) * (b - mean) for a, b in pairwise(means)) / squares
        if neighbours > 2 / math.sqrt(len(means)):
            note = "batches are correlated still: the series is too short for its error to be trusted"
    return Estimate(mean, error, len(means) - 1, note)


def combined(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of independent estimates. Those that are equal in every digit are not independent, and count once."""
    distinct = list(dict.fromkeys(estimates))
    count = len(distinct)
    variances = [one.error**2 for one in distinct]
    total = math.fsum(variances)
    value = math.fsum(one.value for one in distinct) / count
    return Estimate(value, math.sqrt(total) / count, _freedom(distinct, variances))


def compare_estimates(
    left: Mapping[str, Estimate], rights: Sequence[Mapping[str, Estimate]], bound: float = BOUND
) -> StatisticalComparison:
    """Hold each run, and where there are several all of them together, against the undisturbed one.

    >>> print(compare_estimates({"pi": Estimate(3.14, 0.01)}, [{"pi": Estimate(3.2, 0.01)}]))
    1 of 1 comparisons beyond the bound of 3 standard errors for all together (a false alarm: 0.0027)
    worst: pi, run 1: 3.14 ± 0.01 against 3.2 ± 0.01, +4.24 standard errors (bound 3.00)
    """
    if not bound > 0:
        raise ValueError("a bound is a positive number of standard errors")
    pairs: list[tuple[str, str, Estimate]] = []
    lacking: list[Lacking] = []
    notes: list[str] = []
    for name in left:
        found = [(f"run {number}", right[name]) for number, right in enumerate(rights, 1) if name in right]
        lacking += [
            Lacking(name=name, run=f"run {number}", left=left[name])
            for number, right in enumerate(rights, 1)
            if name not in right
        ]
        pairs += [(name, run, one) for run, one in found]
        if len({one for _, one in found}) > 1:
            pairs.append((name, f"{len(found)} runs together", combined([one for _, one in found])))
        notes += [
            f"{name}: {note}"
            for note in dict.fromkeys(one.note for one in (left[name], *(e for _, e in found)))
            if note
        ]
    share = false_alarm_of(bound) / max(1, len(pairs))
    tests = tuple(_test(name, run, left[name], right, share) for name, run, right in pairs)
    return StatisticalComparison(
        tests=tests, bound=bound, false_alarm=false_alarm_of(bound), lacking=tuple(lacking), notes=tuple(notes)
    )


def compare_statistically(
    left: Series, rights: Sequence[Series], names: Sequence[tuple[str, str]], bound: float = BOUND
) -> StatisticalComparison:
    """Hold logged estimates against each other. `names` are those of values, each with the name of its standard error: then
    the last step that has both counts. Where that is empty, the values of all steps are a series of block means."""
    sides = [_estimates(series, names) for series in (left, *rights)]
    missing = tuple(f"the undisturbed run has no estimate of {name}: {why}" for name, why in sides[0][1].items())
    found = compare_estimates(sides[0][0], [side[0] for side in sides[1:]], bound)
    return msgspec.structs.replace(found, notes=(*missing, *found.notes))


def as_comparison(found: StatisticalComparison) -> Comparison:
    """The answer like any other: within the bound, or not."""
    if not found.tests and not found.lacking:
        return not_comparable(*(found.notes or ("there is no estimate with an error",)))
    parts = [
        differs(
            Difference(
                what=f"{one.name} ({one.run})",
                left=repr(one.left.value),
                right="",
                reason="the other run has no such estimate in finite numbers",
            )
        )
        for one in found.lacking
    ]
    for test in found.tests:
        apart = abs(test.right.value - test.left.value)
        magnitude = max(abs(test.left.value), abs(test.right.value))
        told = "no error is known" if test.z is None else f"{test.z:+.2f} standard errors, bound {test.bound:.2f}"
        difference = Difference(
            what=f"{test.name} ({test.run})",
            left=repr(test.left.value),
            right=repr(test.right.value),
            absolute=apart,
            relative=apart / magnitude if magnitude else 0.0,
            reason=told,
        )
        kind: Kind = "within" if test.is_within else "differs"
        if not apart and test.left == test.right:
            parts.append(Comparison(kind="identical", compared=1))
            continue
        beyond = None if test.is_within else difference
        parts.append(
            Comparison(
                kind=kind,
                compared=1,
                differing=1,
                beyond=0 if test.is_within else 1,
                first=difference,
                first_beyond=beyond,
                largest_absolute=difference,
                largest_relative=difference,
            )
        )
    sure = f"equal runs would be told apart with a probability of {found.false_alarm:.2g}, in any of the comparisons"
    notes = (*found.notes, *([found.sensitivity] if found.sensitivity else []), sure)
    return msgspec.structs.replace(join(parts), notes=notes)


def without_estimate(series: Series, names: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The names of which a run has no estimate, each with what is missing."""
    return _estimates(series, names)[1]


def _estimates(series: Series, names: Sequence[tuple[str, str]]) -> tuple[dict[str, Estimate], dict[str, str]]:
    found: dict[str, Estimate] = {}
    missing: dict[str, str] = {}
    for name, error in names:
        if error:
            both = [step for step, values in series.items() if name in values and error in values]
            pair = [_number(series[max(both)][key]) for key in (name, error)] if both else []
            if len(pair) == 2 and all(map(math.isfinite, pair)) and pair[1] >= 0:
                found[name] = Estimate(pair[0], pair[1])
            else:
                missing[name] = f"no step has {name} and {error} as finite numbers"
            continue
        values = [_number(series[step][name]) for step in sorted(series) if name in series[step]]
        try:
            found[name] = estimate_of_batches(values)
        except ValueError as problem:
            missing[name] = str(problem)
    return found, missing


def _number(value: Any) -> float:
    number = printed_number(value) if isinstance(value, str) else value
    return float(number) if isinstance(number, int | float) else math.nan


def _freedom(estimates: Sequence[Estimate], variances: Sequence[float]) -> float | None:
    """Of Welch and Satterthwaite; None where every error is known."""
    parts = [v * v / one.freedom for one, v in zip(estimates, variances, strict=True) if one.freedom is not None]
    below = math.fsum(parts)
    return math.fsum(variances) ** 2 / below if below > 0 else None


def _test(name: str, run: str, left: Estimate, right: Estimate, probability: float) -> Test:
    variances = [left.error**2, right.error**2]
    freedom = _freedom((left, right), variances)
    error = math.sqrt(math.fsum(variances))
    apart = right.value - left.value
    z = apart / error if error > 0 else 0.0 if apart == 0 else None
    return Test(
        name=name,
        run=run,
        left=left,
        right=right,
        z=z,
        bound=two_sided_quantile(probability, freedom),
        probability=0.0 if z is None else two_sided(abs(z), freedom),
    )


def two_sided(z: float, freedom: float | None) -> float:
    """How often |t| is above z: Student's t with these degrees of freedom, the normal distribution for None."""
    if freedom is None or freedom > 1e7:
        return false_alarm_of(z)
    return _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + z * z), z * z / (freedom + z * z))


def two_sided_quantile(probability: float, freedom: float | None) -> float:
    """The z of which `two_sided` is `probability`."""
    low, high = 0.0, 1.0
    while two_sided(high, freedom) > probability and high < 1e12:
        high *= 2
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, freedom) > probability else (low, middle)
    return high


def _incomplete_beta(a: float, b: float, x: float, y: float) -> float:
    """Regularised incomplete beta function, by Lentz's continued fraction (DLMF 8.17.22); `y` is 1 - x, exactly."""
    if x <= 0 or y <= 0:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, y, x)
    powers = a * (math.log(x) if x < 0.5 else math.log1p(-y)) + b * (math.log(y) if y < 0.5 else math.log1p(-x))
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + powers) / a
    tiny = 1e-300
    c, d = 1.0, 1 / max(1 - (a + b) * x / (a + 1), tiny)
    fraction = d
    for m in range(1, 400):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + term * d or tiny)
            c = 1 + term / c or tiny
            fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * fraction
