"""From a situation to an interval and what it costs. Pure; the simulation that it may ask for is seeded."""

import math
from collections.abc import Callable
from enum import StrEnum

import msgspec

from lastgood.core import interval as formulas
from lastgood.core.errors import UsageError
from lastgood.core.interval_choice import SOUND_FRACTION_OF_MTTI, Bound, Choice, Limits, SaveCost, choose_interval
from lastgood.core.pace import LEAST_FRACTION_OF_MTTI, LEAST_S
from lastgood.core.reliability import DAY_S
from lastgood.plan.quantities import rounded
from lastgood.plan.situation import Situation
from lastgood.plan.ways import Way, loss_after_failure_s, way_efficiency, ways_of

WEEK_S = 7 * DAY_S

NOTABLE_GAIN = 0.005
"""A way of saving that gains less than this share of the time is not worth a change."""


class Decided(StrEnum):
    """What decided the interval."""

    OPTIMUM = Bound.OPTIMUM.value
    MOST = "tolerated loss"
    LEAST = Bound.LEAST.value
    WRITE_SHARE = Bound.WRITE_SHARE.value
    BANDWIDTH = Bound.BANDWIDTH.value
    STATED = "stated"
    SIMULATED = "simulation"


class Candidate(msgspec.Struct, frozen=True):
    """What one formula or bound says of the interval."""

    name: str
    formula: str
    interval_s: float


class Simulated(msgspec.Struct, frozen=True):
    """What the simulation of the situation came to, where the formulas are not trusted alone."""

    why: str
    efficiency: float
    efficiency_error: float
    lost_per_failure_s: float
    lost_error_s: float
    failures: int


class Solved(msgspec.Struct, frozen=True, kw_only=True):
    """An interval, why, and what it costs. Shares are of the time from the begin to the end, waiting included."""

    way: Way
    interval_s: float
    decided: Decided
    reason: str
    optimum_s: float
    candidates: list[Candidate]
    bounds: list[Candidate]
    efficiency: float
    """By the simulation where there is one."""
    formula_efficiency: float
    save_share: float
    rework_s: float
    """Mean work to be done again after one interruption."""
    lost_per_failure_s: float
    """Rework, detection, queue and restart: what one interruption costs."""
    failures_per_week: float
    ettr: float
    doubts: list[str]
    simulated: Simulated | None = None

    @property
    def lost_per_week_s(self) -> float:
        return self.failures_per_week * self.lost_per_failure_s


Simulator = Callable[[Way, float, Situation], Simulated]
"""Walks a situation with a way and an interval; `why` is left empty."""

Searcher = Callable[[Way, float, Situation], float]
"""The best interval near another one, as simulated."""


def solve(
    s: Situation, *, simulator: Simulator | None = None, searcher: Searcher | None = None, way: Way | None = None
) -> Solved:
    """The best plan of those that lastgood offers, or of one way. Raises UsageError where no interval fits.

    The first way stands unless another one gains half a percent of the time.
    """
    if way is None:
        offered = [one for one in ways_of(s) if one.is_offered]
        tried = [_solved(s, one, None, None) for one in offered]
        way = tried[0].way
        best = max(tried, key=lambda one: one.formula_efficiency)
        if best.formula_efficiency - tried[0].formula_efficiency > NOTABLE_GAIN:
            way = best.way
    return _solved(s, way, simulator, searcher)


