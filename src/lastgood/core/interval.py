"""How long to work between two saves: the formulas, their exact form, and what an interval costs. Pure.

Everything is in seconds. Failures strike a job of mean time to interruption (MTTI) M at random (exponential
times); a save stops the loop for its cost C. An *interval* is the work between two saves; a *period* is an
interval plus the stall of its save. Papers mix the two: every function here returns intervals.

| formula | interval | good for |
|---|---|---|
| Young 1974 | sqrt(2CM) | C far below M; mental arithmetic |
| Daly, first order | sqrt(2C(M+R)) | comparison with older tables |
| Aupy, first order | sqrt(2C(M-D-R)) - C | C + D + R far below M |
| Daly 2006, higher order | a series in sqrt(C/2M) | all C < 2M |
| exact | Lambert's function | everything: this is what we use |

For asynchronous saves C is the *stall* alone. A failure then costs half an interval, the lag of the write
(its snapshot does not count until it is committed), and detection and restart. Under exponential failures
lag, detection and restart multiply the efficiency by a constant: they change what a failure costs, not
which interval is best.
"""

import math

import msgspec


def young_interval_s(cost_s: float, mtti_s: float) -> float:
    """Young's first-order optimum, sqrt(2CM), in seconds of work between two saves.

    Valid for `cost_s` far below `mtti_s`; always a little longer than the exact optimum.
    Source: J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 1974.

    >>> round(young_interval_s(60, 86400), 1)
    3219.9
    """
    _check(cost_s, mtti_s)
    return math.sqrt(2 * cost_s * mtti_s)


def daly_first_order_interval_s(cost_s: float, mtti_s: float, restart_s: float = 0.0) -> float:
    """Daly's first-order optimum, sqrt(2C(M+R)), in seconds of work between two saves.

    `restart_s` is all that follows a failure: detection, downtime, reading the checkpoint. Counting it
    lengthens the interval, which the exact optimum does not do: for comparison with published tables.
    Source: J. T. Daly, as G. Aupy et al. quote it.

    >>> round(daly_first_order_interval_s(600, 7519, restart_s=660) + 600)
    3733
    """
    _check(cost_s, mtti_s, restart_s)
    return math.sqrt(2 * cost_s * (mtti_s + restart_s))


def refined_first_order_interval_s(cost_s: float, mtti_s: float, restart_s: float = 0.0) -> float:
    """Aupy's first-order optimum, sqrt(2C(M-R)) - C, in seconds of work between two saves.

    It maximises (1 - C/P)(1 - (R + P/2)/M) over the period P. Zero where restart_s reaches mtti_s or the
    cost exceeds the period: there the formula has nothing to say.
    Source: G. Aupy, Y. Robert, F. Vivien, D. Zaidouni, "Checkpointing algorithms and fault prediction", JPDC
    2014 (there: RFO).

    >>> round(refined_first_order_interval_s(600, 7519, restart_s=660) + 600)
    2869
    """
    _check(cost_s, mtti_s, restart_s)
    return max(math.sqrt(2 * cost_s * max(mtti_s - restart_s, 0.0)) - cost_s, 0.0)


def daly_interval_s(cost_s: float, mtti_s: float) -> float:
    """Daly's higher-order optimum, in seconds of work between two saves; mtti_s where the cost is 2M or more.

    With x = sqrt(C/2M): 2M (x - 2x^2/3 + x^3/9). It is the beginning of the exact optimum's series, and
    within 1 % of it up to C = M/2; beyond, it jumps from 0.89 M to M at C = 2M.
    Source: J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps",
    Future Generation Computer Systems 22, 2006, equation 37.

    >>> round(daly_interval_s(60, 86400), 1), round(daly_interval_s(300, 28440), 1)
    (3180.1, 3933.3)
    """
    _check(cost_s, mtti_s)
    if cost_s >= 2 * mtti_s:
        return mtti_s
    if math.isinf(mtti_s):
        return young_interval_s(cost_s, mtti_s)
    x = math.sqrt(cost_s / (2 * mtti_s))
    return math.sqrt(2 * cost_s * mtti_s) * (1 + x / 3 + x * x / 9) - cost_s


def exact_interval_s(cost_s: float, mtti_s: float) -> float:
    """The optimum for exponential failures, in seconds of work between two saves. No approximation.

    It maximises `efficiency`, whatever restart, detection and lag are: the root in (0, M) of
    I/M = 1 - exp(-(I + C)/M), which is M (1 + W(-exp(-1 - C/M))) with Lambert's W. Never longer than the MTTI.
    Limit: failures without memory; with wear or infant mortality it is near the optimum, not on it.
    Source: Daly 2006, who expands it; G. Aupy et al., table 2 (there: OPT, as a period).

    >>> round(exact_interval_s(600, 7519) + 600), exact_interval_s(0, 7519)
    (3218, 0.0)
    """
    _check(cost_s, mtti_s)
    if cost_s == 0 or math.isinf(mtti_s):
        return young_interval_s(cost_s, mtti_s)
    c = cost_s / mtti_s
    if c < 1e-9:
        # Here the series is exact to the last digit, and the equation below cancels.
        return daly_interval_s(cost_s, mtti_s)
    # Newton from above: the left side minus the right is convex and increasing from there down to the root.
    w = min(math.sqrt(2 * c), 1.0)
    for _ in range(100):
        step = (w + math.expm1(-(w + c))) / -math.expm1(-(w + c))
        w -= step
        if abs(step) <= 1e-15 * w:
            break
    return w * mtti_s


