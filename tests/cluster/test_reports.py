"""A report of a job under a real Slurm: the time in the queue, the GPUs, and metrics that are kept in each allocation."""

import subprocess
import sys
from datetime import datetime
from pathlib import Path

import msgspec
import pytest

from lastgood.report.model import FleetReport

from .slurm import SlurmCluster
from .work import Work


def test_a_job_that_was_preempted_was_queued_between_its_allocations(cluster: SlurmCluster, shared: Path) -> None:
    work = Work(cluster, shared, steps=300)
    metrics = shared / "job.prom"
    script = work.script("--metrics", str(metrics), command=work.python())
    job_id = work.submit("--partition=main", "--nodelist=n1", "--gres=gpu:2", "--requeue", script=script)
    work.wait_step(45)
    cluster.preempt(["n1"])
    cluster.wait_restarted(job_id)
    assert cluster.wait_ended(job_id) == "COMPLETED", work.text()

    words = [sys.executable, "-m", "lastgood", "report", str(work.job), "--json"]
    said = subprocess.run(words, env=cluster.environment, capture_output=True, timeout=180, check=True).stdout
    (report,) = msgspec.json.decode(said, type=FleetReport, strict=True).jobs
    assert [attempt.outcome for attempt in report.attempts] == ["preempted", "finished"]
    assert [attempt.allocation for attempt in report.attempts] == [f"slurm {job_id}", f"slurm {job_id}, restart 1"]
    assert [attempt.gpus for attempt in report.attempts] == [2, 2]
    queued = [span for span in report.spans if span.kind == "queued"]
    ended = next(line["at"] for line in work.events(1) if line["kind"] == "ended")
    began = report.attempts[1].began
    assert [(span.begin, span.end, span.attempt) for span in queued] == [(ended, began, None)]
    # By Slurm's own times, in whole seconds, the second run begins before the attempt in it, and the first ends after.
    first, second = (
        datetime.fromisoformat(row[name]).timestamp()
        for row, name in zip(cluster.wait_history(job_id, "PREEMPTED", "COMPLETED"), ("End", "Start"), strict=True)
    )
    assert ended - 2 <= first <= second <= began + 2
    shares = {share.kind: share for share in report.shares}
    held = sum(share.seconds for kind, share in shares.items() if kind != "queued")
    assert sum(share.gpu_hours or 0.0 for share in shares.values()) == pytest.approx(2 * held / 3600)
    assert shares["queued"].gpu_hours == 0
    text = metrics.read_text()
    assert 'state="finished"} 1' in text and f'kind="queued"}} {queued[0].seconds!r}' in text
