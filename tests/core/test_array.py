"""Which job a task of an array works on."""

import pytest

from lastgood.core.array import job_of_task
from lastgood.core.errors import UsageError

TASK = {"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_JOB_ID": "70"}


@pytest.mark.parametrize(
    ("pattern", "environment", "is_chained", "job"),
    [
        ("runs/x", {}, False, "runs/x"),
        ("runs/x", {}, True, "runs/x"),
        ("runs/x-%a", TASK, False, "runs/x-3"),
        ("runs/%A/%a", TASK, False, "runs/70/3"),
        ("runs/x", TASK, True, "runs/x"),
        ("runs/%A", TASK, True, "runs/70"),
        # A segment of its own, which Slurm gives another number.
        ("runs/%A/%a", TASK | {"LASTGOOD_CHAIN": "44_3"}, False, "runs/44/3"),
        ("runs/%A", TASK | {"LASTGOOD_CHAIN": "44"}, True, "runs/44"),
        ("runs/%A/%a", TASK | {"LASTGOOD_CHAIN": "0123456789abcdef"}, False, "runs/70/3"),
    ],
)
def test_what_is_stated_is_done(pattern: str, environment: dict[str, str], is_chained: bool, job: str) -> None:
    assert job_of_task(pattern, environment, is_chained=is_chained) == job


@pytest.mark.parametrize("pattern", ["runs/x", "runs/%A"])
def test_nothing_is_guessed_and_both_ways_are_named(pattern: str) -> None:
    with pytest.raises(UsageError) as raised:
        job_of_task(pattern, TASK, is_chained=False)
    assert f"--job {pattern}-%a" in raised.value.remedy
    assert "--chained" in raised.value.remedy


def test_both_at_once_are_refused() -> None:
    with pytest.raises(UsageError, match="--chained says that they share one"):
        job_of_task("runs/x-%a", TASK, is_chained=True)


@pytest.mark.parametrize("pattern", ["runs/x-%a", "runs/%A"])
def test_what_is_of_an_array_is_refused_where_there_is_none(pattern: str) -> None:
    with pytest.raises(UsageError, match="this is none"):
        job_of_task(pattern, {}, is_chained=False)
