"""An attempt that goes on where the scheduler cannot reach it, while the job runs elsewhere."""

from pathlib import Path

import psutil

from lastgood.trial.processes import words_of

from .machine import is_alive
from .slurm import SlurmCluster
from .work import Work


def cut_off(cluster: SlurmCluster, name: str) -> None:
    """And slurmctld is told at once that it does not answer: by itself it takes half a minute to believe it."""
    cluster.cut_off_node(name)
    done = cluster.run("scontrol", "update", f"NodeName={name}", "State=DOWN", "Reason=test")
    assert done.returncode == 0, done.stderr


def ranks_on(cluster: SlurmCluster, name: str) -> list[psutil.Process]:
    return [p for p in cluster.processes_of_node(name) if "program.py" in " ".join(words_of(p)[1:2])]


def check_fenced(work: Work) -> None:
    """The old attempt was told, and has changed nothing after the new one had begun."""
    raised = work.event(1, "exception")
    assert raised["type"] == "FencedError", raised
    began = min(event["at"] for event in work.events(2))
    late = [event for event in work.events(1) if event["at"] > began and event["kind"] == "committed"]
    # One commit may have passed its last check before the new attempt began.
    assert len(late) <= 1
    assert work.event(2, "started")["step"] >= 40
    assert work.event_steps(2, "committed")[-1] == work.settings["steps"]


def test_an_attempt_on_a_node_that_is_cut_off_commits_nothing_and_ends(cluster: SlurmCluster, shared: Path) -> None:
    """Without srun between: the launcher sees the program's end, and ends with the same code."""
    work = Work(cluster, shared, steps=600)
    job_id = work.submit(script=work.script(command=work.python()))
    work.wait_step(45)
    (rank,) = ranks_on(cluster, "n1")
    launcher = psutil.Process(rank.ppid())
    cut_off(cluster, "n1")
    cluster.wait_restarted(job_id)
    # slurmstepd is cut off, too, and takes no notice of the launcher's end.
    cluster.wait_until(lambda: not is_alive(rank) and not is_alive(launcher), "the old attempt has ended", 60, job_id)
    assert cluster.wait_ended(job_id) == "COMPLETED", work.text()
    cluster.wait_history(job_id, "NODE_FAIL", "COMPLETED")
    check_fenced(work)
    assert work.event(1, "ended")["exit_code"] == 81
    assert work.outcomes() == ["refused", "finished"]
    assert "an earlier start of this job still runs" in work.text()
    work.check_answer()
    cluster.kill_cut_off("n1")


def test_ranks_on_a_node_that_is_cut_off_commit_nothing_and_are_gone_once_it_is_back(
    cluster: SlurmCluster, shared: Path
) -> None:
    """srun is cut off with the node. What it says once it is back (code 0) is not taken for the end of the work."""
    work = Work(cluster, shared, steps=400)
    job_id = work.submit()
    work.wait_step(45)
    (rank,) = ranks_on(cluster, "n1")
    old = cluster.processes_of_node("n1")
    cut_off(cluster, "n1")
    cluster.wait_restarted(job_id)
    cluster.wait_until(lambda: not is_alive(rank), "the old rank has ended", 60, job_id)
    assert cluster.wait_ended(job_id) == "COMPLETED", work.text()
    cluster.wait_history(job_id, "NODE_FAIL", "COMPLETED")
    check_fenced(work)
    work.check_answer()
    cluster.restore_node("n1")
    cluster.wait_until(lambda: not any(map(is_alive, old)), "nothing of the old attempt is left", 60, job_id)
    work.check_answer()
    # Whether srun still says that the rank was fenced, or 0, depends on what reached it before the node was back.
    assert work.outcomes() in (["node failure", "finished"], ["refused", "finished"])
