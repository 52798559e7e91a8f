"""Rows of the accounting and attempts of the journal, brought together."""

import pytest

from lastgood.core.events import Event
from lastgood.schedulers.slurm_history import Run, disagreement, gpus_in, matching, run_told, runs_of

HEAD = ["JobIDRaw", "State", "ExitCode", "Start", "End", "NodeList", "AllocTRES", "Partition"]


def rows(*lines):
    return [dict(zip(HEAD, line.split("|"), strict=True)) for line in lines]


ROWS = rows(
    "7|REQUEUED|75:0|1000|1100|n[1-2]|cpu=2,gres/gpu=4,node=2|main",
    "7|COMPLETED|0:0|1200|1300|n[3-4]|cpu=2,gres/gpu=4,node=2|main",
    "8|CANCELLED by 0|0:0|Unknown|1400|None assigned||main",
)


def told(**data):
    return run_told(Event("allocation", 1001.0, {"job_id": "7", **data}))


def test_rows_become_runs():
    first, second, cancelled = runs_of(ROWS)
    assert first == Run("7", "REQUEUED", "75:0", 1000.0, 1100.0, ("n1", "n2"), 4, 0, "main")
    assert (second.restart_count, second.nodes) == (1, ("n3", "n4"))
    assert (cancelled.state, cancelled.began, cancelled.nodes, cancelled.gpus) == ("CANCELLED", None, (), None)


def test_rows_in_any_order_and_with_odd_values():
    runs = runs_of([ROWS[1], ROWS[0], *rows("7|FAILED|x|y||n[|gres/gpu=z|")])
    assert [run.state for run in runs] == ["REQUEUED", "COMPLETED", "FAILED"]
    assert runs[2].nodes == ()


@pytest.mark.parametrize(
    ("began", "state"), [(1001, "REQUEUED"), (1150, "REQUEUED"), (1199.5, "COMPLETED"), (1250, "COMPLETED")]
)
def test_an_attempt_is_in_the_run_that_began_before_it(began, state):
    assert matching(told(), began, runs_of(ROWS)).state == state


def test_clocks_may_differ_a_little():
    assert matching(told(), 970.0, runs_of(ROWS)).state == "REQUEUED"


def test_what_slurm_does_not_know_is_as_the_journal_has_it():
    own = told(nodes=["a", "b"], gpus=2, restart_count=3, partition="p")
    assert (
        matching(own, 5.0, runs_of(ROWS)) == own == Run("7", nodes=("a", "b"), gpus=2, restart_count=3, partition="p")
    )
    assert matching(own, 1001.0, runs_of(ROWS)).restart_count == 3
    assert matching(told(job_id="9"), 1001.0, runs_of(ROWS)).state == ""
    assert run_told(Event("allocation", 0.0, {"nodes": "x", "gpus": "y"})) == Run("")


def test_gpus():
    assert gpus_in("cpu=1") == 0
    assert gpus_in("gres/gpu:h200=8") == 8


@pytest.mark.parametrize(
    ("run", "outcome", "code", "is_job_finished", "is_last", "said"),
    [
        (Run("7", "COMPLETED", "0:0"), "finished", 0, True, True, ""),
        (
            Run("7", "COMPLETED", "0:0"),
            "preempted",
            75,
            False,
            True,
            "Slurm says COMPLETED, but the job is not finished",
        ),
        (Run("7", "COMPLETED", "0:0"), "preempted", 75, True, False, ""),
        (Run("7", "FAILED", "1:0"), "finished", 0, True, True, "the job is finished, but Slurm says FAILED 1:0"),
        (Run("7", "REQUEUED", "75:0"), "preempted", 75, False, False, ""),
        (Run("7", "FAILED", "75:0"), "preempted", 75, False, True, "did not requeue it"),
        (Run("7", "FAILED", "75:0"), "preempted", 75, False, False, ""),
        (Run("7", "RUNNING", "0:0"), "", None, False, True, ""),
        (Run("7", "NODE_FAIL", "0:0"), "", None, False, True, "has ended (NODE_FAIL), but it still runs"),
        (Run("7", "RUNNING", "0:0"), "killed", 1, False, True, "Slurm says RUNNING"),
        (Run("7", "RUNNING", "0:0"), "killed", 1, False, False, ""),
        (Run("7"), "killed", 1, False, True, ""),
    ],
)
def test_where_they_say_different_things(run, outcome, code, is_job_finished, is_last, said):
    found = disagreement(run, outcome, code, is_job_finished=is_job_finished, is_last=is_last)
    assert (said in found) if said else found == ""
