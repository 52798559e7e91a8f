"""The simulation and the formulas agree over a grid of situations, and a wrong formula would be seen."""

import itertools
import math
import statistics

import numpy as np
import pytest

from lastgood.core.interval import efficiency, ettr, exact_interval_s
from lastgood.core.interval_choice import SaveCost
from lastgood.plan.simulate import Far, Walk, _Jobs, best_interval_s, simulate
from lastgood.plan.situation import Failures, Situation
from lastgood.plan.walking import walk_of
from lastgood.plan.ways import Promotion, Way, way_efficiency

GRID = [
    Walk(interval_s=exact_interval_s(c * m, m), stall_s=c * m, lag_s=lag, mtti_s=m, down_s=down, restart_s=restart)
    for m, c, (lag, down, restart) in itertools.product(
        (3600.0, 100_000.0), (0.001, 0.02, 0.2), ((0, 0, 0), (0, 600, 60), (90, 60, 300))
    )
]
"""MTTI, stall as a part of it, and (lag, down, restart): from a quiet job to one that is interrupted within a save."""


def formula(walk: Walk) -> float:
    return efficiency(
        walk.interval_s,
        walk.stall_s,
        walk.mtti_s,
        lag_s=walk.lag_s,
        detection_s=walk.down_s,
        restart_s=walk.restart_s,
    )


def survival(walk: Walk, at_s: float) -> float:
    scale = walk.mtti_s / math.gamma(1 + 1 / walk.shape)
    return math.exp(-((at_s / scale) ** walk.shape))


def renewal_efficiency(walk: Walk) -> float:
    """For any distribution that is drawn anew after each failure: E[commits of a life] = sum of survival at each commit."""
    period = walk.interval_s + walk.stall_s
    commits, n = 0.0, 1
    while (alive := survival(walk, walk.restart_s + n * period + walk.lag_s)) > 1e-12:
        commits, n = commits + alive, n + 1
    return walk.interval_s * commits / (walk.mtti_s + walk.down_s)


@pytest.mark.parametrize("walk", GRID, ids=lambda w: f"M{w.mtti_s:.0f}-C{w.stall_s:.0f}-L{w.lag_s}-R{w.restart_s}")
def test_formula_and_simulation_agree(walk: Walk) -> None:
    found = simulate(walk, failures=10_000, seed=5)
    assert found.agrees_with(formula(walk)), f"{found} against {formula(walk):.4f}"
    assert found.efficiency_error < 0.02, "an interval this wide would agree with anything"


@pytest.mark.slow
def test_its_error_is_honest() -> None:
    """Over many seeds the distance to the formula is what the interval promises: centred, and as wide as it says."""
    walk = Walk(interval_s=300, stall_s=5, lag_s=100, mtti_s=7200, down_s=60, restart_s=300)
    found = [simulate(walk, failures=3000, seed=seed) for seed in range(60)]
    distances = [2.576 * (one.efficiency - formula(walk)) / one.efficiency_error for one in found]
    assert abs(statistics.mean(distances)) < 3 / math.sqrt(60)
    assert 0.75 < statistics.stdev(distances) < 1.3


def without_lag(w: Walk) -> float:
    return efficiency(w.interval_s, w.stall_s, w.mtti_s, detection_s=w.down_s, restart_s=w.restart_s)


def restart_cannot_fail(w: Walk) -> float:
    return efficiency(w.interval_s, w.stall_s, w.mtti_s, lag_s=w.lag_s, detection_s=w.down_s + w.restart_s)


def down_time_can_fail(w: Walk) -> float:
    return efficiency(w.interval_s, w.stall_s, w.mtti_s, lag_s=w.lag_s, restart_s=w.down_s + w.restart_s)


def whole_interval_lost(w: Walk) -> float:
    return formula(w) - w.interval_s / 2 / w.mtti_s


def first_order(w: Walk) -> float:
    return ettr(w.interval_s, w.stall_s, w.restart_s + w.down_s, w.mtti_s)


