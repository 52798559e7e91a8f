"""Preemption, with and without a grace time: nothing is lost, and exactly one owner starts the job again."""

from pathlib import Path

from .slurm import SlurmCluster
from .work import Work


def test_without_grace_the_job_saves_within_killwait_and_comes_back(cluster: SlurmCluster, shared: Path) -> None:
    work = Work(cluster, shared)
    job_id = work.submit("--partition=main", "--nodelist=n1")
    work.wait_step(45)
    cluster.preempt(["n1"])
    cluster.wait_restarted(job_id)
    assert cluster.wait_ended(job_id, limit_s=90) == "COMPLETED", work.text()
    work.check_answer()
    assert [row["State"] for row in cluster.history(job_id)] == ["PREEMPTED", "COMPLETED"]
    assert work.outcomes() == ["preempted", "finished"]
    assert work.done_twice() == 0, work.text()