def efficiency(
    interval_s: float,
    stall_s: float,
    mtti_s: float,
    *,
    lag_s: float = 0.0,
    detection_s: float = 0.0,
    restart_s: float = 0.0,
) -> float:
    """Share of the wall time that is work which is never done again, 0 to 1, under exponential failures.

    With the period P = interval + stall: I exp(-(lag + restart)/M) / ((M + detection)(exp(P/M) - 1)).
    A snapshot counts once its write is committed, `lag_s` after the loop went on; 0 for synchronous saves.
    `detection_s` (nothing can fail any more) includes downtime; a failure during `restart_s` restarts it.
    To first order the share that is lost is stall/P + (P/2 + lag + detection + restart)/M.
    Limit: one write at a time, so lag_s <= P; ValueError otherwise.
    Source: for lag 0 Daly 2006 and G. Aupy et al.; the lag enters like a restart (E[commits before a failure] =
    exp(-lag/M)/(exp(P/M) - 1)).

    >>> round(efficiency(2618, 600, 7519, detection_s=60, restart_s=600), 4)
    0.5971
    """
    _check(stall_s, mtti_s, lag_s, detection_s, restart_s)
    period_s = interval_s + stall_s
    if not interval_s >= 0 or lag_s > period_s:
        raise ValueError(f"an interval of {interval_s} s with a stall of {stall_s} s and a lag of {lag_s} s")
    if interval_s == 0:
        return 0.0
    if math.isinf(interval_s):
        return 1.0 if math.isinf(mtti_s) else 0.0
    # As a product of shares: nothing overflows, and rounding takes none of them above 1.
    x = period_s / mtti_s
    without_repeated = (x / math.expm1(x) if x > 0 else 1.0) if x < 700 else 0.0
    after_failures = 1 / (1 + detection_s / mtti_s) * math.exp(-(lag_s + restart_s) / mtti_s)
    return interval_s / period_s * without_repeated * after_failures


def lost_per_failure_s(
    interval_s: float, *, lag_s: float = 0.0, detection_s: float = 0.0, restart_s: float = 0.0
) -> float:
    """Mean time that one failure costs: half an interval, the write's lag, detection and restart.

    First order (interval far below the MTTI); times the number of devices it is what a cluster loses.

    >>> 16384 * lost_per_failure_s(30 * 60) / 3600
    4096.0
    """
    _check(0.0, math.inf, interval_s, lag_s, detection_s, restart_s)
    return interval_s / 2 + lag_s + detection_s + restart_s


def ettr(interval_s: float, write_s: float, restart_s: float, mtti_s: float) -> float:
    """Effective training time ratio as Kokolis et al. estimate it: (1 - (u0 + T/2)/M) / (1 + w/T), at least 0.

    T is the interval, w the time that the loop stands still for a save, u0 the restart; 1/M = N r_f for N
    nodes of failure rate r_f. Waiting in a queue does not count. First order in T/M: it reaches 0 at
    T/2 + u0 = M, where `efficiency` is still well above.
    Source: A. Kokolis et al., HPCA 2025, arXiv 2410.21680.

    >>> mtti_s = 86400 / (2048 * 6.50 / 1000)
    >>> round(ettr(3600, 0, 300, mtti_s), 3), round(ettr(300, 0, 300, mtti_s), 3)
    (0.676, 0.931)
    """
    _check(write_s, mtti_s, restart_s)
    if not interval_s > 0:
        raise ValueError(f"an interval of {interval_s} s")
    return max(1 - (restart_s + interval_s / 2) / mtti_s, 0.0) / (1 + write_s / interval_s)


class TwoLevels(msgspec.Struct, frozen=True):
    near_interval_s: float
    far_interval_s: float
    overhead: float
    """Share of the time that saves and repeated work take, first order, without restarts."""


def two_level_intervals(near_cost_s: float, near_mtti_s: float, far_cost_s: float, far_mtti_s: float) -> TwoLevels:
    """Best intervals for cheap saves nearby (memory, a node's disk) and dear ones far off (shared storage).

    `near_mtti_s` is between failures that a near save survives, `far_mtti_s` between those that need a far
    one. The levels do not touch each other to first order: each has its Young interval, and the overhead is
    the sum of sqrt(2C/M). Valid while both costs are far below their MTTI and near saves come more often.
    Source: A. Benoit, A. Cavelan, V. Le Fevre, Y. Robert, H. Sun, "Towards optimal multi-level
    checkpointing", IEEE Transactions on Computers 2017.

    >>> best = two_level_intervals(5, 4 * 3600, 120, 48 * 3600)
    >>> round(best.near_interval_s), round(best.far_interval_s), round(best.overhead, 4)
    (379, 6440, 0.0636)
    """
    near, far = young_interval_s(near_cost_s, near_mtti_s), young_interval_s(far_cost_s, far_mtti_s)
    overhead = math.sqrt(2 * near_cost_s / near_mtti_s) + math.sqrt(2 * far_cost_s / far_mtti_s)
    return TwoLevels(near, far, overhead)


def _check(cost_s: float, mtti_s: float, *durations_s: float) -> None:
    if not mtti_s > 0:
        raise ValueError(f"a mean time to interruption of {mtti_s} s")
    for value in (cost_s, *durations_s):
        if not 0 <= value < math.inf:
            raise ValueError(f"a duration of {value} s")
