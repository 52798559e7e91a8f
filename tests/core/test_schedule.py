"""When to save, and when to stop before a time limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.core.errors import UsageError
from lastgood.core.schedule import Every, parse_every, stop_margin_s


@pytest.mark.parametrize(
    ("given", "every"),
    [
        (1, Every(steps=1)),
        ("7 steps", Every(steps=7)),
        ("1 step", Every(steps=1)),
        ("10min", Every(seconds=600.0)),
        ("0:30", Every(seconds=30.0)),
    ],
)
def test_as_users_write_it(given, every):
    assert parse_every(given) == every


@pytest.mark.parametrize("given", [0, -1, 1.5, True, None, "", "5", "0s", "often", "0 steps", "-1 steps", [1]])
def test_what_makes_no_sense_is_refused(given):
    with pytest.raises(UsageError):
        parse_every(given)


@given(st.integers(1, 50), st.integers(1, 500))
def test_steps_are_counted_from_zero_not_from_the_last_save(steps, step):
    due = Every(steps=steps).is_due(step=step, saved_step=-1, elapsed_s=0.0)
    assert due == (step % steps == 0)


def test_nothing_is_saved_twice_at_one_step():
    assert not Every(steps=5).is_due(step=10, saved_step=10, elapsed_s=0)
    assert not Every(seconds=1).is_due(step=10, saved_step=10, elapsed_s=100)


def test_by_time():
    every = Every(seconds=60)
    assert not every.is_due(step=3, saved_step=2, elapsed_s=59.9)
    assert every.is_due(step=3, saved_step=2, elapsed_s=60)


@given(st.lists(st.floats(0, 1e4)), st.floats(0, 1e4))
def test_the_margin_covers_a_save_and_a_step(write_s, step_s):
    margin = stop_margin_s(write_s, step_s)
    assert margin >= step_s + max(write_s[-5:], default=0) + 5


def test_an_old_slow_save_is_forgotten():
    assert stop_margin_s([500.0, 1, 1, 1, 1, 1], 0) == 7.0
