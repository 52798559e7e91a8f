"""The examples do what they say: killed once at a random moment by somebody else, they end as if nothing had been."""

import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

import lastgood

ROOT = Path(__file__).parents[2]
EXAMPLES = {
    "numpy_loop": (["examples/numpy_loop.py", "--epochs", "40"], 1),
    "torch_loop": (["examples/torch_loop.py", "--epochs", "12"], 1),
    "torch_ddp": (
        [
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            "2",
            "examples/torch_ddp.py",
            "--epochs",
            "8",
        ],
        2,
    ),
}
HELD_AT = {"numpy_loop": 3000, "torch_loop": 400, "torch_ddp": 150}
"""The step that the attempt which is killed does not get past: well after its first checkpoint, and before its end."""

LIMIT_S = 150


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_that_is_killed_ends_like_one_that_is_not(name: str, tmp_path: Path) -> None:
    command, ranks = EXAMPLES[name]
    killed, calm = tmp_path / "killed", tmp_path / "calm"
    script = command[-3] if ranks > 1 else command[0]
    at = command.index(script)
    launcher = start(killed, [*command[:at], "tests/examples/held.py", str(HELD_AT[name]), *command[at:]])
    try:
        kill_once(killed, launcher, script)
        assert launcher.wait(timeout=LIMIT_S) == 0, log_of(killed)
    finally:
        launcher.kill()
    assert start(calm, command).wait(timeout=LIMIT_S) == 0, log_of(calm)

    # torchrun may notice first the rank that lost its peer, and reports that one as the cause.
    assert re.search(r"(killed|communication timeout) \(", log_of(killed)), log_of(killed)
    assert re.search(r"resumed from step [1-9]", log_of(killed)), log_of(killed)
    for rank in range(ranks):
        assert lastgood.read_log(killed, rank) == lastgood.read_log(calm, rank) != {}


def start(job: Path, command: list[str]) -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-m", "lastgood", "run", "--job", os.fspath(job), "--", sys.executable, *command]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        words, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def kill_once(job: Path, launcher: "subprocess.Popen[bytes]", script: str) -> None:
    """SIGKILL to one process that runs the script, a random moment after the first checkpoint."""
    end = time.monotonic() + LIMIT_S
    while not any(job.glob("checkpoints/*/manifest.json")):
        assert launcher.poll() is None, log_of(job)
        assert time.monotonic() < end, "no checkpoint in time"
        time.sleep(0.01)
    time.sleep(random.random() * 0.3)
    # All of them stand still at once, so that none comes to its end while one is chosen.
    ranks = [p for p in psutil.Process(launcher.pid).children(recursive=True) if is_running(p, script) and suspend(p)]
    assert ranks, log_of(job)
    random.choice(ranks).send_signal(signal.SIGKILL)
    for process in ranks:
        with suppress(psutil.NoSuchProcess):
            process.resume()


def suspend(process: psutil.Process) -> bool:
    try:
        process.suspend()
    except psutil.NoSuchProcess:
        return False
    return True


def is_running(process: psutil.Process, script: str) -> bool:
    """True for a process that runs the script itself, not torchrun that was given its name."""
    try:
        words = process.cmdline()
    except psutil.NoSuchProcess:
        return False
    return any(word.endswith(script) for word in words) and "torch.distributed.run" not in words


def log_of(job: Path) -> str:
    path = job / "log.txt"
    return path.read_text(errors="replace") if path.exists() else "(no log)"


@pytest.mark.slow
def test_the_example_of_several_ranks_has_enough_samples_for_each_rank_in_an_epochs_last_step(tmp_path: Path) -> None:
    command, _ = EXAMPLES["torch_ddp"]
    words = ["4" if word == "2" else "1" if word == "8" else word for word in command]
    assert start(tmp_path / "job", words).wait(timeout=LIMIT_S) == 0, log_of(tmp_path / "job")
