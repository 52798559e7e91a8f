"""What a count of rare events says about their rate: intervals of confidence, and the chance of a count. Pure.

The interval is that of M. P. Fay and E. J. Feuer ("Confidence intervals for directly standardized rates", Statistics
in Medicine 16, 1997), over events of which each brought one failure or several. Where each brought one it is the exact
interval of F. Garwood (Biometrika 28, 1936). SciPy has what is needed for them, and is too large for it.
"""

import math
from collections.abc import Sequence

CONFIDENCE = 0.95

_PRECISION = 1e-13
_MOST_TERMS = 200_000
_MOST_HALVINGS = 400
_TINY = 1e-300


def gamma_share(shape: float, x: float) -> float:
    """The share of the gamma distribution of this shape (and scale 1) that lies below `x`.

    For a whole shape k this is also the chance of k events or more where `x` are expected (Poisson).

    >>> round(gamma_share(1, 0.5), 6), round(gamma_share(3, 3), 6), gamma_share(2, 0)
    (0.393469, 0.57681, 0.0)
    """
    if not (shape > 0 and x >= 0 and math.isfinite(shape)):
        raise ValueError(f"a gamma distribution of shape {shape} below {x}")
    if x == 0:
        return 0.0
    if math.isinf(x):
        return 1.0
    return _series(shape, x) if x < shape + 1 else 1.0 - _fraction(shape, x)


def gamma_quantile(shape: float, share: float) -> float:
    """Below which value this share of the gamma distribution lies.

    Errors: relative, below 1e-9 for shapes up to a million.

    >>> round(gamma_quantile(1, 0.975), 6), round(gamma_quantile(10, 0.025), 6)
    (3.688879, 4.795389)
    """
    if not 0 < share < 1:
        raise ValueError(f"a quantile of {share}: it lies between 0 and 1")
    low, high = 0.0, max(shape, 1.0)
    while gamma_share(shape, high) < share:
        low, high = high, 2 * high
    for _ in range(_MOST_HALVINGS):
        middle = (low + high) / 2
        if high - low <= _PRECISION * middle or middle in (low, high):
            break
        if gamma_share(shape, middle) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def count_interval(sizes: Sequence[tuple[int, int]], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """From where to where the expected number of failures lies, where these were seen.

    `sizes`: (failures in one event, number of such events). A switch that takes eight nodes with it is one event, and
    tells less than eight nodes that fail on eight days. Limits: an event larger than any that was seen is not foreseen;
    that matters below about ten events.

    >>> [round(x, 3) for x in count_interval([(1, 10)])], [round(x, 3) for x in count_interval([])]
    ([4.795, 18.39], [0.0, 3.689])
    >>> [round(x, 3) for x in count_interval([(8, 1), (1, 2)])]
    [0.734, 46.248]
    """
    if any(size < 1 or number < 0 for size, number in sizes):
        raise ValueError(f"events of these sizes: {sizes}")
    tail = (1 - confidence) / 2
    seen = [(size, number) for size, number in sizes if number]
    count = sum(size * number for size, number in seen)
    spread = sum(size * size * number for size, number in seen)
    largest = max((size for size, _ in seen), default=1)
    low = _scaled(count, spread, tail) if count else 0.0
    return low, _scaled(count + largest, spread + largest**2, 1 - tail)


def chance_of_any(count: int, expected: float, places: int) -> float:
    """The chance that at least one of so many places sees `count` events or more, where each expects this many.

    >>> round(chance_of_any(3, 0.1, 1), 6), round(chance_of_any(3, 0.1, 1000), 3), chance_of_any(0, 0.1, 5)
    (0.000155, 0.143, 1.0)
    """
    if count <= 0:
        return 1.0
    if expected <= 0:
        return 0.0
    alone = gamma_share(count, expected)
    return 1.0 if alone >= 1 else -math.expm1(places * math.log1p(-alone))


def _scaled(count: float, spread: float, share: float) -> float:
    """The quantile of a gamma distribution with this mean and variance."""
    return spread / count * gamma_quantile(count * count / spread, share)


def _front(shape: float, x: float) -> float:
    return math.exp(shape * math.log(x) - x - math.lgamma(shape))


def _series(shape: float, x: float) -> float:
    term = total = 1.0 / shape
    divisor = shape
    for _ in range(_MOST_TERMS):
        divisor += 1
        term *= x / divisor
        total += term
        if term < total * 1e-17:
            break
    return min(total * _front(shape, x), 1.0)


def _fraction(shape: float, x: float) -> float:
    """What lies above `x`, as a continued fraction by Lentz's method."""
    b = x + 1 - shape
    c = 1 / _TINY
    d = 1 / b
    value = d
    for i in range(1, _MOST_TERMS):
        numerator = -i * (i - shape)
        b += 2
        d = numerator * d + b
        d = 1 / (d if abs(d) > _TINY else _TINY)
        c = b + numerator / c
        c = c if abs(c) > _TINY else _TINY
        change = c * d
        value *= change
        if abs(change - 1) < 1e-16:
            break
    return min(max(value * _front(shape, x), 0.0), 1.0)