def _solved(s: Situation, way: Way, simulator: Simulator | None, searcher: Searcher | None) -> Solved:
    mtti_s = s.mtti_s
    limits = _limits(s, way)
    choice = choose_interval(SaveCost(way.stall_s, way.write_s, s.save.bytes), _near_mtti_s(s, way), limits)
    interval_s, decided, reason = choice.interval_s, _decided(choice.bound), choice.reason
    if choice.bound is Bound.WRITE_SHARE:
        reason = f"a write of {rounded(way.write_s)} may take {100 * limits.max_write_share:.3g} % of the time"
    if choice.bound is Bound.MOST:
        reason = f"no more than {rounded(s.most_lost_s or 0)} may be lost at once"
    why = _why_simulate(s, way, interval_s if s.every_s is None else s.every_s)
    if s.failures.shape != 1 and searcher is not None and s.every_s is None:
        searched_s = searcher(way, interval_s, s)
        floor_s = max(one.interval_s for one in _bounds(s, way, limits) if one.name != Decided.MOST.value)
        if floor_s < searched_s < limits.most_s:
            interval_s, decided, reason = searched_s, Decided.SIMULATED, "least loss in the simulation"
    if s.every_s is not None:
        interval_s, decided, reason = s.every_s, Decided.STATED, "as stated (--every)"
    formula = way_efficiency(way, interval_s, s)
    simulated = None
    if why and simulator is not None:
        simulated = msgspec.structs.replace(simulator(way, interval_s, s), why=why)
    period_s = interval_s + way.stall_s
    # All time that is neither kept work nor its saves, for each interruption: exact where the efficiency is.
    lost_s = (mtti_s + s.down_s) * max(1 - formula * period_s / interval_s, 0.0)
    if simulated is not None:
        lost_s = simulated.lost_per_failure_s
    return Solved(
        way=way,
        interval_s=interval_s,
        decided=decided,
        reason=reason,
        optimum_s=formulas.exact_interval_s(way.stall_s, _near_mtti_s(s, way)),
        candidates=_candidates(s, way),
        bounds=_bounds(s, way, limits),
        efficiency=formula if simulated is None else simulated.efficiency,
        formula_efficiency=formula,
        save_share=way.stall_s / period_s,
        rework_s=loss_after_failure_s(way, interval_s),
        lost_per_failure_s=lost_s,
        failures_per_week=WEEK_S / (mtti_s + s.down_s),
        ettr=_ettr(s, way, interval_s),
        doubts=_doubts(s, way, interval_s, choice, formula, simulated),
        simulated=simulated,
    )


def _ettr(s: Situation, way: Way, interval_s: float) -> float:
    """As Kokolis et al. have it; with two levels, what is to be done again stands for half an interval."""
    after_s = s.detection_s + s.restart_s
    if way.promotion is not None:
        after_s += loss_after_failure_s(way, interval_s) - interval_s / 2
    return formulas.ettr(interval_s, way.stall_s, after_s, s.mtti_s)


def _near_mtti_s(s: Situation, way: Way) -> float:
    """Between the failures that the way's own checkpoints survive: those set the interval."""
    if way.promotion is None:
        return s.mtti_s
    return s.mtti_s / max(1 - way.promotion.share, 1e-3)


def _limits(s: Situation, way: Way) -> Limits:
    most_s = math.inf
    if s.most_lost_s is not None:
        most_s = s.most_lost_s - way.write_s - s.detection_s
        if most_s <= 0:
            raise UsageError(
                f"no interval loses less than {rounded(s.most_lost_s)} at once: a write takes {rounded(way.write_s)} until "
                f"it counts, and a failure {rounded(s.detection_s)} until it is seen",
                remedy="tolerate more (--most-lost), or find a faster write or detection",
            )
    least_s = min(LEAST_S, LEAST_FRACTION_OF_MTTI * s.mtti_s, most_s)
    share = s.usual_write_share
    if s.max_write_share is None and way.write_s / share - way.stall_s > most_s:
        # What somebody has said goes before what nobody has.
        share = min(way.write_s / (most_s + way.stall_s), 1.0)
    return Limits(share, s.max_bytes_per_s, least_s, most_s)


def _decided(bound: Bound) -> Decided:
    return Decided.MOST if bound is Bound.MOST else Decided(bound.value)


def _candidates(s: Situation, way: Way) -> list[Candidate]:
    c, m, after_s = way.stall_s, _near_mtti_s(s, way), s.down_s + s.restart_s
    return [
        Candidate("Young", "√(2CM)", formulas.young_interval_s(c, m)),
        Candidate("Daly 1st order", "√(2C(M+D+R))", formulas.daly_first_order_interval_s(c, m, after_s)),
        Candidate("Aupy 1st order", "√(2C(M-D-R)) - C", formulas.refined_first_order_interval_s(c, m, after_s)),
        Candidate("Daly 2006", "√(2CM)(1 + √(C/2M)/3 + C/18M) - C", formulas.daly_interval_s(c, m)),
        Candidate("exact", "I/M = 1 - exp(-(I+C)/M)", formulas.exact_interval_s(c, m)),
    ]


