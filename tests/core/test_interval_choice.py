"""The interval within bounds: which one was binding, and when not to trust it."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lastgood.core.interval import efficiency, exact_interval_s
from lastgood.core.interval_choice import Bound, Limits, SaveCost, choose_interval

DAY_S = 86400.0


@st.composite
def costs(draw):
    stall = draw(st.floats(0, 600))
    return SaveCost(stall, stall + draw(st.floats(0, 600)), draw(st.integers(0, 10**13)))


@st.composite
def limits(draw):
    least = draw(st.floats(0, 1000))
    return Limits(
        max_write_share=draw(st.floats(0.01, 1)),
        max_bytes_per_s=draw(st.none() | st.floats(1e6, 1e11)),
        least_s=least,
        most_s=draw(st.just(math.inf) | st.floats(least, 1e5)),
    )


mttis = st.floats(60, 1e7)


@pytest.mark.parametrize(
    ("save", "limits", "bound", "interval", "words"),
    [
        (SaveCost(60, 60), Limits(), Bound.OPTIMUM, 3180.1, "stall of 60 s"),
        (SaveCost(0.1, 10), Limits(), Bound.OPTIMUM, 131.4, "stall of 0.1 s"),
        (SaveCost(0.1, 60), Limits(), Bound.WRITE_SHARE, 599.9, "write of 60 s may take 10 %"),
        (SaveCost(0.1, 60), Limits(max_write_share=0.5), Bound.OPTIMUM, 131.4, "stall"),
        (SaveCost(0.1, 300), Limits(max_write_share=1), Bound.WRITE_SHARE, 299.9, "may take 100 %"),
        (SaveCost(0.1, 10, 10**12), Limits(max_bytes_per_s=1e9), Bound.BANDWIDTH, 999.9, "1 TB a save at 1 GB/s"),
        (SaveCost(0.001, 0.001), Limits(least_s=60), Bound.LEAST, 60, "more often would gain nothing"),
        (SaveCost(600, 600), Limits(most_s=3600), Bound.WRITE_SHARE, 5400, "write of 10 min"),
        (SaveCost(100, 100), Limits(most_s=3600), Bound.MOST, 3600, "more rarely would risk too much"),
    ],
)
def test_the_answer_names_what_was_binding(save, limits, bound, interval, words):
    choice = choose_interval(save, DAY_S, limits)
    assert choice.bound is bound
    assert choice.interval_s == pytest.approx(interval, abs=0.06)
    assert words in choice.reason


@given(costs(), mttis, limits())
def test_every_bound_holds(save, mtti, limits):
    choice = choose_interval(save, mtti, limits)
    period = choice.interval_s + save.stall_s
    assert save.write_s <= period * limits.max_write_share * (1 + 1e-9)
    if limits.max_bytes_per_s is not None:
        assert save.bytes <= period * limits.max_bytes_per_s * (1 + 1e-9)
    assert choice.interval_s >= limits.least_s
    if choice.bound in (Bound.OPTIMUM, Bound.MOST):
        assert choice.interval_s <= limits.most_s
    assert 0 <= choice.efficiency <= 1


@given(costs(), mttis, limits())
def test_it_loses_least_of_all_intervals_within_the_bounds(save, mtti, limits):
    choice = choose_interval(save, mtti, limits)
    assume(choice.efficiency > 1e-200)

    def reached(interval):
        return efficiency(interval, save.stall_s, mtti, lag_s=save.lag_s)

    if limits.most_s >= exact_interval_s(save.stall_s, mtti):
        assert reached(1.05 * choice.interval_s) <= choice.efficiency * (1 + 1e-9)
    if choice.bound in (Bound.OPTIMUM, Bound.MOST) and 0.95 * choice.interval_s + save.stall_s >= save.lag_s:
        assert reached(0.95 * choice.interval_s) <= choice.efficiency * (1 + 1e-9)


@given(costs(), mttis, limits(), st.floats(1, 3))
def test_monotone_in_each_argument(save, mtti, limits, more):
    base = choose_interval(save, mtti, limits).interval_s
    slower = SaveCost(save.stall_s, save.write_s * more, save.bytes)
    larger = SaveCost(save.stall_s, save.write_s, int(save.bytes * more))
    assert choose_interval(slower, mtti, limits).interval_s >= base
    assert choose_interval(larger, mtti, limits).interval_s >= base
    assert choose_interval(save, more * mtti, limits).interval_s >= base


@given(mttis, st.floats(0, 600))
def test_a_synchronous_save_has_no_lag(mtti, stall):
    choice = choose_interval(SaveCost(stall, stall), mtti, Limits(max_write_share=1))
    assert choice.interval_s == exact_interval_s(stall, mtti)
    assert choice.bound is Bound.OPTIMUM


def test_saves_that_cost_nothing_are_held_apart_by_the_write():
    choice = choose_interval(SaveCost(0, 6), DAY_S)
    assert (choice.interval_s, choice.bound) == (60, Bound.WRITE_SHARE)
    assert choose_interval(SaveCost(0, 0), DAY_S).interval_s == 0


def test_without_failures_it_never_saves_unless_told_to():
    never = choose_interval(SaveCost(1, 1), math.inf)
    assert (never.interval_s, never.efficiency) == (math.inf, 1)
    assert choose_interval(SaveCost(1, 1), math.inf, Limits(most_s=3600)).interval_s == 3600


@pytest.mark.parametrize(("write", "mtti"), [(600, 3600), (3600, 3600), (7200, 3600), (60, 300)])
def test_a_write_near_the_mtti_is_said(write, mtti):
    assert "near the mean time to interruption" in choose_interval(SaveCost(1, write), mtti).doubt
    assert "near the mean time to interruption" in choose_interval(SaveCost(write, write), mtti).doubt


def test_what_a_bound_costs_is_said():
    doubt = choose_interval(SaveCost(1, 60), 3600, Limits(max_bytes_per_s=1, least_s=900)).doubt
    assert doubt == "the bound costs 10 % of the time"
    assert choose_interval(SaveCost(1, 60), DAY_S).doubt == ""
    assert choose_interval(SaveCost(60, 60), DAY_S).doubt == ""


@given(costs(), mttis)
def test_no_doubt_while_a_period_is_far_below_the_mtti(save, mtti):
    choice = choose_interval(save, mtti, Limits(max_write_share=1))
    assert ("near the mean time" in choice.doubt) == (choice.interval_s + save.write_s > 0.27 * mtti)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_write_share": 0},
        {"max_write_share": 1.1},
        {"max_write_share": math.nan},
        {"max_bytes_per_s": 0},
        {"least_s": -1},
        {"least_s": 10, "most_s": 5},
    ],
)
def test_limits_that_nothing_satisfies_are_refused(wrong):
    with pytest.raises(ValueError, match="no interval"):
        Limits(**wrong)


@pytest.mark.parametrize("wrong", [(2, 1, 0), (-1, 1, 0), (1, math.inf, 0), (math.nan, 1, 0), (1, 1, -1)])
def test_a_write_that_ends_before_its_stall_is_refused(wrong):
    with pytest.raises(ValueError, match="no earlier"):
        SaveCost(*wrong)
