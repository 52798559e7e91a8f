"""What it costs to have been wrong about the failures, or about the saves. Pure."""

import msgspec

from lastgood.core.interval_choice import SaveCost
from lastgood.plan.quantities import rounded
from lastgood.plan.situation import Situation
from lastgood.plan.solve import Solved, solve
from lastgood.plan.ways import Way, way_efficiency

ROUGH = 1.5
"""A rate that may be so many times higher is worth a word."""

FACTORS = (0.2, 0.5, 1.0, 2.0, 5.0)


class Wrong(msgspec.Struct, frozen=True):
    """Shares of the time that are lost if a figure is that many times as large as planned with."""

    factor: float
    lost_as_planned: float
    """The interval stays as it was planned."""
    lost_at_best: float
    """The interval is planned anew, with the true figure."""


def wrong_rates(s: Situation, solved: Solved) -> list[Wrong]:
    """Failures that many times as often. By the formulas, also where the plan itself was simulated."""
    return [_wrong(factor, s.with_rate(factor), solved, solved.way) for factor in FACTORS]


def wrong_saves(s: Situation, solved: Solved) -> list[Wrong]:
    """Saves whose stall and write take that many times as long."""
    return [_wrong(f, s.with_save(f), solved, _slower(solved.way, f)) for f in FACTORS]


def roughly_known(s: Situation, solved: Solved) -> str:
    """What a counted rate leaves open, in words; empty where that is little, or nothing was counted."""
    low, rate, high = (
        s.failures.low_per_1000_node_days,
        s.failures.per_1000_node_days,
        s.failures.high_per_1000_node_days,
    )
    if low is None or high is None or high < ROUGH * rate or s.every_s is not None:
        return ""
    ends = []
    for end in (max(low, rate / 100), high):
        best = solve(msgspec.structs.replace(s.with_rate(end / rate), most_lost_s=None), way=solved.way)
        ends.append(f"every {rounded(best.interval_s)} ({100 * (1 - best.formula_efficiency):.1f} % lost)")
    return f"the failure rate is roughly known: at its ends the best is {ends[0]} and {ends[1]}"


def _wrong(factor: float, truth: Situation, solved: Solved, way: Way) -> Wrong:
    planned = way_efficiency(way, solved.interval_s, truth)
    # What was tolerated and stated stays out of it: it would refuse some of these.
    free = msgspec.structs.replace(truth, most_lost_s=None, every_s=None)
    best = solve(free, way=way).formula_efficiency
    return Wrong(factor, 1 - planned, 1 - max(best, planned))


def _slower(way: Way, factor: float) -> Way:
    save = SaveCost(way.stall_s * factor, way.write_s * factor)
    promotion = way.promotion
    if promotion is not None:
        promotion = msgspec.structs.replace(promotion, write_s=promotion.write_s * factor)
    return msgspec.structs.replace(way, stall_s=save.stall_s, write_s=save.write_s, promotion=promotion)
