"""`lastgood submit`, `script`, `status` and `history` on a real Slurm, as a person uses them."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lastgood.cli.answers import HistoryAnswer, StatusAnswer

from .slurm import SlurmCluster
from .work import Work

Said = subprocess.CompletedProcess[str]


@pytest.fixture
def lastgood(cluster: SlurmCluster, shared: Path) -> Callable[..., Said]:
    """A command of ours on this cluster, run in the directory that all nodes see."""

    def run(*words: object, limit_s: float = 200) -> Said:
        return subprocess.run(
            [sys.executable, "-m", "lastgood", *map(str, words)],
            cwd=shared,
            env={**cluster.environment, "LASTGOOD_STATE_DIR": str(shared / "state"), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )

    return run


def work(cluster: SlurmCluster, shared: Path, **settings: Any) -> Work:
    made = Work(cluster, shared, **settings)
    made.output = made.job / "nothing"
    return made


def follow(made: Work, job_id: int | str) -> Work:
    """The output of a job is where `lastgood submit` puts it."""
    made.output = made.job / f"slurm-{job_id}.out"
    return made


def numbers(said: Said) -> list[int]:
    assert said.returncode == 0, said.stderr
    first = said.stdout.splitlines()[0]
    return [int(word) for word in first.rpartition("job")[2].split() if word.isdigit()]


def history(lastgood: Callable[..., Said], name: object) -> HistoryAnswer:
    said = lastgood("history", name, "--json")
    assert said.returncode == 0, said.stderr
    return msgspec.json.decode(said.stdout, type=HistoryAnswer)


def test_a_job_runs_to_its_end_and_its_number_tells_of_it(
    cluster: SlurmCluster, shared: Path, lastgood: Callable[..., Said]
) -> None:
    job = work(cluster, shared, steps=20)
    said = lastgood(
        "submit", "--job", job.job, "--gres=gpu:2", "--comment", 'a "comment" # of mine', "--", *job.python()
    )
    (number,) = numbers(said)
    follow(job, number)
    assert cluster.show(number)["Requeue"] == "1"
    assert cluster.wait_ended(number) == "COMPLETED"
    assert job.is_finished
    job.check_answer()

    status = lastgood("status", number, "--json")
    assert (status.returncode, msgspec.json.decode(status.stdout, type=StatusAnswer).state) == (0, "finished")
    cluster.wait_history(number, "COMPLETED")
    answer = history(lastgood, number)
    (attempt,) = answer.attempts
    assert attempt.slurm is not None
    assert (attempt.outcome, attempt.slurm.state, attempt.slurm.exit_code) == ("finished", "COMPLETED", "0:0")
    assert (attempt.slurm.gpus, len(attempt.slurm.nodes), attempt.lost_gpu_hours) == (2, 1, 0)
    assert (attempt.disagreement, answer.note) == ("", "")


def test_what_script_prints_can_be_submitted_by_hand(
    cluster: SlurmCluster, shared: Path, lastgood: Callable[..., Said]
) -> None:
    job = work(cluster, shared, steps=10)
    job.job = shared / "it's my job"
    options = ["--job-name=first", "--comment", 'b "c" # d \\ e', "--nodes", "1", "--job-name=second"]
    said = lastgood("script", "--job", job.job, *options, "--", *job.python())
    assert said.returncode == 0, said.stderr
    assert "mkdir -p" in said.stderr
    job.job.mkdir()
    path = shared / "by-hand.sh"
    path.write_text(said.stdout)
    number = int(cluster.run("env", f"LASTGOOD_STATE_DIR={shared}/state", "sbatch", "--parsable", path).stdout)
    follow(job, number)
    shown = cluster.run("scontrol", "show", "job", str(number)).stdout
    assert 'Comment=b "c" # d \\ e' in shown
    assert "JobName=second\n" in shown
    assert cluster.wait_ended(number) == "COMPLETED"
    assert job.is_finished
    job.check_answer()


def test_segments_go_on_with_the_work_of_the_one_before(
    cluster: SlurmCluster, shared: Path, lastgood: Callable[..., Said]
) -> None:
    job = work(cluster, shared, steps=800, pause_s=0.1)
    said = lastgood(
        "submit", "--job", job.job, "--segments", "3", "--no-requeue", "--grace", "10s", "--", *job.python()
    )
    first, second, third = numbers(said)
    told = msgspec.json.decode(lastgood("status", second, "--json").stdout, type=StatusAnswer)
    assert told.slurm == f"job {second} is PENDING (Dependency)"
    assert cluster.show(second)["Dependency"].startswith(f"afterany:{first}")
    assert cluster.show(third)["Dependency"].startswith(f"afterany:{second}")
    follow(job, first).wait_step(15)
    # Its launcher has heard of another time limit at its start.
    cluster.limit_in(first, 35)
    cluster.wait_ended(first)
    cluster.wait_until(lambda: job.is_finished, "the job is finished", 90, second)
    job.wait_until(lambda: not cluster.run("squeue", "-h").stdout, "nothing is queued")
    assert job.attempts >= 2
    job.check_answer()
    answer = history(lastgood, third)
    assert [a.slurm.job_id for a in answer.attempts if a.slurm][:2] == [str(first), str(second)]
    assert answer.lost_steps == 0


def test_a_refused_option_leaves_nothing_in_the_queue(
    cluster: SlurmCluster, shared: Path, lastgood: Callable[..., Said]
) -> None:
    said = lastgood("submit", "--job", "x", "--partition=nix", "--", "true")
    assert said.returncode == 69
    assert "invalid partition specified: nix" in said.stderr
    assert "safe now: nothing was submitted" in said.stderr
    assert cluster.run("squeue", "-h").stdout == ""


def test_a_number_that_slurm_does_not_know(lastgood: Callable[..., Said]) -> None:
    said = lastgood("status", "99999")
    assert said.returncode == 66
    assert "Invalid job id specified" in said.stderr


def test_a_submission_waits_while_slurmctld_is_away_and_questions_do_without(
    cluster: SlurmCluster, shared: Path, lastgood: Callable[..., Said]
) -> None:
    job = work(cluster, shared, steps=400)
    (number,) = numbers(lastgood("submit", "--job", job.job, "--", *job.python()))
    follow(job, number).wait_step(3)
    cluster.stop_controller()
    try:
        status = lastgood("status", number, "--json")
        told = msgspec.json.decode(status.stdout, type=StatusAnswer)
        assert (status.returncode, told.state) == (0, "running")
        assert "slurmctld did not answer" in told.slurm
        assert history(lastgood, number).attempts[0].slurm is not None
        unknown = lastgood("status", number + 1)
        assert unknown.returncode == 69
        assert "give the job's directory" in unknown.stderr
        waiting = subprocess.Popen(
            [sys.executable, "-m", "lastgood", "submit", "--job", "y", "--", "true"],
            cwd=shared,
            env={**cluster.environment, "LASTGOOD_STATE_DIR": str(shared / "state")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        cluster.start_controller()
    out, err = waiting.communicate(timeout=200)
    assert waiting.returncode == 0, err
    assert out.startswith(f"submitted {shared}/y as job ")


def test_an_array_of_independent_jobs(cluster: SlurmCluster, shared: Path, lastgood: Callable[..., Said]) -> None:
    job = work(cluster, shared, steps=10)
    # All tasks compute the same, so they may write the same answer.
    (number,) = numbers(lastgood("submit", "--job", shared / "x-%a", "--array=1-3", "--", *job.python()))
    cluster.wait_until(lambda: not cluster.run("squeue", "-h").stdout, "nothing is queued")
    for task in (1, 2, 3):
        assert (shared / f"x-{task}" / "finished.json").exists(), (shared / f"slurm-{number}_{task}.out").read_text()
    job.check_answer()
    answer = history(lastgood, f"{number}_2")
    assert answer.job == f"{shared}/x-2"
    assert [a.outcome for a in answer.attempts] == ["finished"]
    several = lastgood("status", number)
    assert (several.returncode, f"name one of {number}_1, {number}_2, {number}_3" in several.stderr) == (2, True)
