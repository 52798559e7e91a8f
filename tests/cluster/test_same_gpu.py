"""`--same-gpu` on a real Slurm: the job goes on only where the GPUs are that it began on. What nvidia-smi says is a fake, by
the name of the node; no GPU was here."""

from pathlib import Path

from .slurm import SlurmCluster
from .work import Work


def script(work: Work, models: dict[str, str]) -> str:
    """The work's batch script with an nvidia-smi in its PATH that tells of other GPUs on each node."""
    place = work.directory / "tools"
    place.mkdir(exist_ok=True)
    cases = "\n".join(f'{node}) echo "0, GPU-{node}, {model}, 550.54.15";;' for node, model in models.items())
    (place / "nvidia-smi").write_text(f'#!/bin/sh\ncase "$SLURMD_NODENAME" in\n{cases}\nesac\n')
    (place / "nvidia-smi").chmod(0o755)
    text = work.script("--same-gpu")
    return text.replace("#!/bin/bash\n", f"#!/bin/bash\nexport PATH={place}:$PATH\n", 1)


def test_a_job_that_comes_to_other_gpus_goes_on_where_they_are_the_same(cluster: SlurmCluster, shared: Path) -> None:
    work = Work(cluster, shared, steps=300)
    job_id = work.submit(script=script(work, {"n1": "A100", "n2": "H100", "n3": "A100", "n4": "H100"}))
    work.wait_step(25)
    cluster.run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=test")
    try:
        cluster.run("scontrol", "requeue", str(job_id))
        assert cluster.wait_ended(job_id) == "COMPLETED", work.text()
    finally:
        cluster.run("scontrol", "update", "NodeName=n1", "State=RESUME")
    rows = cluster.wait_history(job_id, "REQUEUED", "REQUEUED", "COMPLETED")
    assert [row["NodeList"] for row in rows] == ["n1", "n2", "n3"]
    # On n2 no attempt was begun.
    assert work.attempts == 2
    assert [work.event(number, "surroundings")["gpu_models"] for number in (1, 2)] == [["A100"], ["A100"]]
    assert work.event(1, "excluded")["nodes"] == ["n2"]
    assert "attempt 1 ran on 1 x A100, and here the job would have 1 x H100" in work.text()
    assert "to start it on other nodes than n2" in work.text()
    work.check_answer()


def test_a_job_that_is_bound_to_a_node_with_other_gpus_is_refused(cluster: SlurmCluster, shared: Path) -> None:
    work = Work(cluster, shared, steps=300)
    text = script(work, {"n1": "A100", "n2": "H100"})
    first = work.submit("--nodelist=n1", script=text)
    work.wait_step(25)
    cluster.cancel(first)
    cluster.wait_ended(first)
    second = work.submit("--nodelist=n2", script=text)
    assert cluster.wait_ended(second) == "FAILED", work.text()
    (row,) = cluster.wait_history(second, "FAILED")
    assert row["ExitCode"] == "80:0"
    assert work.attempts == 1
    assert "nothing was started, and what is saved stays" in work.text()