@pytest.mark.parametrize(
    "wrong", [without_lag, restart_cannot_fail, down_time_can_fail, whole_interval_lost, first_order]
)
def test_a_wrong_formula_is_seen(wrong) -> None:
    walk = Walk(interval_s=500, stall_s=60, lag_s=300, mtti_s=3600, down_s=900, restart_s=600)
    found = simulate(walk, failures=20_000, seed=5)
    assert found.agrees_with(formula(walk))
    assert not found.agrees_with(wrong(walk))


def test_the_same_seed_gives_the_same_walk_and_another_one_does_not() -> None:
    walk = GRID[4]
    assert simulate(walk, failures=2000, seed=3) == simulate(walk, failures=2000, seed=3)
    assert simulate(walk, failures=2000, seed=3) != simulate(walk, failures=2000, seed=4)


def test_a_failure_costs_what_is_left_of_its_time() -> None:
    walk = Walk(interval_s=1800, stall_s=60, lag_s=300, mtti_s=20_000, down_s=600, restart_s=120)
    found = simulate(walk, failures=20_000, seed=5)
    kept = formula(walk) * (walk.mtti_s + walk.down_s)
    lost = walk.mtti_s + walk.down_s - kept * 1860 / 1800
    assert found.lost_per_failure_s == pytest.approx(lost, abs=found.lost_error_s)
    first = 1800 / 2 + 300 + 600 + 120
    assert found.lost_per_failure_s == pytest.approx(first, rel=0.05)


@pytest.mark.parametrize("shape", [0.6, 0.8, 1.5])
@pytest.mark.parametrize("restart", [0.0, 300.0])
def test_failures_with_memory_agree_with_the_sum_over_commits(shape: float, restart: float) -> None:
    walk = Walk(interval_s=900, stall_s=60, lag_s=60, mtti_s=7200, shape=shape, down_s=60, restart_s=restart)
    found = simulate(walk, failures=20_000, seed=5)
    assert found.agrees_with(renewal_efficiency(walk))
    if shape != 0.8:
        assert not found.agrees_with(formula(walk)), "the formula without memory is off here, which is why this exists"


def test_of_the_same_mean_bursts_leave_more_quiet_time() -> None:
    """With few long lives most work is done in them; the optimum of the formula is not far off all the same."""
    bursty = Walk(interval_s=900, stall_s=60, mtti_s=7200, shape=0.6)
    assert renewal_efficiency(bursty) > formula(bursty)


@pytest.mark.slow
def test_the_search_finds_the_optimum_of_the_formula() -> None:
    walk = Walk(interval_s=1.0, stall_s=120, mtti_s=7200, restart_s=60)
    best = exact_interval_s(120, 7200)
    found = best_interval_s(walk, best / 5, best * 5, failures=6000, seed=5)
    assert found == pytest.approx(best, rel=0.25)
    loss = efficiency(best, 120, 7200, restart_s=60) - efficiency(found, 120, 7200, restart_s=60)
    assert loss < 0.003


@pytest.mark.slow
def test_detection_does_not_move_the_optimum() -> None:
    """CASES: detection of 0 s against 600 s. It costs its share of the time, and the best interval stays where it is."""
    walks = [Walk(interval_s=1.0, stall_s=60, mtti_s=14400, down_s=down) for down in (0, 600)]
    at = [best_interval_s(walk, 300, 6000, failures=6000) for walk in walks]
    assert at[1] == pytest.approx(at[0], rel=0.02)
    quick, slow = (simulate(Walk(interval_s=1275, stall_s=60, mtti_s=14400, down_s=down)) for down in (0, 600))
    assert slow.efficiency == pytest.approx(quick.efficiency / (1 + 600 / 14400), abs=1e-3)
    assert slow.lost_per_failure_s - quick.lost_per_failure_s == pytest.approx(600, abs=1e-6)


def test_storage_takes_one_write_at_a_time() -> None:
    """A save that is due while a write is under way waits, and the loop with it."""
    walk = Walk(interval_s=100, stall_s=5, lag_s=295, mtti_s=36_000)
    as_if = efficiency(100, 200, 36_000, lag_s=100)
    found = simulate(walk, failures=4000, seed=5)
    # 100 s of work in 300 s: a write takes 300 s from its safe point.
    assert found.efficiency == pytest.approx(1 / 3, abs=0.01)
    assert found.efficiency == pytest.approx(as_if, abs=0.01)