def _bounds(s: Situation, way: Way, limits: Limits) -> list[Candidate]:
    found = [
        Candidate(
            Decided.WRITE_SHARE.value,
            f"write/{100 * limits.max_write_share:.3g} % - stall, or more",
            way.write_s / limits.max_write_share - way.stall_s,
        ),
        Candidate(Decided.LEAST.value, "60 s or M/100, or more", limits.least_s),
    ]
    if limits.max_bytes_per_s is not None:
        longest_s = s.save.bytes / limits.max_bytes_per_s - way.stall_s
        found.append(Candidate(Decided.BANDWIDTH.value, "bytes/bandwidth - stall, or more", longest_s))
    if s.most_lost_s is not None:
        found.append(Candidate(Decided.MOST.value, "tolerated - write - detection, or less", limits.most_s))
    return found


def _why_simulate(s: Situation, way: Way, interval_s: float) -> str:
    if s.failures.shape != 1:
        return f"failures with memory (Weibull, shape {s.failures.shape:g}) have no closed formula"
    if way.write_s > interval_s + way.stall_s:
        return "a write is not done before the next one is due"
    exposed_s = interval_s + way.write_s
    if exposed_s > SOUND_FRACTION_OF_MTTI * s.mtti_s:
        return (
            f"an interval and its write ({rounded(exposed_s)}) are {100 * exposed_s / s.mtti_s:.0f} % of the mean time "
            f"between interruptions: first-order formulas end at {100 * SOUND_FRACTION_OF_MTTI:.0f} %"
        )
    if s.restart_s > SOUND_FRACTION_OF_MTTI * s.mtti_s:
        return f"a restart of {rounded(s.restart_s)} is near the mean time between interruptions"
    return ""


def _why_not_kept(s: Situation, way: Way, choice: Choice) -> str:
    if s.every_s is not None:
        return "that interval was stated"
    if way.promotion is not None:
        return "other nodes go on from what was promoted"
    return choice.reason


def _doubts(
    s: Situation, way: Way, interval_s: float, choice: Choice, formula: float, simulated: Simulated | None
) -> list[str]:
    doubts = []
    worst_s = interval_s + way.write_s + s.detection_s
    if way.promotion is not None and way.promotion.share > 0:
        far = way.promotion
        worst_s = max(worst_s, max(far.interval_s, interval_s) + far.write_s + s.detection_s)
    if s.most_lost_s is not None and worst_s > s.most_lost_s * (1 + 1e-9):
        doubts.append(
            f"{rounded(s.most_lost_s)} of tolerated loss is not kept: up to {rounded(worst_s)} is lost at once, because "
            f"{_why_not_kept(s, way, choice)}"
        )
    if s.every_s is None:
        best_s = formulas.exact_interval_s(way.stall_s, _near_mtti_s(s, way))
        best = way_efficiency(way, best_s, s) if best_s and best_s + way.stall_s >= way.write_s else 0.0
        # What a bound costs is known for failures without memory.
        is_told = choice.bound is not Bound.OPTIMUM and s.failures.shape == 1
        if best - formula > NOTABLE_GAIN and is_told:
            cost = f"the bound costs {100 * (best - formula):.1f} % of the time: without it, every {rounded(best_s)}"
            doubts.append(f"{cost} (--max-write-share 100%)" if choice.bound is Bound.WRITE_SHARE else cost)
    else:
        best = way_efficiency(way, choice.interval_s, s)
        if best - formula > NOTABLE_GAIN:
            doubts.append(
                f"every {rounded(choice.interval_s)} ({choice.bound.value}) would lose {100 * (1 - best):.1f} %"
            )
    reached = formula if simulated is None else simulated.efficiency
    if way.write_s > s.mtti_s:
        doubts.append(
            f"a write of {rounded(way.write_s)} is longer than the job lives ({rounded(s.mtti_s)}): hardly one is ever done"
        )
    if reached < 0.5:
        doubts.append("more than half of the time is lost: faster saves and restarts help more than any interval")
    return doubts
