"""How often a job saves while it runs, and what is said of it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.core.interval import exact_interval_s
from lastgood.core.interval_choice import Bound, SaveCost
from lastgood.core.pace import NOTHING_SAID, Pace, pace_news
from lastgood.core.reliability import Mtti
from lastgood.core.schedule import Auto, Every, EverySteps

DAY = Mtti(86400.0, "stated")


def saved(pace, *stalls):
    for stall in stalls:
        pace = pace.after_save(SaveCost(stall, stall))
    return pace


@given(st.integers(1, 50), st.integers(1, 500))
def test_steps_are_counted_from_zero_not_from_the_last_save(steps, step):
    pace = saved(Pace(EverySteps(steps)), 1.0)
    assert pace.is_due(step=step, saved_step=-1, elapsed_s=0.0) == (step % steps == 0)
    assert pace.interval_s is None


@pytest.mark.parametrize("schedule", [EverySteps(5), Every("1s", "1s"), Auto()])
def test_nothing_is_saved_twice_at_one_step(schedule):
    assert not Pace(schedule).is_due(step=10, saved_step=10, elapsed_s=1e9)
    assert Pace(schedule).is_due(step=10, saved_step=9, elapsed_s=1e9)


def test_by_time():
    pace = Pace(Every("60s", "60s"))
    assert not pace.is_due(step=3, saved_step=2, elapsed_s=59.9)
    assert pace.is_due(step=3, saved_step=2, elapsed_s=60)


def test_a_schedule_relaxes_with_each_save():
    pace = Pace(Every(first="1min", then="5min"))
    intervals = []
    for _ in range(5):
        intervals.append(pace.interval_s)
        pace = saved(pace, 0.1)
    assert intervals == [60, 120, 240, 300, 300]


def test_auto_saves_after_a_minute_and_then_by_what_that_cost():
    pace = Pace(Auto(), DAY)
    assert pace.interval_s == 60
    assert Pace(Auto(), Mtti(100.0, "a drill")).interval_s == 10
    assert saved(pace, 1.0).interval_s == exact_interval_s(1.0, DAY.seconds)


def test_one_slow_save_among_quick_ones_changes_nothing():
    assert saved(Pace(Auto(), DAY), 1, 1, 1, 1, 60).interval_s == saved(Pace(Auto(), DAY), 1).interval_s


def test_a_change_of_storage_is_followed():
    before = saved(Pace(Auto(), DAY), *[1] * 20)
    assert saved(before, *[9] * 5).interval_s == pytest.approx(3 * before.interval_s, rel=0.01)


@given(st.lists(st.floats(0.5, 0.69), min_size=1, max_size=20))
def test_costs_that_vary_a_little_leave_the_interval_alone(stalls):
    pace = saved(Pace(Auto(), DAY), stalls[0])
    for stall in stalls[1:]:
        following = saved(pace, stall)
        assert following.interval_s == pace.interval_s
        pace = following


def test_the_stall_sets_the_interval_and_the_write_bounds_it():
    pace = Pace(Auto(), DAY)
    assert pace.after_save(SaveCost(1, 1)).interval_s == pace.after_save(SaveCost(1, 40)).interval_s
    long_write = pace.after_save(SaveCost(1, 400))
    assert (long_write.interval_s, long_write.choice.bound) == (3999, Bound.WRITE_SHARE)


def test_small_states_are_not_saved_every_moment():
    assert saved(Pace(Auto(), DAY), 1e-4).interval_s == 60
    # Where failures are so frequent that a minute would matter, they are.
    assert saved(Pace(Auto(), Mtti(600.0, "a drill")), 1e-4).interval_s == 6


def test_an_interval_leaves_room_for_a_save_that_fails():
    assert saved(Pace(Auto(), DAY, most_s=3600), 120).interval_s == 3600
    assert saved(Pace(Auto(), DAY, most_s=3600), 600).interval_s == 5400
    assert Pace(Auto(), DAY, most_s=20).interval_s == 20


@given(st.floats(0, 1e4), st.floats(60, 1e9), st.floats(60, 1e6))
def test_auto_has_an_interval_whatever_is_measured(stall, mtti, most):
    interval = saved(Pace(Auto(), Mtti(mtti, "stated"), most), stall).interval_s
    assert 0 < interval < math.inf
    assert interval >= 9 * stall * (1 - 1e-9)


def test_an_earlier_attempt_says_what_to_expect_until_the_first_save():
    expected = Pace(Auto(), DAY).expecting(SaveCost(4, 4))
    assert expected.interval_s == saved(Pace(Auto(), DAY), 4).interval_s
    assert saved(expected, 1).interval_s == saved(Pace(Auto(), DAY), 1).interval_s
    by_time = Pace(Every("60s", "60s"), DAY)
    assert by_time.expecting(SaveCost(4, 4)).interval_s == 60


def test_the_margin_is_from_the_slowest_save_not_from_the_usual_one():
    assert saved(Pace(Auto(), DAY), 1, 1, 30, 1).margin_s(0.5) == 65.5


def test_a_long_save_of_an_earlier_attempt_lengthens_the_first_margin():
    fresh = Pace(EverySteps(5))
    assert fresh.margin_s(0) == 35
    assert fresh.expecting(SaveCost(600, 600)).margin_s(0) == 1205
    assert fresh.expecting(SaveCost(0.1, 0.1)).margin_s(0) == 35
    assert saved(fresh.expecting(SaveCost(600, 600)), 1).margin_s(0) == 7


def heard(pace, costs, *, step_s=0.0, has_time_limit=False):
    """Everything that is said, save after save."""
    said, lines = NOTHING_SAID, []
    for cost in costs:
        pace = saved(pace, cost)
        text, said = pace_news(pace, pace.margin_s(step_s), has_time_limit=has_time_limit, said=said)
        lines += [text] if text else []
    return lines


def test_what_is_said_of_auto():
    (line,) = heard(Pace(Auto()), [1.0])
    assert line == (
        "saving every 6 min 53 s: least loss at a stall of 1 s a save, interrupted once in 23 h 50 min "
        "(preset for 1 node)"
    )


def test_it_is_said_once_and_then_when_it_changes_by_a_fifth():
    assert len(heard(Pace(Auto(), DAY), [1.0] * 50)) == 1
    assert len(heard(Pace(Auto(), DAY), [1.0] * 50 + [9.0] * 50)) == 2


def test_under_a_time_limit_the_margin_is_said_too():
    (line,) = heard(Pace(Auto()), [1.0], has_time_limit=True)
    assert line.endswith("(preset for 1 node); a stop needs 7 s before the time limit")
    assert len(heard(Pace(Auto(), DAY), [1.0] * 50 + [9.0] * 50, has_time_limit=True)) == 3  # the margin sees it first


def test_a_doubt_is_part_of_it():
    (line,) = heard(Pace(Auto(), Mtti(600.0, "mtti=")), [60.0])
    assert "near the mean time to interruption" in line


def test_of_other_schedules_only_the_margin_is_said_and_only_under_a_time_limit():
    for schedule in (EverySteps(5), Every("1s", "1min")):
        assert heard(Pace(schedule), [1.0, 1.0]) == []
        assert heard(Pace(schedule), [1.0, 1.0, 9.0], has_time_limit=True) == [
            "a stop needs 7 s before the time limit",
            "a stop needs 23 s before the time limit",
        ]


def test_nothing_is_said_before_anything_is_known():
    assert pace_news(Pace(Auto()), 35.0, has_time_limit=False, said=NOTHING_SAID) == ("", NOTHING_SAID)
