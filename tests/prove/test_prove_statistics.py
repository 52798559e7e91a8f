"""The statistical bound: it alarms as often as it says, and finds a bias."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.prove.statistics import (
    Estimate,
    as_comparison,
    combined,
    compare_estimates,
    compare_statistically,
    estimate_of_batches,
    false_alarm_of,
    two_sided,
    two_sided_quantile,
)

TRIALS = 2000


def alarms(draw: Any, bound: float, names: int, runs: int) -> float:
    """How often a comparison alarms; `draw` gives one run's estimate of one name."""
    count = 0
    for _ in range(TRIALS):
        left = {str(name): draw() for name in range(names)}
        rights = [{str(name): draw() for name in range(names)} for _ in range(runs)]
        count += not compare_estimates(left, rights, bound).is_within
    return count / TRIALS


def sampling_error(rate: float) -> float:
    return 4 * math.sqrt(rate * (1 - rate) / TRIALS)


@pytest.mark.parametrize("bound", [1.5, 2.0])
def test_equal_runs_with_known_errors_alarm_as_often_as_stated(bound: float) -> None:
    random = np.random.default_rng(1)
    found = alarms(lambda: Estimate(float(random.normal(5, 0.1)), 0.1), bound, names=1, runs=1)
    assert found == pytest.approx(false_alarm_of(bound), abs=sampling_error(false_alarm_of(bound)))


@pytest.mark.slow
@pytest.mark.parametrize(("names", "runs"), [(5, 1), (1, 3), (3, 2)])
def test_over_names_and_runs_together_it_alarms_no_more_often_than_stated(names: int, runs: int) -> None:
    random = np.random.default_rng(2)
    found = alarms(lambda: Estimate(float(random.normal(5, 0.1)), 0.1), 2.0, names, runs)
    stated = false_alarm_of(2.0)
    assert stated / 4 < found < stated + sampling_error(stated)


@pytest.mark.slow
def test_errors_from_few_blocks_alarm_as_often_as_stated() -> None:
    random = np.random.default_rng(3)
    # With the normal quantile instead of Student's, five blocks would alarm nearly twice as often.
    found = alarms(lambda: estimate_of_batches(random.normal(0, 1, 5).tolist()), 2.0, names=1, runs=1)
    assert found == pytest.approx(false_alarm_of(2.0), abs=1.5 * sampling_error(false_alarm_of(2.0)))


def autocorrelated(random: Any, count: int, rho: float) -> list[float]:
    noise = random.normal(0, 1, count)
    values = [noise[0] / math.sqrt(1 - rho * rho)]
    for one in noise[1:]:
        values.append(rho * values[-1] + one)
    return values


def test_a_correlated_series_has_an_error_that_allows_for_it() -> None:
    random = np.random.default_rng(4)
    rho, count = 0.8, 2500
    true_error = 1 / (1 - rho) / math.sqrt(count)
    found = [estimate_of_batches(autocorrelated(random, count, rho)) for _ in range(60)]
    naive = 1 / math.sqrt(1 - rho * rho) / math.sqrt(count)
    mean_error = math.sqrt(np.mean([one.error**2 for one in found]))
    assert mean_error == pytest.approx(true_error, rel=0.12)
    assert mean_error > 2 * naive
    assert np.mean([abs(one.value) > 2.0 * one.error for one in found]) < 0.2


def test_a_series_too_short_for_its_correlation_is_said_to_be() -> None:
    random = np.random.default_rng(5)
    walk = np.cumsum(random.normal(0, 1, 400)).tolist()
    assert "correlated still" in estimate_of_batches(walk).note
    assert estimate_of_batches(random.normal(0, 1, 400).tolist()).note == ""


def test_a_bias_of_five_standard_errors_is_found() -> None:
    random = np.random.default_rng(6)
    error = 0.1
    bias = 5 * error * math.sqrt(2)
    found = sum(
        not compare_estimates(
            {"pi": Estimate(float(random.normal(0, error)), error)},
            [{"pi": Estimate(float(random.normal(bias, error)), error)}],
        ).is_within
        for _ in range(300)
    )
    assert found > 0.95 * 300


def test_several_runs_together_find_a_bias_that_each_alone_would_hide() -> None:
    left = {"e": Estimate(0.0, 0.001)}
    rights = [{"e": Estimate(0.2 + 0.001 * i, 0.1)} for i in range(6)]
    found = compare_estimates(left, rights)
    assert found.worst is not None
    assert not found.is_within
    assert found.worst.run == "6 runs together"
    assert all(test.is_within for test in found.tests if test is not found.worst)


