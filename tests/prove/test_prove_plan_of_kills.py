"""When a proof kills: always after a checkpoint, always before the end, and where a mistake would show."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.prove.plan_of_kills import (
    Phase,
    Profile,
    Save,
    earlier,
    not_sorted,
    plan,
    print_every,
    startup_s,
    usable_saves,
)


def profile_of(last: int, every: int, name: str = "out/step_{:06d}.pt") -> Profile:
    saves = tuple(Save(step * 0.1, name.format(step), step) for step in range(every, last + 1, every))
    return Profile(last * 0.1, saves, last, 1)


@given(st.integers(20, 5000), st.integers(2, 9), st.integers(1, 12), st.integers(0, 1000))
def test_every_kill_has_a_checkpoint_before_it_and_work_after_it(last: int, every: int, kills: int, seed: int):
    profile = profile_of(last, every)
    runs = plan(profile, kills, seed)
    assert len(runs) == kills
    for run in runs:
        for kill in run:
            assert kill.step is not None
            assert profile.saves[0].step < kill.step < last
        steps = [kill.step for kill in run]
        assert steps == sorted(set(steps))


@given(st.integers(0, 1000))
def test_the_first_kill_lands_between_two_checkpoints_and_the_second_at_one(seed: int):
    profile = profile_of(100, 10)
    (between,), (save,) = plan(profile, 2, seed)
    assert between.phase is Phase.BETWEEN
    assert between.step % 10 != 0
    assert save.phase is Phase.SAVE
    assert save.step % 10 == 0
    assert save.save >= 1


@pytest.mark.parametrize(
    ("times", "startup"),
    [((10.0, 12.0, 14.0), 8.0), ((2.0, 4.0, 6.5), 0.0), ((5.0, 5.5, 9.5, 10.0), 1.0), ((10.0,), 0.0), ((), 0.0)],
)
def test_what_comes_before_a_first_checkpoint_beyond_the_time_between_two_is_start_up(
    times: tuple[float, ...], startup: float
):
    assert startup_s(Profile(20.0, tuple(Save(at_s) for at_s in times))) == startup


def test_the_third_run_is_killed_twice():
    early, late = plan(profile_of(100, 10), 3, 0)[2]
    assert early.step + 10 < late.step


def test_the_same_seed_kills_at_the_same_steps():
    profile = profile_of(1000, 10)
    assert plan(profile, 6, 4) == plan(profile, 6, 4)
    assert plan(profile, 6, 4) != plan(profile, 6, 5)


def test_names_that_stop_sorting_by_age_are_tried_after_that():
    profile = profile_of(12, 1, "out/step_{}.pt")
    (kill,) = plan(profile, 1, 0)[0]
    assert kill.save == 10
    assert not_sorted([save.path for save in profile.saves[: kill.save]])


def test_a_checkpoint_at_the_end_is_of_no_use():
    assert usable_saves(profile_of(20, 10)) == [0]
    assert usable_saves(Profile(10.0, (Save(9.9, "last.pt"),))) == []
    with pytest.raises(ValueError, match="no checkpoint"):
        plan(Profile(10.0, (Save(9.9, "last.pt"),)), 1, 0)


def test_a_checkpoint_that_may_hold_the_last_step_is_of_no_use():
    assert usable_saves(Profile(10.0, (Save(9.0, "last.pt", step=18, step_by=20),), last_step=20)) == []


def test_without_steps_kills_are_placed_by_time():
    profile = Profile(10.0, (Save(2.0, "a.pt"), Save(4.0, "a.pt"), Save(6.0, "a.pt"), Save(8.0, "a.pt")))
    (between,), (save,) = plan(profile, 2, 0)
    assert between.step is None
    assert 0.8 <= between.after_s <= 1.4
    assert save.after_s == pytest.approx(2.0)


def test_the_earliest_kill_follows_the_first_checkpoint():
    (kill,) = earlier(profile_of(100, 10))
    assert kill.save == 1
    assert 10 < kill.step < 20


def test_the_usual_distance_of_shown_steps():
    assert print_every([5, 10, 15, 20, 21]) == 5
    assert print_every([7]) == 1
