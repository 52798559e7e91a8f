"""Values logged by two runs, held against each other at matched steps."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.core import layout
from lastgood.prove.difference import Tolerance
from lastgood.prove.series import (
    attempts_of_job,
    compare_redone,
    compare_series,
    series_of_job,
    told_steps,
)
from lastgood.prove.values import AS_PRINTED
from lastgood.runtime.values_log import ValuesLog
from lastgood.store.attempts import claim_attempt
from lastgood.store.jobdir import create_job

Log = dict[int, dict[str, Any]]


def losses(steps: range, **changed: float) -> Log:
    return {step: {"loss": changed.get(f"at{step}", 1 / step), "rate": 0.1} for step in steps}


def test_equal_series_are_identical_over_all_values() -> None:
    found = compare_series(losses(range(1, 101)), losses(range(1, 101)))
    assert (found.comparison.kind, found.comparison.compared, found.matched) == ("identical", 200, 100)
    assert not found.only_left and not found.only_right and not found.lacks_end


def test_the_first_difference_names_step_and_value() -> None:
    other = losses(range(1, 101), at60=1 / 60 + 1e-9)
    other[80]["rate"] = 0.5
    found = compare_series(losses(range(1, 101)), other)
    first, largest = found.comparison.first, found.comparison.largest_absolute
    assert first is not None and largest is not None
    assert (first.step, first.what, largest.step, largest.what) == (60, "loss", 80, "rate")
    assert str(first).startswith("step 60, loss: 0.0166")


def test_a_run_that_comes_back_to_the_same_values_is_said_to() -> None:
    found = compare_series(losses(range(1, 101)), losses(range(1, 101), at60=9.0, at70=9.0))
    assert (found.last_differing, found.equal_again_from) == (70, 71)
    assert compare_series(losses(range(1, 101)), losses(range(1, 101), at100=9.0)).equal_again_from is None


def test_a_difference_within_the_tolerance_is_no_divergence() -> None:
    found = compare_series(losses(range(1, 9)), losses(range(1, 9), at3=1 / 3 + 1e-12), Tolerance(relative=1e-9))
    assert (found.comparison.kind, found.last_differing, found.comparison.differing) == ("within", None, 1)


def test_steps_that_only_one_run_has_are_told_as_ranges() -> None:
    left, right = losses(range(10, 200, 10)), losses(range(10, 200, 10))
    for step in (50, 60, 190):
        del right[step]
    right[500] = {"loss": 0.0}
    found = compare_series(left, right)
    assert (found.only_left, found.only_right) == (((50, 60), (190, 190)), ((500, 500),))
    assert told_steps(found.only_left) == "steps 50 to 60, step 190"
    assert not found.lacks_end, "it went on further"


def test_a_run_that_ended_early_lacks_its_end() -> None:
    found = compare_series(losses(range(1, 100)), losses(range(1, 50)))
    assert (found.comparison.kind, found.lacks_end, found.only_left) == ("identical", True, ((50, 99),))


@pytest.mark.parametrize(
    ("left", "right"), [({}, {}), ({}, {1: {"a": 1}}), ({1: {"a": 1}}, {}), ({1: {"a": 1}}, {2: {"a": 1}})]
)
def test_no_common_step_is_no_equality(left: Log, right: Log) -> None:
    found = compare_series(left, right)
    assert (found.comparison.kind, found.matched) == ("not comparable", 0)
    assert found.comparison.notes


def test_a_value_that_one_run_did_not_log_is_a_difference() -> None:
    found = compare_series({1: {"a": 1.0, "b": 2.0}}, {1: {"a": 1.0}})
    assert str(found.comparison.first) == "step 1, b: 2.0, only in the undisturbed run"


def test_printed_numbers_are_said_to_be_compared_as_printed() -> None:
    found = compare_series({1: {"loss": "0.2500"}}, {1: {"loss": "0.2500"}})
    assert (found.comparison.kind, found.comparison.notes) == ("identical", (AS_PRINTED,))
    assert compare_series({1: {"loss": 0.25}}, {1: {"loss": 0.25}}).comparison.notes == ()


STEPS = st.dictionaries(st.integers(1, 60), st.sampled_from([0.0, -0.0, 0.5, 1.0, float("nan")]), max_size=40)


@given(STEPS, STEPS)
def test_every_step_is_matched_or_told_as_missing(a: dict[int, float], b: dict[int, float]) -> None:
    left, right = ({step: {"x": value} for step, value in side.items()} for side in (a, b))
    found = compare_series(left, right)
    assert found.matched == len(a.keys() & b.keys())

    def held(ranges: tuple[tuple[int, int], ...], series: Log) -> set[int]:
        return {step for step in series if any(low <= step <= high for low, high in ranges)}

    assert held(found.only_left, left) == a.keys() - b.keys()
    assert held(found.only_right, right) == b.keys() - a.keys()
    differing = [
        step for step in sorted(a.keys() & b.keys()) if np.float64(a[step]).tobytes() != np.float64(b[step]).tobytes()
    ]
    assert found.comparison.differing == len(differing)
    assert (found.comparison.first.step if found.comparison.first else None) == (differing[0] if differing else None)
    assert found.last_differing == (differing[-1] if differing else None)


def test_steps_done_again_with_other_values_are_reported() -> None:
    first, second = losses(range(1, 60)), losses(range(50, 100), at55=0.5)
    found = compare_redone([(1, first), (2, second)])
    assert (found.steps, found.changed_steps) == (10, 1)
    assert (found.changed[0].step, found.changed[0].earlier, found.changed[0].later) == (55, 1, 2)
    assert str(found).startswith("1 of 10 steps done again had other values; first: step 55, loss: 0.01818")


def test_steps_done_again_with_the_same_values_are_counted() -> None:
    found = compare_redone([(1, losses(range(1, 60))), (2, losses(range(50, 100)))])
    assert (found.steps, found.changed) == (10, ())
    assert str(compare_redone([(1, losses(range(1, 9)))])) == "no step was logged twice"


def write_log(path: Path, after: int, log: Log) -> None:
    values = ValuesLog(path)
    values.begin(after)
    for step, one in log.items():
        values.add(one)
        values.end_step(step)
    values.flush()
    values.close()


def test_the_logs_of_all_ranks_and_attempts_of_a_job_are_read(tmp_path: Path) -> None:
    job = create_job(tmp_path / "job")
    for number, (after, steps) in enumerate([(0, range(1, 60)), (50, range(51, 100))], 1):
        assert claim_attempt(job, "").attempt == number
        for rank in (0, 1):
            write_log(
                job.attempts / layout.values_file(number, rank),
                after,
                losses(steps, **{f"at{55 + number}": float(rank)}),
            )
    series = series_of_job(job.path)
    assert list(series) == list(range(1, 100))
    assert series[57] == {"loss": 0.0, "rate": 0.1, "loss (rank 1)": 1.0, "rate (rank 1)": 0.1}
    redone = compare_redone(attempts_of_job(job.path))
    assert (redone.steps, [one.step for one in redone.changed]) == (9, [56, 57])
    # A torn last line is passed over, the rest is used.
    with (job.attempts / layout.values_file(2, 0)).open("ab") as file:
        file.write(msgspec.json.encode({"step": 100, "values": {"loss": 1}})[:-3])
    assert list(series_of_job(job.path)) == list(range(1, 100))
