"""The time limit: the job stops at a safe point before it, and is started again by exactly one means."""

from pathlib import Path

from .queue import own_segments, queued
from .slurm import LIMIT_S, SlurmCluster
from .work import Work


def test_before_the_limit_the_job_saves_and_goes_on_by_requeue_or_by_a_segment_of_its_own(
    cluster: SlurmCluster, shared: Path
) -> None:
    """Three jobs at once: one that Slurm requeues for its exit code, one that also asked for a notice of the limit, which
    comes early, and one with --no-requeue. The limit is the shortest that there is, and known only from Slurm."""
    requeued = Work(cluster, shared / "requeued", steps=1000)
    alone = Work(cluster, shared / "alone", steps=1000)
    job_id = requeued.submit("--time=1", "--nodelist=n1", script=requeued.script("--grace", "15s"))
    first = alone.submit("--time=1", "--no-requeue", script=alone.script("--grace", "15s"))
    noticed = Work(cluster, shared / "noticed", steps=1000)
    third = noticed.submit("--time=1", "--signal=B:USR1@15", script=noticed.script("--grace", "15s"))

    alone.wait_text("waits behind this one")
    assert cluster.wait_ended(first) == "FAILED", alone.text()
    cluster.wait_restarted(job_id)
    cluster.wait_until(lambda: not queued(cluster), "nothing is left in the queue", 2 * LIMIT_S)
    # The last of its segments waited behind the one that has finished, in case that it should not be the last.
    *_, last, behind = [first, *own_segments(alone)]
    assert cluster.state(behind) == "CANCELLED"
    for work, ended in ((requeued, job_id), (alone, last), (noticed, third)):
        assert cluster.wait_ended(ended) == "COMPLETED", work.text()
        work.check_answer()
        # There may be a second limit on the way: the notice may come early, and the machine may be busy.
        assert work.attempts > 1 and work.outcomes() == ["time limit"] * (work.attempts - 1) + ["finished"], work.text()
        assert work.done_twice() == 0
        assert "time limit: asked the command to save and stop" in work.text()
    again = requeued.attempts - 1
    rows = cluster.wait_history(job_id, *["REQUEUED"] * again, "COMPLETED")
    assert [row["ExitCode"] for row in rows] == ["75:0"] * again + ["0:0"]
    cluster.wait_history(first, "FAILED")
    chains = {alone.event(n, "allocation")["chain"] for n in range(1, alone.attempts + 1)}
    assert chains == {str(first)}
    assert len(own_segments(alone)) == alone.attempts


def test_where_no_exit_code_requeues_the_job_asks_for_it_before_the_limit_and_at_the_limit(
    cluster: SlurmCluster, shared: Path
) -> None:
    """Two jobs at once: one knows its limit, and one hears of it by the signal, because it was moved later."""
    cluster.configure(RequeueExit="")
    known, moved = Work(cluster, shared / "known", steps=900), Work(cluster, shared / "moved", steps=800)
    first = known.submit("--nodelist=n1", script=known.script("--grace", "12s", "--time-limit", "50s"))
    second = moved.submit("--nodelist=n2")
    moved.wait_step(45)
    cluster.limit_in(second, 1)
    for work, job_id in ((known, first), (moved, second)):
        cluster.wait_restarted(job_id)
        assert cluster.wait_ended(job_id) == "COMPLETED", work.text()
        work.check_answer()
        # On a busy machine the steps of one segment may be so few that there is one more.
        segments = work.attempts - 1
        assert segments and work.outcomes() == ["time limit"] * segments + ["finished"], work.text()
        assert work.done_twice() == 0
        assert "scontrol requeue" in work.text()
        cluster.wait_history(job_id, *["REQUEUED"] * segments, "COMPLETED")
    cluster.wait_until(lambda: not queued(cluster), "nothing is left in the queue")


def test_a_limit_that_comes_by_surprise_is_met_by_each_means(cluster: SlurmCluster, shared: Path) -> None:
    """Somebody has moved the limit. Slurm does not requeue for a time limit, but for an exit code at it."""
    requeued, alone = Work(cluster, shared / "requeued", steps=700), Work(cluster, shared / "alone", steps=700)
    first, second = requeued.submit("--nodelist=n1"), alone.submit("--nodelist=n2", "--no-requeue")
    requeued.wait_step(45)
    alone.wait_step(45)
    cluster.limit_in(first, 1)
    cluster.limit_in(second, 1)
    cluster.wait_restarted(first)
    assert cluster.wait_ended(second) == "TIMEOUT", alone.text()
    for work, job_id in ((requeued, first), (alone, own_segments(alone)[0])):
        assert cluster.wait_ended(job_id) == "COMPLETED", work.text()
        work.check_answer()
        assert work.outcomes() == ["time limit", "finished"], work.text()
        assert work.event(1, "ended")["stop_cause"] == "time limit"
        assert work.done_twice() == 0
    cluster.wait_history(first, "REQUEUED", "COMPLETED")
    cluster.wait_until(lambda: not queued(cluster), "nothing is left in the queue")
