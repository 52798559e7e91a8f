"""When faults come: the same seed gives the same schedule, and the times are of the distribution that was asked for."""

import math
import random
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.core.errors import UsageError
from lastgood.core.outcome import Outcome
from lastgood.drill.fault import Calm
from lastgood.drill.schedule import DEFAULT, Failure, at_random, replayed, settled, time_to_failure_s
from lastgood.drill.spec import Kind, Spec, When, parse_spec
from lastgood.drill.whole import with_restart_before

KINDS = [Spec("kill-rank"), Spec("kill-group"), Spec("freeze")]


def weibull_cdf(t: float, mean_s: float, shape: float) -> float:
    """By the textbook, not by the code that is tested."""
    return 1 - math.exp(-((t * math.gamma(1 + 1 / shape) / mean_s) ** shape))


@given(st.floats(0, 0.999999), st.floats(0.001, 1e6), st.floats(0.3, 5))
def test_a_time_is_the_quantile_of_its_distribution(u: float, mean_s: float, shape: float) -> None:
    assert weibull_cdf(time_to_failure_s(u, mean_s, "weibull", shape), mean_s, shape) == pytest.approx(u, abs=1e-9)
    assert 1 - math.exp(-time_to_failure_s(u, mean_s, "exponential") / mean_s) == pytest.approx(u, abs=1e-9)


@pytest.mark.parametrize(("distribution", "shape"), [("exponential", 1.0), ("weibull", 0.7), ("weibull", 1.5)])
def test_many_times_follow_the_distribution(distribution: str, shape: float) -> None:
    specs = at_random(4000, 50.0, KINDS, seed=11, distribution=distribution, shape=shape)  # type: ignore[arg-type]
    times = [spec.when.seconds for spec in specs if spec.when is not None]
    gaps = sorted(later - earlier for earlier, later in zip([0.0, *times], times, strict=False))
    distance = max(
        abs(weibull_cdf(gap, 50.0, shape) - share / len(gaps)) for i, gap in enumerate(gaps) for share in (i, i + 1)
    )
    # Kolmogorov and Smirnov: beyond this in one of a thousand samples of the right distribution.
    assert distance < 1.95 / math.sqrt(len(gaps))
    assert mean(gaps) == pytest.approx(50.0, rel=0.1)


def test_the_same_seed_makes_the_same_schedule_and_another_one_another() -> None:
    schedules = [at_random(40, 30.0, KINDS, seed=seed) for seed in (7, 7, 8)]
    assert schedules[0] == schedules[1] != schedules[2]
    assert {spec.name for spec in schedules[0]} == {"kill-rank", "kill-group", "freeze"}


def test_what_is_no_distribution_is_refused() -> None:
    for u, mean_s, shape in ((1.0, 10, 1), (-0.1, 10, 1), (0.5, 0, 1), (0.5, 10, 0), (0.5, math.nan, 1)):
        with pytest.raises(ValueError, match="quantile"):
            time_to_failure_s(u, mean_s, "weibull", shape)


def test_a_history_is_replayed_faster_and_each_failure_in_its_own_way() -> None:
    history = [Failure(600, Outcome.KILLED), Failure(900, Outcome.HANG), Failure(1000, Outcome.FINISHED)]
    assert [spec.text for spec in replayed(history, speed_up=60)] == ["kill-rank@time=10s", "freeze@time=15s"]
    chosen = replayed(history * 20, speed_up=1, kinds=[Spec("exit"), Spec("zero")], seed=1)
    assert {spec.name for spec in chosen} == {"exit", "zero"}
    with pytest.raises(UsageError, match="--speed-up"):
        replayed(history, speed_up=0)


def test_faults_without_a_moment_are_spread_over_the_run_after_its_first_checkpoint() -> None:
    calm = Calm(start_s=1, took_s=60, last_step=1000)
    moments = [spec.when for spec in settled(DEFAULT, calm, saved_step=100)]
    assert [moment.step for moment in moments if moment is not None and moment.kind is Kind.STEP] == [325, 550, 775]
    assert moments[1] == When(Kind.PHASE, phase="save")


def test_where_steps_are_not_known_the_time_is_divided_and_where_nothing_is_they_follow_each_other() -> None:
    times = [spec.when for spec in settled(KINDS, Calm(took_s=40))]
    assert times == [When(Kind.TIME, seconds=10.0), When(Kind.TIME, seconds=20.0), When(Kind.TIME, seconds=30.0)]
    assert {spec.when.kind for spec in settled(KINDS, Calm()) if spec.when is not None} == {Kind.AFTER}


@given(st.integers(1, 10), st.integers(1, 50), st.integers(0, 60))
def test_every_moment_lies_within_the_run(count: int, last_step: int, saved_step: int) -> None:
    specs = settled([Spec("kill-rank")] * count, Calm(last_step=last_step), saved_step=saved_step)
    steps = [spec.when.step for spec in specs if spec.when is not None]
    assert steps == sorted(steps)
    assert all(1 <= step <= last_step for step in steps)


def test_a_fault_in_a_restore_gets_a_restart_before_it() -> None:
    restore = parse_spec("kill-rank@phase=restore")
    assert [spec.name for spec in with_restart_before([restore])] == ["kill-group", "kill-rank"]
    assert with_restart_before([Spec("terminate"), restore]) == [Spec("terminate"), restore]
    assert [spec.name for spec in with_restart_before([Spec("kill-keeper"), restore])][1] == "kill-group"


def test_the_seed_of_the_schedule_leaves_other_dice_alone() -> None:
    random.seed(3)
    expected = random.random()
    random.seed(3)
    at_random(5, 10.0, KINDS, seed=1)
    assert random.random() == expected
