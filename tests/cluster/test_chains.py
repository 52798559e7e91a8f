"""Segments of one job, submitted as a chain or as an array, and arrays of many jobs."""

from pathlib import Path

from .queue import own_segments, queued
from .slurm import SlurmCluster
from .work import Work


def chain(work: Work, count: int, *sbatch: str, script: str) -> list[int]:
    """Jobs with one script, each waiting for the end of the one before."""
    path = work.directory / "batch.sh"
    path.write_text(script.replace("\n", "\nexport LASTGOOD_CHAIN=a-chain\n", 1))
    ids: list[int] = []
    for _ in range(count):
        behind = [f"--dependency=afterany:{ids[-1]}"] if ids else []
        ids.append(work.submit(*behind, *sbatch, script=path))
    return ids


def signal_task(cluster: SlurmCluster, task: str) -> None:
    """SIGUSR1 to the batch script. scancel delivers it, finds a few seconds later that the task has ended of it, and
    complains."""
    cluster.run("scancel", "--signal=USR1", "--batch", task)


def test_a_chain_goes_on_at_each_limit_and_ends_with_the_segment_that_finishes(
    cluster: SlurmCluster, shared: Path
) -> None:
    """Two segments do the work, and the third is taken out of the queue. Another job of the user that waits for the chain
    is left alone."""
    work = Work(cluster, shared, steps=300)
    ids = chain(work, 3, script=work.script())
    evaluation = work.submit(f"--dependency=afterany:{ids[0]}", "--job-name=batch.sh", script="#!/bin/sh\nsleep 0.1\n")
    work.wait_step(45)
    cluster.cancel(ids[0], "--signal=USR1", "--batch")
    assert cluster.wait_ended(ids[0]) == "FAILED", work.text()
    assert cluster.wait_ended(ids[1]) == "COMPLETED", work.text()
    assert cluster.wait_ended(ids[2]) == "CANCELLED", work.text()
    assert cluster.wait_ended(evaluation) == "COMPLETED"
    work.check_answer()
    assert work.outcomes() == ["preempted", "finished"], work.text()
    assert work.done_twice() == 0
    assert queued(cluster) == []


def test_the_tasks_of_a_chained_array_are_segments_of_one_job(cluster: SlurmCluster, shared: Path) -> None:
    """Numbers with gaps: the first two tasks do the work, the third is not needed."""
    work = Work(cluster, shared, steps=300)
    array = work.submit("--array=1,5,9%1", script=work.script("--chained"))
    work.wait_step(45)
    signal_task(cluster, f"{array}_1")
    work.wait_until(lambda: not queued(cluster), "nothing is left in the queue")
    ends = [cluster.wait_ended(f"{array}_{task}") for task in (1, 5, 9)]
    assert ends == ["FAILED", "COMPLETED", "CANCELLED"], work.text()
    work.check_answer()
    assert work.outcomes() == ["preempted", "finished"], work.text()
    assert work.done_twice() == 0
    assert [work.event(n, "allocation")["chain"] for n in (1, 2)] == [str(array)] * 2


def test_the_tasks_of_an_array_are_jobs_of_their_own(cluster: SlurmCluster, shared: Path) -> None:
    """One of them is interrupted, and comes back; the others do not notice."""
    works = {task: Work(cluster, shared / f"task-{task}", steps=300) for task in (1, 2, 3)}
    script = works[1].script()
    for name, place in (("job", "%a"), ("results", "'\"$SLURM_ARRAY_TASK_ID\"'")):
        script = script.replace(f"{shared}/task-1/{name}", f"{shared}/task-{place}/{name}")
    array = works[1].submit("--array=1-3", f"--output={shared}/task-%a/output.txt", script=script)
    works[2].wait_step(45)
    signal_task(cluster, f"{array}_2")
    works[1].wait_until(lambda: not queued(cluster), "nothing is left in the queue")
    for work in works.values():
        work.check_answer()
        assert work.done_twice() == 0
    assert {task: work.outcomes() for task, work in works.items()} == {
        1: ["finished"],
        2: ["preempted", "finished"],
        3: ["finished"],
    }


def test_an_array_of_which_nothing_says_what_its_tasks_are_is_refused(cluster: SlurmCluster, shared: Path) -> None:
    work = Work(cluster, shared)
    array = work.submit("--array=1-2%1")
    work.wait_until(lambda: not queued(cluster), "both have ended")
    rows = cluster.wait_history(array, "FAILED", "FAILED")
    assert [row["ExitCode"] for row in rows] == ["2:0"] * 2
    assert f"put %a into it: --job {work.job}-%a; for segments of one job, add --chained" in work.text()
    assert not work.job.exists()


