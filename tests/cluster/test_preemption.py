"""Preemption, with and without a grace time: nothing is lost, and exactly one owner starts the job again."""

from pathlib import Path

from .slurm import SlurmCluster
from .work import Work


def _preempted_and_finished(work: Work, job_id: int, *, at_step: int) -> None:
    work.wait_step(at_step)
    work.cluster.preempt(["n1"])
    work.cluster.wait_restarted(job_id)
    assert work.cluster.wait_ended(job_id) == "COMPLETED", work.text()
    work.check_answer()


def test_without_grace_the_job_saves_within_killwait_and_comes_back(cluster: SlurmCluster, shared: Path) -> None:
    work = Work(cluster, shared, steps=300)
    job_id = work.submit("--partition=main", "--nodelist=n1")
    _preempted_and_finished(work, job_id, at_step=45)
    cluster.wait_history(job_id, "PREEMPTED", "COMPLETED")
    assert work.outcomes() == ["preempted", "finished"]
    assert work.done_twice() == 0, work.text()


def test_with_grace_the_ranks_save_at_once_and_the_exit_code_brings_the_job_back(
    cluster: SlurmCluster, shared: Path
) -> None:
    """Slurm tells the steps only. A script that then ended with another code would count as failed, or as completed."""
    work = Work(cluster, shared, ranks=2, steps=300)
    job_id = work.submit("--partition=grace", "--nodelist=n[1-2]")
    _preempted_and_finished(work, job_id, at_step=45)
    cluster.wait_history(job_id, "REQUEUED", "COMPLETED")
    assert work.outcomes() == ["preempted", "finished"]
    assert work.event(1, "ended")["stop_cause"] == "told to end within its grace time"
    assert work.done_twice() == 0, work.text()


def test_with_grace_and_no_exit_code_that_slurm_requeues_the_job_asks_for_it(
    cluster: SlurmCluster, shared: Path
) -> None:
    cluster.configure(RequeueExit="")
    work = Work(cluster, shared, steps=300)
    job_id = work.submit("--partition=grace", "--nodelist=n1")
    _preempted_and_finished(work, job_id, at_step=45)
    assert work.outcomes() == ["preempted", "finished"]
    assert work.done_twice() == 0, work.text()


def test_preempted_while_a_save_is_being_written_the_job_has_that_save_or_the_one_before(
    cluster: SlurmCluster, shared: Path
) -> None:
    """The write of 80 MB is held back to 20 MB/s: it is under way when the signal comes, and the save on demand, which
    knows no such limit, still fits."""
    work = Work(cluster, shared, steps=80, every=20, size=10_000_000, pause_s=0.1, slow_write="20MB/s")
    job_id = work.submit("--partition=main", "--nodelist=n1", "--mem=2000")
    _preempted_and_finished(work, job_id, at_step=22)
    cluster.wait_history(job_id, "PREEMPTED", "COMPLETED")
    assert work.done_twice() == 0, work.text()


def test_a_script_that_asks_for_a_new_start_gets_one_and_then_goes_on(cluster: SlurmCluster, shared: Path) -> None:
    """Slurm runs the same script each time: a new start at each would never get anywhere."""
    before = Work(cluster, shared, steps=30, every=5)
    assert cluster.wait_ended(before.submit("--nodelist=n1")) == "COMPLETED", before.text()
    work = Work(cluster, shared, steps=300)
    job_id = work.submit("--partition=main", "--nodelist=n1", script=work.script("--fresh"))
    work.wait_text("of rank 0 in attempt 2")
    _preempted_and_finished(work, job_id, at_step=45)
    assert work.event(2, "started")["how"] == "fresh"
    assert work.event(3, "started")["how"] == "resumed"
    assert "going on" in work.text()


def test_where_slurm_cancels_what_it_preempts_the_job_comes_back_by_itself(cluster: SlurmCluster, shared: Path) -> None:
    """PreemptMode=CANCEL: Slurm ends the job for good, and yet requeues it for its exit code."""
    cluster.configure(main={"PreemptMode": "CANCEL"})
    work = Work(cluster, shared, steps=300)
    job_id = work.submit("--partition=main", "--nodelist=n1")
    _preempted_and_finished(work, job_id, at_step=45)
    assert work.outcomes() == ["preempted", "finished"]
    assert work.done_twice() == 0, work.text()
    cluster.wait_history(job_id, "REQUEUED", "COMPLETED")
