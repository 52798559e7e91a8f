"""`lastgood fingerprint`: what is here, and what differs between files, checkpoints, jobs and attempts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lastgood.core.fingerprint import EDITION, NEWEST_EDITION
from lastgood.store.attempts import Journal, claim_attempt
from lastgood.store.jobdir import JobDirectory, create_job

A100 = {EDITION: NEWEST_EDITION, "gpu": "A100", "cudnn": "91002", "torch": "2.6", "host": "n1"}
H100 = {EDITION: NEWEST_EDITION, "gpu": "H100", "cudnn": "91300", "torch": "2.6", "host": "n2"}


@pytest.fixture
def job(tmp_path: Path) -> JobDirectory:
    """Without any attempt."""
    return create_job(tmp_path / "job")


def attempt(job, kind: str, facts: dict[str, str] | None) -> None:
    journal = Journal(job, claim_attempt(job, "launch").attempt)
    journal.write(kind, **({} if facts is None else {"fingerprint": facts}))
    journal.close()


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "tools" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho '0, GPU-1, NVIDIA A100-SXM4-80GB, 550.54.15'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return program


def test_what_is_here(lastgood, monkeypatch):
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    said = lastgood("fingerprint", "--json")
    assert said.code == 0
    answer = said.answer("fingerprint")
    facts = {fact.name: fact for fact in answer.facts}
    assert facts["machine"].value == os.uname().machine
    assert (facts["NCCL_ALGO"].value, facts["NCCL_ALGO"].effect) == ("Ring", "changes numbers")
    assert facts["host"].effect == "does not"
    assert {"python", "numpy", "blas", "cpu.count", "libc"} <= facts.keys()
    assert "secret" not in said.out


def test_as_a_table(lastgood, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    said = lastgood("fingerprint")
    assert "OMP_NUM_THREADS  changes numbers     3\n" in said.out
    assert max(map(len, said.out.splitlines())) <= 80


def test_gpus_are_those_that_nvidia_smi_tells(lastgood, smi):
    facts = {fact.name: fact.value for fact in lastgood("fingerprint", "--json").answer("fingerprint").facts}
    assert (facts["gpu"], facts["gpu.count"], facts["gpu.driver"]) == ("NVIDIA A100-SXM4-80GB", "1", "550.54.15")


def test_an_nvidia_smi_that_fails_is_told_and_the_rest_is_there(lastgood, smi):
    smi.write_text("#!/bin/sh\necho Failed to initialize NVML: Driver/library version mismatch\nexit 18\n")
    said = lastgood("fingerprint")
    assert said.code == 0
    assert "Driver/library version mismatch" in said.err
    assert "numpy" in said.out


@pytest.mark.slow
def test_another_interpreter_is_asked_with_torch_imported(lastgood):
    answer = lastgood("fingerprint", "--json", "--", sys.executable).answer("fingerprint")
    facts = {fact.name: fact.value for fact in answer.facts}
    import torch

    assert facts["torch"] == torch.__version__
    assert {"torch.threads", "torch.cpu", "torch.deterministic", "torch.matmul.precision", "numpy"} <= facts.keys()


def test_an_interpreter_without_any_library_says_what_it_has(lastgood, tmp_path):
    bare = tmp_path / "python-bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    facts = {fact.name for fact in lastgood("fingerprint", "--json", "--", bare).answer("fingerprint").facts}
    assert "python" in facts
    assert not facts & {"numpy", "torch"}


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--", "bash"], 2, "what it computes with is not known here"),
        (["--", "python-of-nobody"], 127, "python-of-nobody cannot be run"),
        (["--diff", "here", "here", "--", "python"], 2, "leave `--` and what follows it out"),
        (["--diff", "here"], 2, "expected 2 arguments"),
        (["--diff", "here", "nothing"], 66, "nothing"),
        (["--diff", "here", "nothing:x"], 66, "name an attempt of a job as JOB:3"),
    ],
)
def test_what_cannot_be_meant_is_said(lastgood, tmp_path, monkeypatch, words, code, says):
    monkeypatch.chdir(tmp_path)
    said = lastgood("fingerprint", *words)
    assert said.code == code
    assert says in said.err


def test_a_program_that_is_no_python_in_spite_of_its_name(lastgood, tmp_path):
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    said = lastgood("fingerprint", "--", program)
    assert said.code == 2
    assert "ended with 3 and gave no answer" in said.err


def test_two_attempts_differ_in_their_gpus(lastgood, job):
    attempt(job, "started", A100)
    attempt(job, "surroundings", H100)
    said = lastgood("fingerprint", "--diff", f"{job.path}:1", f"{job.path}:2")
    assert said.code == 1
    assert said.out == (
        f"A  {job.path}:1\nB  {job.path}:2\n\n"
        "changes numbers\n  gpu: A100 -> H100\n    another model runs other kernels, and sums in another order\n\n"
        "may change numbers\n  cudnn: 91002 -> 91300\n"
        "    convolutions, recurrent layers and attention may take another algorithm\n\n"
        "does not change numbers\n  host: n1 -> n2\n    its name alone changes nothing\n"
    )


def test_the_name_of_the_host_alone_is_no_difference(lastgood, job):
    attempt(job, "started", A100)
    attempt(job, "started", {**A100, "host": "n2"})
    said = lastgood("fingerprint", "--diff", f"{job.path}:1", f"{job.path}:2", "--json")
    answer = said.answer("fingerprint --diff")
    assert (said.code, answer.may_differ) == (0, False)
    assert [one.name for one in answer.differences] == ["host"]


def test_a_job_is_its_newest_attempt_that_tells(lastgood, job):
    attempt(job, "started", A100)
    attempt(job, "started", H100)
    attempt(job, "refused", None)
    answer = lastgood("fingerprint", "--diff", job.path, f"{job.path}:1", "--json").answer("fingerprint --diff")
    assert (answer.old, answer.new) == (f"{job.path}:2", f"{job.path}:1")


def test_a_checkpoint_and_its_manifest_and_the_attempt_that_wrote_it_are_the_same(lastgood, job, save_step):
    claim_attempt(job, "launch")
    path = job.checkpoints / save_step(5, fingerprint=A100).name
    claim_attempt(job, "launch")
    for other in (path / "manifest.json", f"{job.path}:1", job.path):
        said = lastgood("fingerprint", "--diff", path, other)
        assert said.code == 0, said
        assert "nothing differs that can change numbers" in said.out


def test_a_file_that_was_written_compares_with_here(lastgood, tmp_path, monkeypatch):
    monkeypatch.delenv("MKL_CBWR", raising=False)
    path = tmp_path / "facts.json"
    path.write_text(lastgood("fingerprint", "--json").out)
    assert lastgood("fingerprint", "--diff", path, "here").code == 0
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    said = lastgood("fingerprint", "--diff", path, "here")
    assert said.code == 1
    assert "MKL_CBWR: not set -> COMPATIBLE" in said.out


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"\xff\xfe", b'{"facts": 3, "edition": "2"}', b'{"facts": [1]}', b"[" * 9000]
)
def test_a_file_of_something_else_is_named(lastgood, tmp_path, content):
    path = tmp_path / "other"
    path.write_bytes(content)
    said = lastgood("fingerprint", "--diff", path, "here")
    assert said.code == 65
    assert f"{path} holds no fingerprint" in said.err


def test_an_attempt_that_is_not_there_or_tells_nothing(lastgood, job):
    attempt(job, "refused", None)
    said = lastgood("fingerprint", "--diff", f"{job.path}:7", "here")
    assert (said.code, "there is no attempt 7" in said.err) == (66, True)
    said = lastgood("fingerprint", "--diff", f"{job.path}:1", "here")
    assert (said.code, "attempt 1 has not written down where it ran" in said.err) == (66, True)


@pytest.mark.slow
def test_what_real_attempts_write_down(tmp_path):
    """A program with the library, and a wrapped command; each run twice, the second time with one thread."""
    library = "import lastgood\nrun = lastgood.Run({'x': {}})\nfor step in run.steps(1): pass\n"
    environment = {**os.environ, "LASTGOOD_STATE_DIR": str(tmp_path / "state")}
    environment.pop("OMP_NUM_THREADS", None)
    for name, command in {
        "own": ["--", sys.executable, "-c", library],
        "wrapped": ["--checkpoints", "*.pt", "--resume-arg", "{checkpoint}", "--", "true"],
    }.items():
        job = str(tmp_path / name)
        for threads in ({}, {"OMP_NUM_THREADS": "1"}):
            words = [sys.executable, "-m", "lastgood", "run", "--job", job, "--fresh", *command]
            done = subprocess.run(
                words, env={**environment, **threads}, cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
        words = [sys.executable, "-m", "lastgood", "fingerprint", "--json", "--diff", f"{job}:1", f"{job}:2"]
        told = json.loads(subprocess.run(words, capture_output=True, text=True, check=False).stdout)
        found = {one["name"]: (one["old"], one["new"]) for one in told["differences"]}
        assert found.pop("OMP_NUM_THREADS") == ("not set", "1")
        assert found.keys() <= {"blas.threads"}
