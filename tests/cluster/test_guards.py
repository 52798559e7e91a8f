"""What must not come back: errors of the program, and what does not get on. What may pass comes back, within limits."""

from pathlib import Path

import pytest

from .slurm import LIMIT_S, SlurmCluster
from .work import Work, fault

# Also the codes with which our launcher gives up, as some sites list everything.
LISTED = "1,75,82-84"


def check_gone(cluster: SlurmCluster, work: Work, job_id: int) -> None:
    """Nothing of the job is left, in the queue or on a node, and it is not held there."""
    assert cluster.run("squeue", "-h", "-a").stdout == ""
    cluster.wait_until(
        lambda: not any(cluster.processes_of_node(name) for name in cluster.nodes),
        "no process is left",
        LIMIT_S,
        job_id,
    )
    assert not work.is_finished


def test_an_error_of_the_program_fails_once_and_is_shown(cluster: SlurmCluster, shared: Path) -> None:
    work = Work(cluster, shared, faults=[fault(25, "raise", attempt="any")])
    job_id = work.submit()
    assert cluster.wait_ended(job_id) == "FAILED", work.text()
    (row,) = cluster.wait_history(job_id, "FAILED")
    assert row["ExitCode"] == "1:0"
    assert work.outcomes() == ["program error"]
    last = [line for line in work.text().splitlines() if line.startswith("lastgood: ")][-1]
    assert "not started again: program error: " in last
    assert "KeyError: 'a mistake in the program'" in last
    check_gone(cluster, work, job_id)


def test_an_exit_code_of_ours_is_not_requeued_although_the_site_lists_it(cluster: SlurmCluster, shared: Path) -> None:
    cluster.configure(RequeueExit=LISTED)
    work = Work(cluster, shared, faults=[fault(25, "raise", attempt="any")])
    job_id = work.submit()
    assert cluster.wait_ended(job_id) == "FAILED", work.text()
    (row,) = cluster.wait_history(job_id, "FAILED")
    assert row["ExitCode"] == "99:0"
    assert "exit code 99 in place of 1, which RequeueExit lists" in work.text()
    assert work.outcomes() == ["program error"]
    check_gone(cluster, work, job_id)


def test_exit_code_0_before_the_last_step_is_not_completed(cluster: SlurmCluster, shared: Path) -> None:
    work = Work(cluster, shared, faults=[fault(25, "quit", attempt="any")])
    job_id = work.submit()
    assert cluster.wait_ended(job_id) == "FAILED", work.text()
    cluster.wait_history(job_id, "FAILED")
    assert "of 200, and run.finish() was not called: the work is not done" in work.text()
    assert work.outcomes() == ["program error"]
    check_gone(cluster, work, job_id)


@pytest.mark.parametrize("listed", ["75", LISTED])
def test_a_program_that_always_asks_to_be_run_again_and_gets_nowhere_is_stopped(
    cluster: SlurmCluster, shared: Path, listed: str
) -> None:
    """Restarts are left to Slurm, so the rule has to hold over its restarts."""
    cluster.configure(RequeueExit=listed)
    work = Work(cluster, shared, every=100, faults=[fault(5, "again", attempt="any")])
    job_id = work.submit(script=work.script("--max-restarts", "0"))
    assert cluster.wait_ended(job_id) == "FAILED", work.text()
    rows = cluster.wait_history(job_id, "REQUEUED", "FAILED")
    assert rows[-1]["ExitCode"] == ("82:0" if listed == "75" else "99:0")
    assert "without a newer checkpoint" in work.text()
    assert work.attempts == 2
    check_gone(cluster, work, job_id)


def test_the_restart_limit_counts_over_restarts_of_slurm(cluster: SlurmCluster, shared: Path) -> None:
    """It gets on all the time. What an operator requeues in between is no failure."""
    deaths = [fault(15, "kill", attempt=1), fault(45, "kill", attempt=3), fault(65, "kill", attempt=4)]
    work = Work(cluster, shared, faults=deaths)
    job_id = work.submit(script=work.script("--max-restarts", "2"))
    work.wait_step(22)
    cluster.run("scontrol", "requeue", str(job_id))
    assert cluster.wait_ended(job_id) == "FAILED", work.text()
    rows = cluster.wait_history(job_id, "REQUEUED", "FAILED")
    assert rows[-1]["ExitCode"] == "83:0"
    assert work.outcomes() == ["killed", "preempted", "killed", "killed"]
    assert "failed 3 times; the limit is 2 restarts" in work.text()
    check_gone(cluster, work, job_id)


@pytest.mark.parametrize(
    ("how", "outcome"), [("device", "hardware error"), ("network", "communication timeout"), ("bus", "hardware error")]
)
def test_an_error_that_may_pass_is_restarted_in_the_same_allocation(
    cluster: SlurmCluster, shared: Path, how: str, outcome: str
) -> None:
    work = Work(cluster, shared, steps=60, faults=[fault(35, how)])
    job_id = work.submit()
    assert cluster.wait_ended(job_id) == "COMPLETED", work.text()
    cluster.wait_history(job_id, "COMPLETED")
    assert work.outcomes() == [outcome, "finished"]
    assert work.event(1, "ended")["node"] == ("" if how == "network" else "n1")
    work.check_answer()


def test_an_error_that_may_pass_and_does_not_is_given_up(cluster: SlurmCluster, shared: Path) -> None:
    """On the only node that the user wants: no other is tried."""
    work = Work(cluster, shared, steps=60, faults=[fault(35, "device", attempt="any")])
    job_id = work.submit("--nodelist=n2")
    assert cluster.wait_ended(job_id) == "FAILED", work.text()
    (row,) = cluster.wait_history(job_id, "FAILED")
    assert row["ExitCode"] == "82:0"
    # The first one made progress, the others did not.
    assert work.outcomes() == ["hardware error"] * 3
    check_gone(cluster, work, job_id)
