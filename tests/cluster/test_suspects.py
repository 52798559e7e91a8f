"""A node on which attempts die as if its hardware failed is left, and the job is kept away from it."""

from pathlib import Path

from .slurm import SlurmCluster
from .work import Work, fault


def test_after_two_bus_errors_on_a_node_the_job_goes_on_elsewhere(cluster: SlurmCluster, shared: Path) -> None:
    work = Work(cluster, shared, steps=60, faults=[fault(25, "bus", attempt="any", node="n1")])
    job_id = work.submit()
    assert cluster.wait_ended(job_id) == "COMPLETED", work.text()
    rows = cluster.wait_history(job_id, "REQUEUED", "COMPLETED")
    assert [row["NodeList"] for row in rows] == ["n1", "n2"]
    assert cluster.show(job_id)["ExcNodeList"] == "n1"
    # The first of them is restarted where it was.
    assert work.outcomes() == ["hardware error", "hardware error", "finished"]
    assert [work.event(number, "ended")["node"] for number in (1, 2, 3)] == ["n1", "n1", ""]
    assert work.event(2, "excluded")["nodes"] == ["n1"]
    assert "two attempts or more died on n1 as if its hardware failed" in work.text()
    assert "to start it on other nodes than n1" in work.text()
    work.check_answer()


def test_of_two_nodes_the_one_that_fails_is_left(cluster: SlurmCluster, shared: Path) -> None:
    """It is told by what srun says; and what the user excludes stays excluded."""
    work = Work(cluster, shared, ranks=2, steps=60, faults=[fault(25, "bus", rank=1, attempt="any", node="n2")])
    job_id = work.submit("--exclude=n3")
    assert cluster.wait_ended(job_id) == "COMPLETED", work.text()
    rows = cluster.wait_history(job_id, "REQUEUED", "COMPLETED")
    assert [row["NodeList"] for row in rows] == ["n[1-2]", "n[1,4]"]
    assert cluster.show(job_id)["ExcNodeList"] == "n[2-3]"
    assert work.outcomes() == ["hardware error", "hardware error", "finished"]
    work.check_answer()


def test_a_job_that_may_not_be_requeued_leaves_the_node_with_a_next_segment(
    cluster: SlurmCluster, shared: Path
) -> None:
    work = Work(cluster, shared, steps=60, faults=[fault(25, "bus", attempt="any", node="n1")])
    job_id = work.submit("--no-requeue")
    assert cluster.wait_ended(job_id) == "FAILED", work.text()
    (segment,) = cluster.run("squeue", "-h", "-a", "-o", "%A").stdout.split()
    assert cluster.wait_ended(int(segment)) == "COMPLETED", work.text()
    (row,) = cluster.wait_history(int(segment), "COMPLETED")
    assert row["NodeList"] == "n2"
    assert work.outcomes() == ["hardware error", "hardware error", "finished"]
    work.check_answer()


def test_a_node_that_the_user_asks_for_is_not_left(cluster: SlurmCluster, shared: Path) -> None:
    """It could never start again."""
    work = Work(cluster, shared, steps=60, faults=[fault(25, "bus", attempt="any", node="n1")])
    job_id = work.submit("--nodelist=n1")
    assert cluster.wait_ended(job_id) == "FAILED", work.text()
    (row,) = cluster.wait_history(job_id, "FAILED")
    assert row["ExitCode"] == "82:0"
    assert not any(event["kind"] == "excluded" for number in (1, 2, 3) for event in work.events(number))


def test_a_job_that_comes_back_to_a_node_that_died_under_it_twice_leaves_it(
    cluster: SlurmCluster, shared: Path
) -> None:
    """Nobody saw those ends; that the launchers died there is seen at the next start."""
    # Until it leaves n1 there is no other.
    cluster.run("scontrol", "update", "NodeName=n[2-4]", "State=DRAIN", "Reason=test")
    work = Work(cluster, shared, steps=500)
    job_id = work.submit()
    for attempt, step in ((1, 25), (2, 65)):
        work.wait_text(f"step {step} of rank 0 in attempt {attempt}")
        cluster.kill_node("n1")
        cluster.run("scontrol", "update", "NodeName=n1", "State=DOWN", "Reason=test")
        cluster.restore_node("n1")
    work.wait_text("as if its hardware failed")
    cluster.run("scontrol", "update", "NodeName=n[2-4]", "State=RESUME")
    assert cluster.wait_ended(job_id) == "COMPLETED", work.text()
    rows = cluster.wait_history(job_id, "NODE_FAIL", "NODE_FAIL", "REQUEUED", "COMPLETED")
    assert [row["NodeList"] for row in rows] == ["n1", "n1", "n1", "n2"]
    # The third start did not begin an attempt there.
    assert work.outcomes() == ["", "", "finished"]
    assert work.event(2, "excluded")["nodes"] == ["n1"]
    work.check_answer()
