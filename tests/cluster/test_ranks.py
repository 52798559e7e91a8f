"""Ranks that die or stand still: all are started again in the same allocation, from memory, and none stays behind."""

from pathlib import Path

from lastgood.trial.processes import environment_of, words_of

from .slurm import LIMIT_S, SlurmCluster
from .work import Work, fault


def attempts_running(cluster: SlurmCluster) -> list[str]:
    """The attempt that each living rank belongs to."""
    processes = [process for name in cluster.nodes for process in cluster.processes_of_node(name)]
    ranks = [process for process in processes if "program.py" in " ".join(words_of(process)[1:2])]
    # One that has just ended has no environment any more.
    return [told["LASTGOOD_ATTEMPT"] for rank in ranks if (told := environment_of(rank))]


def check_done_at_once(cluster: SlurmCluster, work: Work, job_id: int) -> None:
    assert cluster.wait_ended(job_id) == "COMPLETED", work.text()
    (row,) = cluster.wait_history(job_id, "COMPLETED")
    assert row["NodeList"] == "n[1-2]"
    assert cluster.show(job_id)["Restarts"] == "0"
    work.check_answer()
    assert cluster.run("squeue", "-h", "-a").stdout == ""
    cluster.wait_until(
        lambda: not any(cluster.processes_of_node(name) for name in cluster.nodes),
        "no process is left",
        LIMIT_S,
        job_id,
    )


def test_either_of_two_ranks_is_killed(cluster: SlurmCluster, shared: Path) -> None:
    # The second and the third attempt do not end before it was seen that they run.
    deaths = [fault(25, "kill", rank=1, attempt=1), fault(125, "kill", rank=0, attempt=2, after=shared / "seen-2")]
    waits = fault(150, "wait", attempt=3, after=shared / "seen-3")
    work = Work(cluster, shared, ranks=2, steps=180, faults=[*deaths, waits])
    job_id = work.submit("--time=60")
    for attempt, step in ((2, 22), (3, 125)):
        work.wait_text(f"step {step} of rank 1 in attempt {attempt}")
        assert attempts_running(cluster) == [str(attempt)] * 2
        (shared / f"seen-{attempt}").touch()
    check_done_at_once(cluster, work, job_id)
    assert work.outcomes() == ["killed", "killed", "finished"]
    starts = [work.event(number, "started") for number in (2, 3)]
    assert [(start["step"], start["is_from_memory"]) for start in starts] == [(20, True), (120, True)]
    assert work.done_twice(rank=1) <= 10


def test_one_of_two_ranks_stands_still(cluster: SlurmCluster, shared: Path) -> None:
    seen = shared / "seen"
    faults = [fault(35, "hang", rank=1), fault(50, "wait", attempt=2, after=seen)]
    work = Work(cluster, shared, ranks=2, steps=60, faults=faults)
    job_id = work.submit(script=work.script("--hang-timeout", "15s"))
    work.wait_text("step 36 of rank 1 in attempt 2")
    assert attempts_running(cluster) == ["2", "2"]
    seen.touch()
    check_done_at_once(cluster, work, job_id)
    assert work.outcomes() == ["hang", "finished"]
    # Both are asked: who waits for whom is seen in both.
    assert work.event(1, "hang")["ranks"] == [0, 1]
    assert 'program.py", line' in work.text()
    assert (work.event(2, "started")["step"], work.event(2, "started")["is_from_memory"]) == (30, True)
