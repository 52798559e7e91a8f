"""`lastgood submit --same-gpu` asks Slurm for the type of GPU that the job began on. Slurm is a fake."""

import os

import pytest

from lastgood.store.attempts import Journal, claim_attempt
from lastgood.store.jobdir import create_job
from schedulers.fake_slurm import FakeSlurm


@pytest.fixture
def fake(tmp_path, monkeypatch):
    fake = FakeSlurm(tmp_path / "slurm")
    monkeypatch.setenv("PATH", f"{fake.bin}:{os.environ['PATH']}")
    for name in list(os.environ):
        if name.startswith(("SBATCH_", "SLURM_")):
            monkeypatch.delenv(name)
    fake.answer(
        "scontrol",
        'case "$*" in *config*) echo "ClusterName = alpha";; *"node n7"*) echo "NodeName=n7 Gres=gpu:a100:4(S:0-1)";; '
        '*) echo "PartitionName=day Default=YES DefaultTime=NONE MaxTime=1-00:00:00 GraceTime=0";; esac',
    )
    fake.answer("sbatch", "echo 17")
    monkeypatch.chdir(tmp_path)
    return fake


@pytest.fixture
def begun(tmp_path):
    job = create_job(tmp_path / "runs" / "x")
    journal = Journal(job, claim_attempt(job, "launch").attempt)
    journal.write("allocation", scheduler="slurm", node="n7", nodes=["n7"])
    journal.write("surroundings", gpu_models=["NVIDIA A100"] * 2)
    journal.close()
    return job


def submitted(fake):
    return [words for words in fake.calls("sbatch") if words != ["--version"]][-1]


def test_the_type_of_the_first_node_is_asked_for(lastgood, fake, begun):
    said = lastgood("submit", "--job", "runs/x", "--gres=gpu:2", "--same-gpu", "--", "true")
    assert said.code == 0, said.err
    assert "the job began on GPUs of type a100: --gres=gpu:a100:2" in said.err
    assert submitted(fake)[1:3] == ["--gres=gpu:2", "--gres=gpu:a100:2"]
    script = (begun.path / "batch.sh").read_text()
    assert "#SBATCH --gres=gpu:2\n#SBATCH --gres=gpu:a100:2\n" in script
    assert "--same-gpu" in script


@pytest.mark.parametrize("option", [["--fresh", "--same-gpu"], []])
def test_a_new_start_or_one_that_takes_any_gpu_is_submitted_as_it_is(lastgood, fake, begun, option):
    assert lastgood("submit", "--job", "runs/x", "--gres=gpu:2", *option, "--", "true").code == 0
    assert "a100" not in (begun.path / "batch.sh").read_text()


def test_a_job_that_has_not_run_is_submitted_as_it_is(lastgood, fake):
    assert lastgood("submit", "--job", "runs/y", "--gres=gpu:2", "--same-gpu", "--", "true").code == 0
    assert submitted(fake)[1:-1] == ["--gres=gpu:2"]


def test_where_slurm_does_not_know_the_node_any_more_the_launcher_looks(lastgood, fake, begun):
    fake.answer(
        "scontrol",
        'case "$*" in *config*) echo "ClusterName = alpha";; *"show node"*) echo "Node n7 not found" >&2; exit 1;; '
        '*) echo "PartitionName=day Default=YES DefaultTime=NONE MaxTime=1-00:00:00 GraceTime=0";; esac',
    )
    assert lastgood("submit", "--job", "runs/x", "--gres=gpu:2", "--same-gpu", "--", "true").code == 0
    assert submitted(fake)[1:-1] == ["--gres=gpu:2"]
