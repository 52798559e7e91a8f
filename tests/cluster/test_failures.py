"""Nodes and controllers that fail, and operators: the job comes back by itself and ends with the right bits."""

import subprocess
import time
from pathlib import Path

import pytest

from lastgood.trial.processes import words_of

from .slurm import LIMIT_S, SlurmCluster
from .work import Work, fault


def lose(cluster: SlurmCluster, name: str) -> None:
    """A node dies, and the site's check of its nodes tells slurmctld at once: what it does itself takes half a minute."""
    cluster.kill_node(name)
    done = cluster.run("scontrol", "update", f"NodeName={name}", "State=DOWN", "Reason=test")
    assert done.returncode == 0, done.stderr


def check_done(cluster: SlurmCluster, work: Work, job_id: int, *states: str) -> None:
    """It has ended well, and nothing of it is left."""
    assert cluster.wait_ended(job_id) == "COMPLETED", f"{work.text()}\n{cluster.evidence(job_id)}"
    cluster.wait_history(job_id, *states, "COMPLETED")
    work.check_answer()
    assert work.is_finished
    assert cluster.run("squeue", "-h", "-a").stdout == ""
    cluster.wait_until(
        lambda: not any(cluster.processes_of_node(name) for name in cluster.nodes),
        "no process is left",
        LIMIT_S,
        job_id,
    )


def test_a_node_dies_and_slurm_finds_out_by_itself(cluster: SlurmCluster, shared: Path) -> None:
    work = Work(cluster, shared, steps=300)
    job_id = work.submit()
    work.wait_step(45)
    cluster.kill_node("n1")
    cluster.wait_restarted(job_id)
    check_done(cluster, work, job_id, "NODE_FAIL")
    # The new launcher finds an attempt of which nobody saw the end.
    assert work.outcomes() == ["", "finished"]
    assert 0 < work.done_twice() <= 20
    assert "the last attempt ended without its launcher" in work.text()


def test_one_of_two_nodes_dies_and_slurm_finds_out_by_itself(cluster: SlurmCluster, shared: Path) -> None:
    """With a time limit, as real jobs have: what Slurm shows of the job while it ends is not the same as without."""
    work = Work(cluster, shared, ranks=2, steps=300)
    job_id = work.submit("--time=60")
    work.wait_step(45)
    cluster.kill_node("n2")
    cluster.wait_restarted(job_id)
    check_done(cluster, work, job_id, "NODE_FAIL")
    assert work.outcomes() == ["node failure", "finished"]
    assert work.event(1, "ended")["node"] == "n2"


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_node_dies_during_a_save(cluster: SlurmCluster, shared: Path, ranks: int) -> None:
    """Of two nodes the one with rank 0 and the launcher; the other one's part is written, and counts for nothing."""
    work = Work(cluster, shared, steps=60, every=20, pause_s=0.1, ranks=ranks, size=1_000_000, slow_write="1MB/s")
    job_id = work.submit("--mem=1000")
    begun = work.job / "checkpoints" / "000000000040-0001"
    work.wait_until(begun.exists, "the save of step 40 has begun")
    lose(cluster, "n1")
    assert not (begun / "manifest.json").exists()
    check_done(cluster, work, job_id, "NODE_FAIL")
    assert work.event(2, "started")["step"] == 20
    assert not begun.exists()
    assert work.outcomes() == ["", "finished"]


