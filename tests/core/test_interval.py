"""The interval formulas: published numbers, scaling laws, and a numerical check that the optimum is one."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.core.interval import (
    daly_first_order_interval_s,
    daly_interval_s,
    efficiency,
    ettr,
    exact_interval_s,
    lost_per_failure_s,
    refined_first_order_interval_s,
    two_level_intervals,
    young_interval_s,
)
from lastgood.core.reliability import mtti_of_nodes_s

HOUR_S = 3600.0
DAY_S = 86400.0

FORMULAS = [
    young_interval_s,
    daly_first_order_interval_s,
    refined_first_order_interval_s,
    daly_interval_s,
    exact_interval_s,
]

mttis = st.floats(60, 1e8)
fractions = st.floats(1e-9, 0.2)
"""Of the MTTI: costs for which every formula is meant."""


@pytest.mark.parametrize(
    ("cost", "mtti", "young", "daly"),
    [
        (60, 86400, 3219.9, 3180.1),
        (300, 86400, 7200.0, 7001.4),
        (600, 86400, 10182.3, 9786.3),
        (300, 28440, 4130.9, 3933.3),
        (10, 6480, 360.0, 353.4),
        (60, 6480, 881.8, 842.3),
        (300, 11136, 2584.9, 2388.7),
        (60, 3600, 657.3, 617.9),
        (600, 3600, 2078.5, 1697.7),
    ],
)
def test_young_and_daly(cost, mtti, young, daly):
    assert young_interval_s(cost, mtti) == pytest.approx(young, abs=0.05)
    assert daly_interval_s(cost, mtti) == pytest.approx(daly, abs=0.05)


@pytest.mark.parametrize(("mtti", "minutes"), [(24 * HOUR_S, 117), (6 * HOUR_S, 57), (15 * 60, 9.1)])
def test_the_figures_of_dalys_paper(mtti, minutes):
    """Figures 3 to 5: a dump of five minutes."""
    assert daly_interval_s(300, mtti) / 60 == pytest.approx(minutes, rel=0.006)


TABLE_2 = [
    (3849609, 68567, 68573, 67961, 68240),
    (1924805, 48660, 48668, 48052, 48320),
    (962402, 34584, 34595, 33972, 34189),
    (481201, 24630, 24646, 24014, 24231),
    (240601, 17592, 17615, 16968, 17194),
    (120300, 12615, 12648, 11982, 12218),
    (60150, 9096, 9142, 8449, 8701),
    (30075, 6608, 6673, 5941, 6214),
    (15038, 4848, 4940, 4154, 4458),
    (7519, 3604, 3733, 2869, 3218),
]
"""Aupy et al.: MTTI and the periods Young, Daly, RFO, OPT, for C = R = 600 and D = 60."""


@pytest.mark.parametrize(("mtti", "young", "daly", "first_order", "optimum"), TABLE_2)
def test_table_2_of_aupy_et_al(mtti, young, daly, first_order, optimum):
    assert young_interval_s(600, mtti) + 600 == pytest.approx(young, abs=0.6)
    assert daly_first_order_interval_s(600, mtti, 660) + 600 == pytest.approx(daly, abs=0.6)
    assert refined_first_order_interval_s(600, mtti, 660) + 600 == pytest.approx(first_order, abs=0.6)
    # The first three published optima lie a little off (the curve is flat there): ours must be no worse.
    is_off = mtti > 500_000
    assert exact_interval_s(600, mtti) + 600 == pytest.approx(optimum, abs=0.0013 * optimum if is_off else 0.8)
    assert efficiency(exact_interval_s(600, mtti), 600, mtti) >= efficiency(optimum - 600, 600, mtti)


@pytest.mark.parametrize(("period", "share"), [(3604, 0.5951), (3733, 0.5937), (2869, 0.5950), (3218, 0.5971)])
def test_the_efficiency_is_flat_around_the_optimum(period, share):
    assert efficiency(period - 600, 600, 7519, detection_s=60, restart_s=600) == pytest.approx(share, abs=5e-5)


@given(mtti=mttis, fraction=st.floats(1e-9, 0.005), restart=st.floats(0, 0.1))
def test_a_fifth_off_the_best_interval_costs_under_half_a_percent(mtti, fraction, restart):
    """As long as the cost is below half a percent of the MTTI: a save of 7 min a day."""
    best = exact_interval_s(fraction * mtti, mtti)

    def reached(interval):
        return efficiency(interval, fraction * mtti, mtti, restart_s=restart * mtti)

    assert reached(best) - min(reached(0.8 * best), reached(1.2 * best)) < 0.005


def test_the_cost_of_not_knowing_is_larger():
    cost, mtti, restart = 600, 7519, 660
    right = efficiency(exact_interval_s(cost, mtti), cost, mtti, restart_s=restart)
    wrong_mtti = efficiency(exact_interval_s(cost, 10 * mtti), cost, mtti, restart_s=restart)
    no_restart = efficiency(exact_interval_s(cost, mtti), cost, mtti)
    assert right - wrong_mtti > 0.05
    assert no_restart - right > 0.05


def test_ettr_of_16384_gpus():
    mtti = mtti_of_nodes_s(2048, 6.50)
    assert mtti / HOUR_S == pytest.approx(1.80, abs=0.005)
    assert mtti_of_nodes_s(131072 // 8, 6.50) / HOUR_S == pytest.approx(0.225, abs=0.0005)
    assert ettr(60 * 60, 0, 300, mtti) == pytest.approx(0.676, abs=0.0005)
    assert ettr(5 * 60, 0, 300, mtti) == pytest.approx(0.931, abs=0.0005)


@pytest.mark.parametrize(
    ("gpus", "rate", "minutes", "restart_min", "expected"),
    [
        (8192, 6.50, 30, 5, 0.908),
        (8192, 6.50, 30, 1, 0.926),
        (100_000, 6.50, 7, 5, 0.520),
        (100_000, 2.34, 21, 5, 0.685),
        (100_000, 2.34, 2, 2, 0.939),
    ],
)
def test_ettr_at_other_scales(gpus, rate, minutes, restart_min, expected):
    assert ettr(minutes * 60, 0, restart_min * 60, mtti_of_nodes_s(gpus // 8, rate)) == pytest.approx(
        expected, abs=6e-4
    )


@pytest.mark.parametrize(
    ("write", "rate", "minutes", "expected"), [(10, 6.5, 6.9, 0.919), (300, 6.5, 38.0, 0.737), (300, 1.0, 96.8, 0.897)]
)
def test_ettr_at_youngs_interval(write, rate, minutes, expected):
    mtti = mtti_of_nodes_s(12_288 // 8, rate)
    interval = young_interval_s(write, mtti)
    assert interval / 60 == pytest.approx(minutes, abs=0.05)
    assert ettr(interval, write, 300, mtti) == pytest.approx(expected, abs=6e-4)


def test_failures_of_a_published_job():
    """419 unexpected interruptions in 54 days on 2,048 nodes."""
    rate = 1000 * 419 / (54 * 2048)
    assert rate == pytest.approx(3.79, abs=0.005)
    assert mtti_of_nodes_s(2048, rate) / HOUR_S == pytest.approx(3.09, abs=0.005)


def test_a_checkpoint_each_half_hour_loses_4096_gpu_hours_per_failure():
    assert 16384 * lost_per_failure_s(30 * 60) / HOUR_S == 4096
    assert lost_per_failure_s(600, lag_s=20, detection_s=3, restart_s=7) == 330


@pytest.mark.parametrize(
    ("near", "far", "intervals", "overhead", "alone", "alone_interval"),
    [
        ((5, 4), (120, 48), (379, 6440), 0.0636, 0.1344, 1786),
        ((10, 6), (300, 72), (657, 12471), 0.0785, 0.1735, 3459),
        ((1, 2), (60, 24), (120, 3220), 0.0539, 0.1344, 893),
    ],
)
def test_two_levels(near, far, intervals, overhead, alone, alone_interval):
    best = two_level_intervals(near[0], near[1] * HOUR_S, far[0], far[1] * HOUR_S)
    assert (best.near_interval_s, best.far_interval_s) == pytest.approx(intervals, abs=0.5)
    assert best.overhead == pytest.approx(overhead, abs=5e-5)
    # With the far level alone, every failure needs it.
    mtti = 1 / (1 / (near[1] * HOUR_S) + 1 / (far[1] * HOUR_S))
    interval = young_interval_s(far[0], mtti)
    assert interval == pytest.approx(alone_interval, abs=0.6)
    assert far[0] / interval + interval / (2 * mtti) == pytest.approx(alone, abs=5e-5)


@pytest.mark.parametrize("formula", FORMULAS)
@given(mtti=mttis, fraction=fractions, scale=st.floats(0.01, 100))
def test_the_unit_of_time_does_not_matter(formula, mtti, fraction, scale):
    one = formula(fraction * mtti, mtti)
    assert formula(fraction * mtti * scale, mtti * scale) == pytest.approx(scale * one, rel=1e-6)


@given(cost=st.floats(0.001, 1e4), mtti=mttis, factor=st.floats(1, 100))
def test_youngs_interval_grows_with_the_root_of_both(cost, mtti, factor):
    longer = math.sqrt(factor) * young_interval_s(cost, mtti)
    assert young_interval_s(factor * cost, mtti) == pytest.approx(longer)
    assert young_interval_s(cost, factor * mtti) == pytest.approx(longer)


@given(mtti=mttis, fraction=st.floats(1e-12, 1e-6))
def test_all_formulas_meet_where_saves_are_cheap(mtti, fraction):
    young = young_interval_s(fraction * mtti, mtti)
    for formula in FORMULAS:
        assert formula(fraction * mtti, mtti) == pytest.approx(young, rel=2 * math.sqrt(fraction))


@given(mtti=mttis, fraction=st.floats(1e-12, 0.5))
def test_daly_is_within_a_percent_of_the_optimum_up_to_half_the_mtti(mtti, fraction):
    exact = exact_interval_s(fraction * mtti, mtti)
    assert daly_interval_s(fraction * mtti, mtti) == pytest.approx(exact, rel=0.01)
    assert exact <= young_interval_s(fraction * mtti, mtti)


@given(mtti=mttis, fraction=st.floats(1e-12, 50), down=st.floats(0, 3), lag=st.floats(0, 1))
def test_the_optimum_is_one_whatever_lag_and_restart_are(mtti, fraction, down, lag):
    cost = fraction * mtti
    best = exact_interval_s(cost, mtti)

    def reached(interval):
        return efficiency(
            interval, cost, mtti, lag_s=lag * 0.5 * (best + cost), detection_s=down * mtti, restart_s=down * mtti
        )

    for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2):
        assert reached(factor * best) <= reached(best) * (1 + 1e-9)


@given(mtti=st.floats(600, 1e7), fraction=st.floats(1e-4, 5))
def test_a_numerical_search_finds_the_same_optimum(mtti, fraction):
    cost = fraction * mtti
    low, high = 1e-6 * mtti, 2 * mtti
    for _ in range(200):
        a, b = low + (high - low) * 0.381966, low + (high - low) * 0.618034
        if efficiency(a, cost, mtti) < efficiency(b, cost, mtti):
            low = a
        else:
            high = b
    assert exact_interval_s(cost, mtti) == pytest.approx(low, rel=1e-3)


@given(mtti=st.floats(600, 1e7), restart=st.floats(0, 0.2), fraction=st.floats(1e-6, 0.1))
def test_the_refined_first_order_formula_maximises_its_own_efficiency(mtti, restart, fraction):
    cost, down = fraction * mtti, restart * mtti

    def reached(period):
        return (1 - cost / period) * (1 - (down + period / 2) / mtti)

    best = refined_first_order_interval_s(cost, mtti, down) + cost
    assert reached(best) >= max(reached(0.98 * best), reached(1.02 * best))


@pytest.mark.parametrize("formula", FORMULAS)
@given(mtti=mttis, fraction=fractions, more=st.floats(1.01, 1.5))
def test_dearer_saves_come_less_often_and_failures_bring_them_closer(formula, mtti, fraction, more):
    cost = fraction * mtti
    assert formula(cost * more, mtti) > formula(cost, mtti)
    assert formula(cost, mtti * more) > formula(cost, mtti)


@given(
    mtti=mttis,
    interval=st.floats(0.001, 3),
    stall=st.floats(0.001, 1),
    lag=st.floats(0, 0.9),
    detection=st.floats(0, 2),
    restart=st.floats(0, 2),
    more=st.floats(1.01, 3),
)
def test_efficiency_falls_with_everything_that_costs_time(mtti, interval, stall, lag, detection, restart, more):
    interval, stall, detection, restart = (x * mtti for x in (interval, stall, detection, restart))
    arguments = {
        "stall_s": stall,
        "lag_s": lag * (interval + stall) / more,
        "detection_s": detection,
        "restart_s": restart,
    }
    base = efficiency(interval, mtti_s=mtti, **arguments)
    assert 0 <= base < 1
    for name in arguments:
        assert efficiency(interval, mtti_s=mtti, **{**arguments, name: more * arguments[name]}) <= base
    assert efficiency(interval, mtti_s=more * mtti, **arguments) > base


@given(mtti=mttis, interval=st.floats(1e-4, 0.01), stall=st.floats(1e-3, 0.1), rest=st.floats(0, 0.003))
def test_to_first_order_a_failure_costs_half_an_interval_the_lag_and_the_restart(mtti, interval, stall, rest):
    interval, stall, rest = interval * mtti, stall * interval * mtti, rest * mtti
    lag = min(rest, interval)
    lost = (
        stall / (interval + stall)
        + lost_per_failure_s(interval + stall, lag_s=lag, detection_s=rest, restart_s=rest) / mtti
    )
    reached = efficiency(interval, stall, mtti, lag_s=lag, detection_s=rest, restart_s=rest)
    assert -math.log(reached) == pytest.approx(lost, rel=0.1)


def test_ettr_is_the_first_order_of_the_efficiency():
    mtti = 100 * DAY_S
    assert ettr(3600, 20, 300, mtti) == pytest.approx(efficiency(3600, 20, mtti, restart_s=300), abs=1e-5)
    assert ettr(3 * mtti, 20, 300, mtti) == 0.0


@pytest.mark.parametrize(
    ("interval", "stall", "lag", "restart"), [(500, 20, 0, 100), (500, 20, 300, 100), (2000, 5, 2005, 0)]
)
def test_the_efficiency_is_what_a_simulation_of_failures_finds(interval, stall, lag, restart):
    mtti, rng = 3000.0, random.Random(7)
    wall = kept = 0.0
    for _ in range(40_000):
        # One life: restart (anew if it fails), then work until the next failure.
        while (life := rng.expovariate(1 / mtti)) < restart:
            wall += life
        wall += life
        kept += interval * max(0, math.floor((life - restart - lag) / (interval + stall)))
    assert kept / wall == pytest.approx(efficiency(interval, stall, mtti, lag_s=lag, restart_s=restart), rel=0.015)


@pytest.mark.parametrize("formula", FORMULAS)
def test_limits(formula):
    assert formula(0, 3600) == 0
    assert formula(60, math.inf) == math.inf
    for cost in (1e-300, 1e-12, 1e-6):
        assert formula(cost, 3600) == pytest.approx(math.sqrt(2 * cost * 3600), rel=1e-3)


def test_when_a_save_takes_longer_than_a_job_lives():
    assert exact_interval_s(1e9, 60) == pytest.approx(60)
    assert daly_interval_s(120, 60) == daly_interval_s(1e9, 60) == 60
    assert refined_first_order_interval_s(1, 60, restart_s=60) == 0
    assert refined_first_order_interval_s(1e9, 60) == 0
    assert efficiency(60, 1e9, 60) == 0
    assert efficiency(0, 1, 60) == 0
    assert efficiency(10, 1, 60, restart_s=1e12) == 0


def test_without_failures_only_the_stall_costs():
    assert efficiency(5e-324, 0, 60) == 1
    assert efficiency(math.inf, 10, math.inf) == 1
    assert efficiency(math.inf, 10, 1e9) == 0
    assert efficiency(90, 10, math.inf, lag_s=50, restart_s=1e9) == 0.9


@given(st.floats(1e-12, 1e-6))
def test_the_exact_interval_has_no_seam_where_the_series_takes_over(fraction):
    """On both sides of C/M = 1e-9 the two agree to what is left of the precision."""
    assert exact_interval_s(fraction, 1.0) == pytest.approx(daly_interval_s(fraction, 1.0), rel=1e-7)


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize(("cost", "mtti"), [(-1, 60), (math.nan, 60), (math.inf, 60), (1, 0), (1, -5), (1, math.nan)])
def test_what_is_no_time_is_refused(formula, cost, mtti):
    with pytest.raises(ValueError, match=r"a (duration|mean time)"):
        formula(cost, mtti)


def test_impossible_intervals_are_refused():
    with pytest.raises(ValueError, match="lag"):
        efficiency(10, 1, 60, lag_s=11.5)
    with pytest.raises(ValueError, match="interval"):
        efficiency(-1, 1, 60)
    with pytest.raises(ValueError, match="interval"):
        ettr(0, 1, 1, 60)
    with pytest.raises(ValueError, match="nodes"):
        mtti_of_nodes_s(0, 6.5)
    with pytest.raises(ValueError, match="failures"):
        mtti_of_nodes_s(1, 0)
