"""What the user's own words for sbatch say."""

import pytest

from lastgood.schedulers.slurm_options import SbatchOptions


@pytest.mark.parametrize(
    "words", [["--time=1:00:00"], ["--time", "1:00:00"], ["-t1:00:00"], ["-t", "1:00:00"], ["-t", "9", "--time=60"]]
)
def test_a_time_limit_in_every_form(words):
    assert SbatchOptions(words, {"SBATCH_TIMELIMIT": "5"}).time_limit_s == 3600


def test_a_variable_of_sbatch_stands_for_an_option():
    options = SbatchOptions(
        ["-N", "2"], {"SBATCH_TIMELIMIT": "5", "SBATCH_PARTITION": "a,b", "SBATCH_ARRAY_INX": "1-3%1"}
    )
    assert (options.time_limit_s, options.partitions, options.array) == (300, ["a", "b"], "1-3%1")
    assert SbatchOptions([], {}).time_limit_s is None
    assert SbatchOptions(["-t", "UNLIMITED"], {}).time_limit_s is None


@pytest.mark.parametrize(("array", "is_one"), [("1-3%1", True), ("1-3", False), ("1-3%2", False), ("1-3%11", False)])
def test_tasks_one_at_a_time(array, is_one):
    assert SbatchOptions([f"--array={array}"], {}).runs_one_task_at_a_time is is_one


def test_whether_an_option_is_there():
    options = SbatchOptions(["--no-requeue", "-o", "x", "--exclusive=user"], {})
    assert options.has("no-requeue")
    assert options.has("output", "o")
    assert options.has("exclusive")
    assert not options.has("requeue")
    assert not options.has("wait", "W")