def test_a_node_dies_during_a_commit(cluster: SlurmCluster, shared: Path) -> None:
    """All is written and flushed but the one rename: every rename is held back here for 10 s."""
    work = Work(cluster, shared, steps=300, every=20)
    job_id = work.submit()
    work.wait_until(lambda: work.event_steps(1, "committed")[-1:] == [20], "step 20 is committed")
    (keeper,) = [p for p in cluster.processes_of_node("n1") if any("keeper/__main__.py" in w for w in words_of(p))]
    renames = "rename,renameat,renameat2"
    words = ["strace", "-f", "-qq", "-o", "/dev/null", "-p", str(keeper.pid)]
    tracer = subprocess.Popen([*words, "-e", f"trace={renames}", "-e", f"inject={renames}:delay_enter=10s"])
    try:
        found = (work.job / "checkpoints").glob
        work.wait_until(lambda: any(found("*/manifest.json*.part")), "a checkpoint is about to be committed")
        lose(cluster, "n1")
    finally:
        tracer.kill()
        tracer.wait()
    (part,) = found("*/manifest.json*.part")
    assert not (part.parent / "manifest.json").exists()
    committed = work.event_steps(1, "committed")[-1]
    check_done(cluster, work, job_id, "NODE_FAIL")
    assert work.event(2, "started")["step"] == committed
    assert work.outcomes() == ["", "finished"]


def test_a_node_dies_while_the_job_waits_for_its_restart(cluster: SlurmCluster, shared: Path) -> None:
    """The node that it ran on and the one that it would start on next."""
    work = Work(cluster, shared, steps=300)
    job_id = work.submit()
    work.wait_step(45)
    lose(cluster, "n1")
    cluster.wait_for(job_id, "PENDING")
    lose(cluster, "n2")
    check_done(cluster, work, job_id, "NODE_FAIL")
    assert cluster.history(job_id)[-1]["NodeList"] == "n3"
    assert work.outcomes() == ["", "finished"]


def test_an_operator_requeues_the_job(cluster: SlurmCluster, shared: Path) -> None:
    """No failure, and nothing is lost."""
    work = Work(cluster, shared, steps=300)
    job_id = work.submit("--time=60", script=work.script("--max-restarts", "1"))
    work.wait_step(45)
    cluster.run("scontrol", "requeue", str(job_id))
    check_done(cluster, work, job_id, "REQUEUED")
    assert work.outcomes() == ["preempted", "finished"]
    assert work.event(1, "ended")["stop_cause"] == "requeued by Slurm"
    assert work.event(1, "decided")["restarts_left"] == 1
    assert work.done_twice() == 0


def test_slurmctld_crashes_and_comes_back_while_the_job_computes(cluster: SlurmCluster, shared: Path) -> None:
    work = Work(cluster, shared, steps=500)
    job_id = work.submit()
    cluster.wait_for(job_id, "RUNNING")
    # What it has not written down yet it forgets, and would start the job a second time: that is Slurm's own affair.
    running = time.time()
    work.wait_until(lambda: cluster.state_saved_at() > running, "slurmctld has saved its state")
    # That may still be the state from before, written late; the next one is from after it.
    saved = cluster.state_saved_at()
    cluster.run("scontrol", "update", f"JobId={job_id}", "Comment=runs")
    work.wait_until(lambda: cluster.state_saved_at() > saved, "slurmctld has saved its state again")
    work.wait_step(45)
    cluster.stop_controller(crash=True)
    work.wait_step(work.reached() + 60)
    cluster.start_controller()
    check_done(cluster, work, job_id)
    assert work.outcomes() == ["finished"]
    assert work.done_twice() == 0


@pytest.mark.parametrize("listed", ["75", ""])
def test_the_job_wants_to_be_run_again_while_slurmctld_is_away(
    cluster: SlurmCluster, shared: Path, listed: str
) -> None:
    """An exit code is delivered later; `scontrol requeue`, which gives up after some seconds, is tried again."""
    cluster.configure(RequeueExit=listed)
    is_away = shared / "slurmctld-is-away"
    work = Work(cluster, shared, steps=200, faults=[fault(45, "again", after=is_away)])
    job_id = work.submit("--time=60", script=work.script("--max-restarts", "0"))
    work.wait_step(30)
    # What it has been told of the job must be on disk, or it would come back without it.
    cluster.stop_controller()
    is_away.touch()
    work.wait_text("attempt 1 ended after")
    # As long as it is away.
    time.sleep(10)
    assert ("Slurm requeues it for exit code 75" in work.text()) == bool(listed)
    cluster.start_controller()
    check_done(cluster, work, job_id, "REQUEUED")
    assert work.outcomes() == ["preempted", "finished"]
