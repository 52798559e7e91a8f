"""A situation and a way of saving, as the simulation takes them. NumPy is imported when something is simulated."""

from typing import TYPE_CHECKING

from lastgood.plan.situation import Situation
from lastgood.plan.solve import Simulated
from lastgood.plan.ways import Way

if TYPE_CHECKING:
    from lastgood.plan.simulate import Walk

FAILURES = 20_000
SEARCHED = 4_000
"""For each candidate: all see the same failures, so that they can be told apart by fewer."""

SEEDED = 1


def walk_of(way: Way, interval_s: float, s: Situation) -> "Walk":
    from lastgood.plan.simulate import Far, Walk

    far = None
    if way.promotion is not None:
        far = Far(way.promotion.write_s, way.promotion.interval_s, way.promotion.share)
    return Walk(
        interval_s=interval_s,
        stall_s=way.stall_s,
        lag_s=way.lag_s,
        mtti_s=s.mtti_s,
        shape=s.failures.shape,
        down_s=s.down_s,
        restart_s=s.restart_s,
        far=far if far is not None and far.share > 0 else None,
    )


def simulated(way: Way, interval_s: float, s: Situation) -> Simulated:
    """Walk it, always with the same seed: the same situation gives the same plan."""
    from lastgood.plan.simulate import simulate

    found = simulate(walk_of(way, interval_s, s), failures=FAILURES, seed=SEEDED)
    return Simulated(
        "", found.efficiency, found.efficiency_error, found.lost_per_failure_s, found.lost_error_s, found.failures
    )


def searched_s(way: Way, near_s: float, s: Situation) -> float:
    """The best interval from a third to three times of another one: memory does not move it further."""
    from lastgood.plan.simulate import best_interval_s

    return best_interval_s(walk_of(way, near_s, s), near_s / 3, near_s * 3, failures=SEARCHED, seed=SEEDED)
