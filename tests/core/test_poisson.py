"""What a count says about a rate, against published tables and against what must hold."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.core.poisson import chance_of_any, count_interval, gamma_quantile, gamma_share
from lastgood.core.reliability import FailureRate

# Garwood's 95 % limits: E. S. Pearson and H. O. Hartley, "Biometrika Tables for Statisticians", table 40.
GARWOOD = {
    0: (0.0, 3.689),
    1: (0.0253, 5.572),
    2: (0.242, 7.225),
    3: (0.619, 8.767),
    4: (1.090, 10.242),
    5: (1.623, 11.668),
    10: (4.795, 18.390),
    20: (12.217, 30.888),
    30: (20.241, 42.827),
    50: (37.111, 65.919),
}

# Quantiles of chi-square with so many degrees of freedom, as every table prints them.
CHI_SQUARE = [
    (1, 0.95, 3.841459),
    (1, 0.01, 0.000157),
    (2, 0.95, 5.991465),
    (10, 0.025, 3.246973),
    (10, 0.975, 20.483177),
    (30, 0.99, 50.892181),
    (100, 0.05, 77.929465),
]


@pytest.mark.parametrize("count", GARWOOD)
def test_the_interval_is_that_of_the_table(count):
    low, high = count_interval([(1, count)])
    assert (low, high) == (pytest.approx(GARWOOD[count][0], abs=6e-4), pytest.approx(GARWOOD[count][1], abs=6e-4))


@pytest.mark.parametrize("degrees, share, value", CHI_SQUARE)
def test_quantiles_are_those_of_the_table(degrees, share, value):
    assert 2 * gamma_quantile(degrees / 2, share) == pytest.approx(value, abs=6e-7)


@given(st.integers(1, 80), st.floats(0.01, 120))
def test_a_share_is_the_sum_of_the_chances_of_so_many_events_and_more(count, expected):
    fewer = math.fsum(math.exp(k * math.log(expected) - expected - math.lgamma(k + 1)) for k in range(count))
    assert gamma_share(count, expected) == pytest.approx(1 - fewer, abs=1e-12)


@pytest.mark.parametrize("count, expected", [(20, 0.1), (5, 1e-4), (200, 40)])
def test_a_small_chance_keeps_its_digits(count, expected):
    """A sum from above, which 1 - (the rest) would have lost."""
    terms = (math.exp(k * math.log(expected) - expected - math.lgamma(k + 1)) for k in range(count, count + 400))
    assert gamma_share(count, expected) == pytest.approx(math.fsum(terms), rel=1e-9)


@given(st.floats(0.5, 1e5), st.floats(1e-6, 1 - 1e-6))
def test_the_quantile_is_the_inverse_of_the_share(shape, share):
    assert gamma_share(shape, gamma_quantile(shape, share)) == pytest.approx(share, abs=1e-9, rel=1e-6)


def test_of_many_the_interval_is_two_standard_deviations_wide():
    low, high = count_interval([(1, 1_000_000)])
    assert (low, high) == (pytest.approx(1_000_000 - 1960, abs=3), pytest.approx(1_000_000 + 1961, abs=3))


@given(st.integers(1, 500), st.integers(2, 50))
def test_failures_that_come_together_tell_less(events, size):
    low, high = count_interval([(size, events)])
    alone = count_interval([(1, events * size)])
    assert low < alone[0] <= events * size <= alone[1] < high
    # As much as the events themselves tell.
    assert (low, high) == tuple(pytest.approx(size * x) for x in count_interval([(1, events)]))


@pytest.mark.parametrize("expected_events", [20, 60])
def test_the_interval_holds_the_truth_as_often_as_it_says(expected_events):
    """Events that each bring one failure or eight, drawn with a fixed seed."""
    draw = random.Random(5)
    held, tries = 0, 400
    for _ in range(tries):
        sizes: dict[int, int] = {}
        passed = draw.expovariate(1)
        while passed < expected_events:
            size = draw.choice([1, 1, 1, 8])
            sizes[size] = sizes.get(size, 0) + 1
            passed += draw.expovariate(1)
        low, high = count_interval(list(sizes.items()))
        held += low <= expected_events * 2.75 <= high
    assert held / tries > 0.93


@given(st.integers(1, 30), st.floats(0.001, 30), st.integers(1, 10_000))
def test_more_places_make_the_same_count_less_surprising(count, expected, places):
    one, many = chance_of_any(count, expected, 1), chance_of_any(count, expected, places)
    assert one - 1e-15 <= many <= 1
    assert many <= places * one * (1 + 1e-9)


def test_a_rate_has_its_interval_in_the_same_unit():
    rate = FailureRate.counted([(1, 10)], 500, "here")
    assert (rate.per_1000_node_days, rate.failures, rate.node_days) == (20, 10, 500)
    assert (rate.low, rate.high) == (pytest.approx(9.591, abs=1e-3), pytest.approx(36.78, abs=1e-3))
    none = FailureRate.counted([], 1000, "here")
    assert (none.per_1000_node_days, none.low, none.high) == (0, 0, pytest.approx(3.689, abs=1e-3))


@pytest.mark.parametrize("node_days", [0, -1, math.nan])
def test_no_rate_without_time(node_days):
    with pytest.raises(ValueError, match="node-days"):
        FailureRate.counted([(1, 1)], node_days, "here")


@pytest.mark.parametrize("shape, x", [(0, 1), (-1, 1), (1, -1), (math.nan, 1), (1, math.nan)])
def test_no_such_distribution(shape, x):
    with pytest.raises(ValueError, match="gamma"):
        gamma_share(shape, x)


@pytest.mark.parametrize("share", [0, 1, -0.1, math.nan])
def test_no_such_quantile(share):
    with pytest.raises(ValueError, match="between 0 and 1"):
        gamma_quantile(2, share)