def test_runs_with_the_same_random_numbers_count_once() -> None:
    same = [Estimate(1.0, 0.1)] * 5
    assert combined(same) == Estimate(1.0, 0.1)
    assert combined([Estimate(1.0, 0.1), Estimate(1.1, 0.1)]).error == pytest.approx(0.1 / math.sqrt(2))


def test_without_any_error_only_equal_values_agree() -> None:
    assert compare_estimates({"n": Estimate(3, 0)}, [{"n": Estimate(3, 0)}]).is_within
    found = compare_estimates({"n": Estimate(3, 0)}, [{"n": Estimate(3.0001, 0)}])
    assert not found.is_within
    assert "no error is known" in str(found)


FINITE = st.floats(-1e6, 1e6)
ERRORS = st.floats(1e-6, 1e3)


@given(FINITE, ERRORS, FINITE, ERRORS, st.floats(0.5, 6))
def test_the_bound_is_on_the_difference_in_standard_errors(
    a: float, s: float, b: float, t: float, bound: float
) -> None:
    test = compare_estimates({"x": Estimate(a, s)}, [{"x": Estimate(b, t)}], bound).tests[0]
    z = (b - a) / math.sqrt(s * s + t * t)
    assert test.z == pytest.approx(z)
    assert test.bound == pytest.approx(bound, rel=1e-6)
    assert test.is_within == (abs(test.z or 0.0) <= test.bound)


@pytest.mark.slow
@given(st.floats(0, 30), st.floats(1, 500))
def test_probabilities_are_scipys(z: float, freedom: float) -> None:
    stats = pytest.importorskip("scipy.stats")
    assert two_sided(z, freedom) == pytest.approx(2 * float(stats.t.sf(z, freedom)), rel=1e-8, abs=1e-300)
    assert two_sided(z, None) == pytest.approx(2 * float(stats.norm.sf(z)), rel=1e-9)


@given(st.floats(1e-6, 0.5), st.one_of(st.none(), st.floats(1, 200)))
def test_quantiles_are_where_their_probability_is(probability: float, freedom: float | None) -> None:
    assert two_sided(two_sided_quantile(probability, freedom), freedom) == pytest.approx(probability, rel=1e-6)


def logged(values: list[float], errors: list[float] | None = None) -> dict[int, dict[str, Any]]:
    return {step: {"e": value, **({"s": errors[step - 1]} if errors else {})} for step, value in enumerate(values, 1)}


def test_logged_estimates_are_compared_at_their_last_step() -> None:
    left = logged([9.0, 1.0], [0.1, 0.1])
    found = compare_statistically(left, [logged([5.0, 1.1], [0.1, 0.1]), logged([5.0, 3.0], [0.1, 0.1])], [("e", "s")])
    assert [test.is_within for test in found.tests] == [True, False, False]
    answer = as_comparison(found)
    assert (answer.kind, answer.compared, answer.beyond) == ("differs", 3, 2)
    assert answer.first_beyond is not None
    assert "+14.14 standard errors" in str(answer.first_beyond)


def test_logged_block_means_get_their_error_from_their_scatter() -> None:
    random = np.random.default_rng(7)
    left, right, biased = (logged(random.normal(mean, 1, 400).tolist()) for mean in (0, 0, 1))
    assert as_comparison(compare_statistically(left, [right], [("e", "")])).kind == "within"
    assert as_comparison(compare_statistically(left, [biased], [("e", "")])).kind == "differs"
    assert as_comparison(compare_statistically(left, [left], [("e", "")])).kind == "identical"


def test_a_name_that_nobody_logged_is_no_agreement() -> None:
    answer = as_comparison(compare_statistically(logged([1.0]), [logged([1.0])], [("e", "missing"), ("x", "")]))
    assert answer.kind == "not comparable"
    assert len(answer.notes) == 2
    half = compare_statistically(logged([1.0, 2.0]), [logged([1.0, 2.0]), {}], [("e", "")])
    assert [(one.name, one.run) for one in half.lacking] == [("e", "run 2")]
    assert not half.is_within
    assert "e, run 2: no estimate" in str(half)
    assert as_comparison(half).kind == "differs"


def test_values_that_are_no_numbers_give_no_estimate() -> None:
    with pytest.raises(ValueError, match="two finite values"):
        estimate_of_batches([1.0, math.nan])
    assert compare_statistically({1: {"e": "x", "s": 1}}, [], [("e", "s")]).tests == ()
