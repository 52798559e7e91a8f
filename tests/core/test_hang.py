"""How long a rank may be silent, learned from its own steps."""

import pytest

from lastgood.core.hang import HangPolicy, Learned, limit_s, observe


def after(*beats: tuple[int, float]) -> Learned:
    learned = Learned()
    for step, at in beats:
        observe(learned, step, at)
    return learned


def test_until_the_first_step_is_done_the_start_has_its_own_limit() -> None:
    policy = HangPolicy(start_s=1800.0)
    assert limit_s(Learned(), policy) == 1800.0
    assert limit_s(after((0, 5.0)), policy) == 1800.0
    assert limit_s(after((0, 5.0), (0, 9.0)), policy) == 1800.0


def test_the_limit_follows_the_longest_step() -> None:
    learned = after((0, 0.0), (1, 60.0), (2, 61.0))
    assert limit_s(learned, HangPolicy(factor=10.0, floor_s=300.0)) == 600.0


def test_quick_steps_have_the_floor() -> None:
    assert limit_s(after((0, 0.0), (1, 0.1)), HangPolicy(floor_s=300.0)) == 300.0


def test_a_limit_that_was_given_holds_in_every_phase() -> None:
    policy = HangPolicy(limit_s=7.0)
    assert limit_s(Learned(), policy) == 7.0
    assert limit_s(after((0, 0.0), (1, 60.0)), policy) == 7.0


@pytest.mark.parametrize("step", [3, 1])
def test_a_rolled_back_step_is_a_sign_of_life_too(step: int) -> None:
    learned = after((2, 0.0), (step, 8.0))
    assert (learned.since, learned.step) == (8.0, step)
