"""`lastgood history`: our journals and Slurm's accounting in one table, also where one of them is missing."""

import os

import msgspec
import pytest

from lastgood.core.events import Event, encode
from lastgood.core.layout import attempt_file, events_file
from lastgood.core.sealed import seal
from lastgood.store.attempts import claim_attempt, read_attempt
from schedulers.fake_slurm import FakeSlurm

HEAD = "JobIDRaw|State|ExitCode|Start|End|NodeList|AllocTRES|Partition"


@pytest.fixture
def fake(tmp_path, monkeypatch):
    fake = FakeSlurm(tmp_path / "slurm")
    monkeypatch.setenv("PATH", f"{fake.bin}:{os.environ['PATH']}")
    fake.answer("sacct", f"echo '{HEAD.replace('|', ' ')}'", call=1)
    return fake


@pytest.fixture
def began(job, save_step):
    """Two attempts in two runs of Slurm job 7: the first lost five steps, the second is finished."""
    second = claim_attempt(job, "launch-2")
    at = read_attempt(job, 1).started
    (job.attempts / attempt_file(2)).write_bytes(seal(msgspec.structs.replace(second, started=at + 4000)))
    save_step(20, attempt=2)
    write(job, 1, at, [
        (0, "allocation", {"scheduler": "slurm", "job_id": "7", "restart_count": 0, "nodes": ["n1"], "gpus": 2}),
        (1, "launched", {"command": ["x"]}),
        (2, "started", {"how": "fresh", "step": 0}),
        (1800, "committed", {"step": 10, "name": "a"}),
        (3600, "ended", {"outcome": "killed", "reason": "ended by SIGKILL", "step": 15}),
        (3600, "decided", {"action": "hand back", "exit_code": 75}),
    ])  # fmt: skip
    write(job, 2, at, [
        (4000, "allocation", {"scheduler": "slurm", "job_id": "7", "restart_count": 1, "nodes": ["n2"], "gpus": 2}),
        (4001, "launched", {"command": ["x"]}),
        (4002, "started", {"how": "resumed", "step": 10}),
        (4300, "committed", {"step": 20, "name": "b"}),
        (4400, "ended", {"outcome": "finished", "reason": "all steps are done", "step": 20}),
        (4400, "decided", {"action": "done", "exit_code": 0}),
    ])  # fmt: skip
    return at


def write(job, number, at, events):
    data = b"".join(encode(Event(kind, at + after, data)) for after, kind, data in events)
    (job.attempts / events_file(number)).write_bytes(data)


def account(fake, *lines):
    text = "\n".join([HEAD, *lines])
    fake.answer("sacct", f"cat <<'E'\n{text}\nE", call=2)


def test_attempts_beside_the_runs_of_slurm(lastgood, fake, job, began):
    job.mark_finished(20, 2)
    first, second = int(began) - 5, int(began) + 3900
    account(
        fake,
        f"7|REQUEUED|75:0|{first}|{first + 3610}|n1|cpu=2,gres/gpu=2,node=1|main",
        f"7|COMPLETED|0:0|{second}|{second + 500}|n2|cpu=2,gres/gpu=2,node=1|main",
    )
    said = lastgood("history", job.path, "--json")
    answer = said.answer("history")
    assert said.code == 0
    assert fake.calls("sacct")[1][-2:] == ["-j", "7"]
    one, two = answer.attempts
    assert (one.attempt, one.slurm.state, one.slurm.exit_code, one.slurm.nodes) == (1, "REQUEUED", "75:0", ["n1"])
    assert (one.lost_steps, one.lost_s, one.lost_gpu_hours) == (5, pytest.approx(1800), pytest.approx(1.0))
    assert (two.attempt, two.slurm.restart_count, two.lost_gpu_hours) == (2, 1, 0)
    assert (answer.lost_gpu_hours, answer.note) == (pytest.approx(1.0), "")
    assert one.disagreement == two.disagreement == ""
    text = lastgood("history", job.path).out
    assert "lost  5 steps, 30 min 0 s, 1 GPU-hours" in text


def test_it_says_where_they_disagree(lastgood, fake, job, began):
    start = int(began) + 3900
    account(
        fake, f"7|FAILED|1:0|{start}|{start + 500}|n2||main", f"7|NODE_FAIL|0:0|{start + 9000}|{start + 9001}|n3||main"
    )
    said = lastgood("history", job.path)
    # Words wrap in the narrow last column.
    assert "! the job is finished" in " ".join(said.out.split())
    fake.answer("sacct", f"echo '{HEAD.replace('|', ' ')}'", call=3)
    text = "\n".join([HEAD, f"7|NODE_FAIL|0:0|{start + 9000}|{start + 9001}|n3||main"])
    fake.answer("sacct", f"cat <<'E'\n{text}\nE", call=4)
    answer = lastgood("history", job.path, "--json").answer("history")
    assert [a.attempt for a in answer.attempts] == [1, 2, None]
    assert answer.attempts[2].disagreement == "no attempt began in it"
    assert answer.attempts[2].slurm.state == "NODE_FAIL"


def test_without_accounting_there_is_a_note(lastgood, fake, job, began):
    fake.answer("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1", call=1)
    answer = lastgood("history", job.path, "--json").answer("history")
    assert "accounting storage is disabled" in answer.note
    assert [a.slurm.job_id for a in answer.attempts] == ["7", "7"]
    assert answer.lost_gpu_hours == pytest.approx(1.0)


def test_without_slurm_the_journals_alone(lastgood, job, save_step, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(job.path)
    said = lastgood("history", "--json")
    answer = said.answer("history")
    assert (said.code, answer.job, answer.note) == (0, str(job.path), "")
    assert [(a.attempt, a.slurm, a.lost_gpu_hours) for a in answer.attempts] == [(1, None, None)]
    assert "note" not in lastgood("history").out


def test_of_a_job_without_attempts(lastgood, tmp_path):
    from lastgood.store.jobdir import create_job

    create_job(tmp_path / "new")
    said = lastgood("history", tmp_path / "new")
    assert (said.code, "not started yet" in said.out) == (0, True)
    assert lastgood("history", tmp_path / "new", "--json").answer("history").effective_share is None


def test_of_no_job(lastgood, tmp_path):
    assert lastgood("history", tmp_path / "nowhere").code == 66
