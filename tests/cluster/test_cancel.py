"""scancel by the user: the job saves if it can, and does not come back by any means."""

import signal
from pathlib import Path

from . import machine
from .queue import own_segments, queued
from .slurm import SlurmCluster
from .test_chains import chain
from .work import Work, fault


def check_saved_and_left(work: Work, *, attempts: int = 1) -> None:
    """All that was computed is saved; what goes on with it later finds so."""
    assert work.outcomes() == ["cancelled"] * attempts, work.text()
    ended = work.event(attempts, "ended")
    assert ended["last_good_step"] == work.reached(), work.text()
    assert work.done_twice() == 0
    assert not work.is_finished


def test_a_cancelled_job_saves_and_stays_away_whatever_would_start_it_again(
    cluster: SlurmCluster, shared: Path
) -> None:
    """At once: one that Slurm requeues for its exit code, one with a segment of its own behind it, a chain, and a task of
    a chained array."""
    requeued, alone, chained, array = (Work(cluster, shared / name, steps=1000) for name in ("r", "o", "c", "a"))
    first = requeued.submit("--nodelist=n1")
    second = alone.submit("--nodelist=n2", "--no-requeue")
    segments = chain(chained, 3, "--nodelist=n3", script=chained.script())
    tasks = array.submit("--nodelist=n4", "--array=1-3%1", script=array.script("--chained"))
    works = (requeued, alone, chained, array)
    for work in works:
        work.wait_step(25)
    for job_id in (first, second, segments[0], f"{tasks}_1"):
        cluster.cancel(job_id)
    for job_id in (first, second, segments[0], f"{tasks}_1"):
        assert cluster.wait_ended(job_id) == "CANCELLED"
    for job_id in (own_segments(alone)[0], *segments[1:]):
        assert cluster.wait_ended(job_id) == "CANCELLED"
    assert f"cancelled what waited to go on: {tasks}_[2,3]" in array.text()
    cluster.wait_until(lambda: not queued(cluster), "nothing is left in the queue")
    for work in works:
        check_saved_and_left(work)
        assert "stopped: cancelled" in work.text()


def test_where_the_job_would_ask_for_a_requeue_it_does_not_after_scancel(cluster: SlurmCluster, shared: Path) -> None:
    cluster.configure(RequeueExit="")
    work = Work(cluster, shared, steps=1000)
    job_id = work.submit()
    work.wait_step(25)
    cluster.cancel(job_id)
    assert cluster.wait_ended(job_id) == "CANCELLED"
    cluster.wait_history(job_id, "CANCELLED")
    check_saved_and_left(work)
    assert queued(cluster) == []
    # The person who has cancelled it may go on with it later.
    again = work.submit()
    work.wait_text("in attempt 2")
    cluster.cancel(again)
    assert cluster.wait_ended(again) == "CANCELLED"
    check_saved_and_left(work, attempts=2)


def test_a_job_cancelled_before_it_could_save_is_not_gone_on_with(cluster: SlurmCluster, shared: Path) -> None:
    """Killed at once, the launcher can neither write down that it was cancelled nor cancel what waits behind it."""
    # It is killed in a step, before it gets to a point where it could save.
    work = Work(cluster, shared, steps=1000, faults=[fault(30, "wait", after=shared / "never")])
    segments = chain(work, 3, "--nodelist=n1", script=work.script())
    work.wait_step(30)
    cluster.cancel(segments[0])
    machine.send(cluster.processes_of_node("n1"), signal.SIGKILL)
    assert cluster.wait_ended(segments[0]) == "CANCELLED"
    assert cluster.wait_ended(segments[1]) == "FAILED", work.text()
    assert cluster.wait_ended(segments[2]) == "CANCELLED", work.text()
    assert work.attempts == 1
    assert f"job {segments[0]} was cancelled" in work.text()
    assert queued(cluster) == []


def test_cancelled_while_slurmctld_goes_away_the_job_saves_and_stays_away(cluster: SlurmCluster, shared: Path) -> None:
    """Nobody can tell the launchers why they were asked to stop, and srun waits for slurmctld until it is killed. One job
    would be requeued for its exit code, one is the first of a chain."""
    is_away = shared / "slurmctld-is-away"
    waits = [fault(30, "wait", after=is_away)]
    work, chained = (Work(cluster, shared / name, steps=1000, faults=waits) for name in ("one", "chain"))
    job_id = work.submit("--nodelist=n1")
    segments = chain(chained, 3, "--exclude=n1", script=chained.script())
    for one in (work, chained):
        one.wait_step(30)
    cluster.cancel(job_id)
    cluster.cancel(segments[0])
    for one in (work, chained):
        one.wait_text(" CANCELLED AT ")
    cluster.stop_controller()
    is_away.touch()
    for name in cluster.nodes:
        cluster.wait_until(lambda name=name: not cluster.processes_of_node(name), f"nothing runs on {name}")
    cluster.start_controller()
    # Slurm's own processes on the nodes have waited for slurmctld, too: it counts the nodes as hung, and drains them.
    assert cluster.wait_ended(job_id) == "CANCELLED"
    assert cluster.wait_ended(segments[0]) == "CANCELLED"
    assert cluster.wait_ended(segments[1]) == "FAILED", chained.text()
    assert cluster.wait_ended(segments[2]) == "CANCELLED", chained.text()
    assert f"job {segments[0]} was cancelled" in chained.text()
    cluster.wait_history(job_id, "CANCELLED")
    for one in (work, chained):
        assert one.attempts == 1
        assert f"saved step {one.reached()}" in one.text()
    cluster.wait_until(lambda: not queued(cluster), "nothing is left in the queue")
