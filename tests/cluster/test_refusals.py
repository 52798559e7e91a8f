"""What cannot work is refused at the start, with the way out."""

import sys
from pathlib import Path

from .slurm import SlurmCluster
from .work import Work


def test_one_launcher_per_task_is_refused(cluster: SlurmCluster, shared: Path) -> None:
    work = Work(cluster, shared, ranks=2)
    run = f"{sys.executable} -m lastgood run --job {work.job} -- true"
    job_id = work.submit(script=work.script(last=f"exec srun {run}"))
    assert cluster.wait_ended(job_id) == "FAILED"
    assert "srun has started `lastgood run` 2 times" in work.text()
    assert "turn it round: lastgood run --job DIR -- srun COMMAND" in work.text()
    assert not work.job.exists()


def test_a_job_in_the_memory_of_a_node_is_refused(cluster: SlurmCluster, shared: Path, tmp_path: Path) -> None:
    work = Work(cluster, shared)
    work.job = Path("/dev/shm") / tmp_path.name
    try:
        job_id = work.submit(script=work.script())
        assert cluster.wait_ended(job_id) == "FAILED"
        assert "is in the memory of this node (tmpfs)" in work.text()
        assert "step 1 " not in work.text()
        # Not requeued.
        cluster.wait_history(job_id, "FAILED")
    finally:
        for path in sorted(work.job.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        work.job.rmdir()


def test_without_a_retry_of_slurm_the_launcher_says_what_it_does_instead(cluster: SlurmCluster, shared: Path) -> None:
    """Each rule of the cluster has its line at the start; nothing is found out at the end."""
    said = {}
    for name, settings, options in (
        ("code", {}, []),
        ("requeue", {"RequeueExit": ""}, []),
        ("segment", {"RequeueExit": ""}, ["--no-requeue"]),
    ):
        cluster.configure(**settings)
        work = Work(cluster, shared / name, steps=3)
        assert cluster.wait_ended(work.submit(*options)) == "COMPLETED", work.text()
        said[name] = work.text()
    assert "ends with code 75, which RequeueExit lists" in said["code"]
    assert "this cluster: Requeue=1, RequeueExit=75, KillWait 15 s, GraceTime 0 s, PreemptMode=REQUEUE" in said["code"]
    assert "this cluster: Requeue=0, RequeueExit=(none), KillWait 15 s" in said["segment"]
    assert "asks Slurm to requeue it (scontrol requeue), because RequeueExit lists no code" in said["requeue"]
    assert "a next segment waits behind this one (afterany)" in said["segment"]
    assert "cancelled what waited to go on" in said["segment"]
    assert not cluster.run("squeue", "-h").stdout.strip()