def test_a_job_that_may_not_be_requeued_goes_on_after_a_preemption_and_a_node_failure(
    cluster: SlurmCluster, shared: Path
) -> None:
    """Slurm ends such a job for good, and shows that much as it shows a job that was cancelled."""
    # Of KillWait, some seconds are waited for an answer of the node that is dead.
    preempted = Work(cluster, shared / "preempted", steps=400)
    failed = Work(cluster, shared / "failed", steps=300, ranks=2)
    first = preempted.submit("--no-requeue", "--nodelist=n4")
    second = failed.submit("--no-requeue", "--nodelist=n[1-2]")
    for work in (preempted, failed):
        work.wait_step(45)
    cluster.preempt(["n4"])
    cluster.kill_node("n2")
    cluster.notice("n2")
    assert cluster.wait_ended(first) == "PREEMPTED", preempted.text()
    assert cluster.wait_ended(second) == "NODE_FAIL", failed.text()
    for work, how in ((preempted, "preempted"), (failed, "node failure")):
        assert cluster.wait_ended(own_segments(work)[0]) == "COMPLETED", work.text()
        work.check_answer()
        assert work.outcomes() == [how, "finished"], work.text()
    assert preempted.done_twice() == 0
    cluster.wait_until(lambda: not queued(cluster), "nothing is left in the queue")


def test_what_does_not_fit_into_the_time_after_a_signal_is_said_at_the_start(
    cluster: SlurmCluster, shared: Path
) -> None:
    """A write of 30 MB at 5 MB/s is longer than KillWait."""
    cluster.configure(KillWait=5)
    work = Work(cluster, shared, steps=40, every=20, size=4_000_000, slow_write="5MB/s")
    assert cluster.wait_ended(work.submit("--mem=2000")) == "COMPLETED", work.text()
    assert "after its signal (KillWait)" not in work.text()
    # The same job again: it is finished, and what it has measured is known.
    assert cluster.wait_ended(work.submit("--mem=2000")) == "COMPLETED", work.text()
    assert "and Slurm leaves 5 s after its signal (KillWait): at a preemption the newest periodic" in work.text()


def test_a_task_that_may_not_be_requeued_goes_on_as_the_same_task_with_the_same_options(
    cluster: SlurmCluster, shared: Path
) -> None:
    """Its own segment is a task of another array, and has the same job, output and resources."""
    works = {task: Work(cluster, shared / f"task-{task}", steps=300) for task in (4, 6)}
    script = works[4].script()
    for name, place in (("job", "%A-%a"), ("results", "'\"$SLURM_ARRAY_TASK_ID\"'")):
        script = script.replace(f"{shared}/task-4/{name}", f"{shared}/task-{place}/{name}")
    options = ("--gpus-per-node=1", "--cpus-per-task=2", "--mem=300", "--exclude=n4", "--no-requeue")
    array = works[4].submit("--array=4,6", f"--output={shared}/task-%a/output.txt", *options, script=script)
    for task, work in works.items():
        work.job = shared / f"task-{array}-{task}" / "job"
        work.wait_step(45)
    signal_task(cluster, f"{array}_6")
    assert cluster.wait_ended(f"{array}_4") == "COMPLETED", works[4].text()
    assert cluster.wait_ended(f"{array}_6") == "FAILED", works[6].text()
    segment = own_segments(works[6])[0]
    assert cluster.wait_ended(segment) == "COMPLETED", works[6].text()
    first, second = cluster.show(f"{array}_6"), cluster.show(segment)
    for name in (
        "ArrayTaskId",
        "TRES",
        "TresPerNode",
        "CPUs/Task",
        "MinMemoryNode",
        "ExcNodeList",
        "Requeue",
        "StdOut",
    ):
        assert second[name] == first[name], name
    for work in works.values():
        work.check_answer()
        assert work.done_twice() == 0
    assert works[4].outcomes() == ["finished"]
    assert works[6].outcomes() == ["preempted", "finished"]
    cluster.wait_until(lambda: not queued(cluster), "nothing is left in the queue")


def test_a_task_asks_for_a_requeue_of_itself_alone(cluster: SlurmCluster, shared: Path) -> None:
    """The last task of an array has the array's own number: a requeue of that number would start all tasks again."""
    cluster.configure(RequeueExit="")
    works = {task: Work(cluster, shared / f"task-{task}", steps=300) for task in (1, 2)}
    script = works[1].script()
    for name, place in (("job", "%a"), ("results", "'\"$SLURM_ARRAY_TASK_ID\"'")):
        script = script.replace(f"{shared}/task-1/{name}", f"{shared}/task-{place}/{name}")
    array = works[1].submit("--array=1-2", f"--output={shared}/task-%a/output.txt", script=script)
    for work in works.values():
        work.wait_step(45)
    assert cluster.show(f"{array}_2")["JobId"] == str(array)
    signal_task(cluster, f"{array}_2")
    cluster.wait_restarted(f"{array}_2")
    for task, work in works.items():
        assert cluster.wait_ended(f"{array}_{task}") == "COMPLETED", work.text()
        work.check_answer()
    assert works[1].outcomes() == ["finished"]
    assert works[2].outcomes() == ["preempted", "finished"]
    assert cluster.show(f"{array}_1")["Restarts"] == "0"
