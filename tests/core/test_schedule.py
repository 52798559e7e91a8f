"""When to save, as users say it, and when to stop before a time limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lastgood
from lastgood.core.errors import UsageError
from lastgood.core.schedule import Auto, Every, EverySteps, has_changed, parse_every, stop_margin_s
from lastgood.core.units import parse_duration


@pytest.mark.parametrize(
    ("given", "schedule"),
    [
        (1, EverySteps(1)),
        ("7 steps", EverySteps(7)),
        ("1 step", EverySteps(1)),
        ("10min", Every(first="10min", then="10min")),
        ("0:30", Every(first="0:30", then="0:30")),
        ("auto", Auto()),
        (Every(first="5s", then="1h", grow=3), Every("5s", "1h", 3)),
    ],
)
def test_as_users_write_it(given, schedule):
    assert parse_every(given) == schedule


@pytest.mark.parametrize(
    "given", [0, -1, 1.5, True, None, "", "5", "0s", "often", "0 steps", "-1 steps", [1], "Auto()", Auto]
)
def test_what_makes_no_sense_is_refused(given):
    with pytest.raises(UsageError):
        parse_every(given)


@pytest.mark.parametrize(
    "wrong",
    [
        {"first": "0s", "then": "1min"},
        {"first": "2min", "then": "1min"},
        {"first": "1min", "then": "2min", "grow": 1.0},
        {"first": "1min", "then": "2min", "grow": float("nan")},
        {"first": "soon", "then": "2min"},
    ],
)
def test_a_schedule_that_cannot_be_is_refused(wrong):
    with pytest.raises(UsageError):
        lastgood.Every(**wrong)


@given(st.integers(1, 10_000), st.integers(0, 10_000), st.floats(1.001, 1e6), st.integers(0, 100_000))
def test_intervals_grow_from_first_to_then_and_stay_there(first, more, grow, saves):
    every = Every(first=f"{first}s", then=f"{first + more}s", grow=grow)
    assert every.interval_s(0) == first
    assert every.interval_s(10**9) == first + more
    now, following = every.interval_s(saves), every.interval_s(saves + 1)
    assert first <= now <= following <= first + more
    assert following == pytest.approx(min(now * grow, first + more))


@given(st.sampled_from(["90s", "10min", "1h30m", "2-00:00:00"]), st.integers(0, 1000))
def test_a_plain_duration_never_changes(text, saves):
    assert parse_every(text).interval_s(saves) == parse_duration(text)


@given(st.lists(st.floats(0, 1e4)), st.floats(0, 1e4))
def test_the_margin_covers_a_save_and_a_step(write_s, step_s):
    margin = stop_margin_s(write_s, step_s)
    assert margin >= step_s + max(write_s[-5:], default=0) + 5


def test_an_old_slow_save_is_forgotten():
    assert stop_margin_s([500.0, 1, 1, 1, 1, 1], 0) == 7.0


@given(st.floats(0.01, 1e6), st.floats(0, 10))
def test_a_change_of_more_than_a_fifth_is_one(before, factor):
    assert has_changed(before, before * factor) == (abs(before * factor - before) > 0.2 * before)
    assert has_changed(None, before)