def two_levels(q: float, mtti_s: float) -> tuple[Way, Situation]:
    way = Way("test", 5.0, 20.0, True, "", Promotion(write_s=120, interval_s=1230, share=q))
    s = Situation(
        save=SaveCost(5.0, 120.0), save_source="", failures=Failures(mtti_s=mtti_s), detection_s=60.0, restart_s=120.0
    )
    return way, s


@pytest.mark.slow
@pytest.mark.parametrize("mtti_s", [7200.0, 28_800.0])
@pytest.mark.parametrize("q", [0.1, 0.5, 1.0])
def test_two_levels(q: float, mtti_s: float) -> None:
    """A promoted checkpoint every six periods of 205 s; a share q of the failures needs one."""
    way, s = two_levels(q, mtti_s)
    found = simulate(walk_of(way, 200.0, s), failures=20_000, seed=5)
    assert found.efficiency == pytest.approx(way_efficiency(way, 200.0, s), abs=0.005)
    if q != 0.5:
        assert abs(found.efficiency - way_efficiency(two_levels(1 - q, mtti_s)[0], 200.0, s)) > 0.01


@pytest.mark.slow
def test_where_all_failures_need_the_far_level_the_near_one_is_worth_nothing() -> None:
    far = Far(write_s=120, interval_s=1200, share=1.0)
    near = [simulate(Walk(interval_s=i, stall_s=0, mtti_s=14_400, far=far), failures=20_000) for i in (100, 600)]
    assert near[0].efficiency == pytest.approx(near[1].efficiency, abs=0.01)


@pytest.mark.parametrize("shape", [0.5, 1.0])
@pytest.mark.parametrize("lag", [0.0, 30.0, 450.0])
@pytest.mark.parametrize(
    "far",
    [
        None,
        Far(write_s=120, interval_s=1230, share=0.3),
        Far(write_s=2000, interval_s=600, share=0.5),
        Far(write_s=10, interval_s=40_000, share=0.5),
        Far(write_s=500, interval_s=205, share=1.0),
    ],
)
def test_what_repeats_is_passed_over_as_if_it_were_walked(
    shape: float, lag: float, far: Far | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = Walk(interval_s=200, stall_s=5, lag_s=lag, mtti_s=10_000, shape=shape, down_s=60, restart_s=90.5, far=far)

    def walked() -> list[float]:
        # Of a single job, so that chance is drawn in the same order.
        state = _Jobs(walk, 1, 12, np.random.default_rng(7))
        while state.advance():
            pass
        return [float(one[0]) for one in (state.passed_s, state.kept_s, state.kept_saves, state.failures)]

    quick = walked()
    monkeypatch.setattr(_Jobs, "_skip", lambda *arguments: None)
    assert quick == pytest.approx(walked(), rel=1e-9)


@pytest.mark.parametrize("shape", [0.2, 1.0])
def test_however_long_nothing_happens_as_many_failures_are_walked_as_were_asked_for(shape: float) -> None:
    walk = Walk(interval_s=20, stall_s=1, mtti_s=30 * 86400, shape=shape)
    found = simulate(walk, failures=20_000)
    assert found.failures >= 20_000
    assert found.efficiency == pytest.approx(20 / 21, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("q", [0.002, 0.01])
def test_where_hardly_any_failure_needs_the_far_level_it_still_costs_what_it_should(q: float) -> None:
    way, s = two_levels(q, 7200.0)
    found = simulate(walk_of(way, 200.0, s), failures=20_000, seed=5)
    assert found.efficiency == pytest.approx(way_efficiency(way, 200.0, s), abs=0.003)
    assert found.failures < 40_000


def test_work_that_never_gets_to_the_far_level_is_lost_however_seldom_it_is_needed() -> None:
    walk = Walk(interval_s=20, stall_s=1, mtti_s=300, far=Far(write_s=6000, interval_s=60_000, share=0.02))
    assert simulate(walk, failures=5000, seed=5).efficiency == 0


def test_no_interval_is_refused() -> None:
    with pytest.raises(ValueError, match="interval"):
        simulate(Walk(interval_s=0, stall_s=1, mtti_s=100))
