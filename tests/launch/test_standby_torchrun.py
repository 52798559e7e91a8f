"""A standby for torchrun: a second one that waits with its ranks, each at its parking place."""

import shutil
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from lastgood.launch.torchrun_command import TorchrunCommand, parse_torchrun

from .conftest import Launcher, wait_for

RUN = ["python", "-m", "torch.distributed.run"]


@pytest.mark.parametrize(
    "options",
    [
        ["--standalone", "train.py"],
        ["--standalone", "--nproc_per_node", "2", "--max-restarts=0", "train.py", "--max-restarts", "3"],
        ["--nnodes=1", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "--tee", "3", "-m", "train"],
    ],
)
def test_one_that_meets_nobody_else_can_stand_beside_another(options: list[str]) -> None:
    found = parse_torchrun(["env", "A=1", "python", "-u", *RUN[1:], *options], {})
    assert isinstance(found, TorchrunCommand)
    assert found.first_life == ["python", "-u"]
    assert found.words == ["python", "-u", *RUN[1:], *options]
    assert found.assigned == {"A": "1"}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["train.py"], "a second torchrun would meet the first"),
        (["--rdzv-backend=c10d", "--rdzv-endpoint=head:29400", "train.py"], "a second torchrun would meet the first"),
        (["--standalone", "--nnodes=2", "train.py"], "a second torchrun would meet the first"),
        (["--standalone", "--max-restarts=2", "train.py"], "torchrun restarts its ranks itself"),
        (["--standalone", "--no-python", "train.sh"], "torchrun's option --no-python is none"),
        (["--standalone"], "torchrun has no script"),
    ],
)
def test_one_that_would_meet_another_or_does_more_than_we_know_of_cannot(options: list[str], why: str) -> None:
    assert str(parse_torchrun([*RUN, *options], {})).startswith(why)


def test_variables_that_change_what_torchrun_does_are_respected() -> None:
    for name in ("PYTHON_EXEC", "PET_NNODES"):
        assert parse_torchrun([*RUN, "--standalone", "train.py"], {name: "2"}) == f"{name} is set"
    assert parse_torchrun(["conda", "run", "torchrun", "train.py"], {}) == "torchrun is started by something else"


def test_the_interpreter_of_the_script_torchrun_is_the_one_in_its_first_line(tmp_path: Path) -> None:
    script = tmp_path / "torchrun"
    for line, is_told in (("#!/usr/bin/python3.11", True), ("#!/bin/sh", False), ("#!/usr/bin/env python", False)):
        script.write_text(f"{line}\n")
        script.chmod(0o755)
        found = parse_torchrun(["torchrun", "--standalone", "train.py"], {"PATH": str(tmp_path)})
        assert isinstance(found, TorchrunCommand) is is_told
        if isinstance(found, TorchrunCommand):
            assert found.first_life == ["/usr/bin/python3.11"]


PROGRAM = """
import os, signal, sys, time
import torch, torch.distributed as dist
import lastgood
dist.init_process_group("gloo")
rank, attempt = dist.get_rank(), int(os.environ["LASTGOOD_ATTEMPT"])
x = torch.zeros(2)
run = lastgood.Run({"x": x}, every=5)
order = os.path.join(os.environ["LASTGOOD_JOB"], f"order-{attempt}")
print(f"rank {rank} of attempt {attempt}", flush=True)
for step in run.steps(100_000):
    told = torch.tensor(float(os.path.exists(order)))
    dist.all_reduce(told)
    x += 1
    time.sleep(0.02)
    if told == 2 and open(order).read() == "kill" and rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if told == 2 and open(order).read() == "finish":
        run.finish()
        break
# In one piece: both ranks write this at once, into one pipe.
print(f"right: {x[0].item() == step}", flush=True)
dist.destroy_process_group()
"""


class Ranks:
    """torchrun with two ranks below a launcher with --standby."""

    def __init__(self, launcher: Launcher, script: Path, command: list[str]) -> None:
        self.launcher = launcher
        launcher.environment["OMP_NUM_THREADS"] = "1"
        launcher.environment.pop("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", None)
        launcher.start("--standby", "--", *command, "--standalone", "--nproc-per-node=2", script)

    def wait(self, attempt: int) -> None:
        events = self.launcher.events
        wait_for(lambda: any(e["kind"] == "standby" for e in events(attempt)), "a standby, or word of why not")
        assert self.launcher.event(attempt, "standby")["is_ready"], self.launcher.event(attempt, "standby")

    def standby(self) -> psutil.Process:
        """The second torchrun."""
        running = self.launcher.event(1, "launched")["pid"]
        children = psutil.Process(self.launcher.processes[-1].pid).children()
        return next(c for c in children if c.pid != running and "keeper" not in " ".join(c.cmdline()))

    def order(self, attempt: int, how: str) -> None:
        new = self.launcher.job / "order.new"
        new.write_text(how)
        new.rename(self.launcher.job / f"order-{attempt}")

    def kill(self, attempt: int) -> bool:
        """Whether the attempt after this one began from a standby."""
        self.order(attempt, "kill")
        events = self.launcher.events
        wait_for(lambda: any(e["kind"] == "launched" for e in events(attempt + 1)), "the next attempt")
        return bool(self.launcher.event(attempt + 1, "launched")["is_standby"])


@pytest.fixture
def train(script: Callable[[str, str], Path]) -> Path:
    pytest.importorskip("torch")
    return script("train.py", PROGRAM)


@pytest.mark.slow
def test_the_ranks_of_a_second_torchrun_take_over_for_those_of_the_first(launcher: Launcher, train: Path) -> None:
    ranks = Ranks(launcher, train, [sys.executable, *RUN[1:]])
    ranks.wait(1)
    assert launcher.output().count("of attempt") == 2, "no rank has run the script beside the attempt"
    standby = ranks.standby()
    assert len(standby.children()) == 2
    assert ranks.kill(1)
    assert launcher.event(2, "launched")["pid"] == standby.pid
    ranks.wait(2)
    ranks.order(2, "finish")
    ended = launcher.end_of(launcher.processes[-1])
    assert ended.code == 0, ended.err[-3000:]
    assert ended.out.count("of attempt 2") == 2
    assert ended.out.count("right: True") == 2


@pytest.mark.slow
def test_the_script_torchrun_is_as_good(launcher: Launcher, train: Path) -> None:
    torchrun = Path(sys.executable).with_name("torchrun")
    if not torchrun.exists() and not shutil.which("torchrun"):
        pytest.skip("there is no torchrun")
    ranks = Ranks(launcher, train, [str(torchrun)])
    ranks.wait(1)
    assert ranks.kill(1)
    launcher.wait_for_output("of attempt 2")
    ranks.order(2, "finish")
    assert launcher.end_of(launcher.processes[-1]).code == 0


@pytest.mark.slow
def test_neither_the_launchers_death_nor_torchruns_leaves_a_waiting_rank_behind(
    launcher: Launcher, train: Path
) -> None:
    ranks = Ranks(launcher, train, [sys.executable, *RUN[1:]])
    ranks.wait(1)
    waiting = ranks.standby().children()
    ranks.standby().kill()
    launcher.wait_for_output("no standby: it was ended by SIGKILL", "err")
    wait_for(lambda: not any(process.is_running() for process in waiting), "the end of the ranks that waited")
    assert not ranks.kill(1)
    ranks.wait(2)
    launcher.processes[-1].send_signal(signal.SIGKILL)
    wait_for(lambda: not launcher.survivors(), "no process left")


@pytest.mark.slow
def test_a_port_that_another_has_taken_meanwhile_means_a_cold_start(launcher: Launcher, train: Path) -> None:
    ranks = Ranks(launcher, train, [sys.executable, *RUN[1:]])
    ranks.wait(1)
    port = int(ranks.standby().children()[0].environ()["MASTER_PORT"])
    with socket.socket() as other:
        other.bind(("", port))
        other.listen()
        assert not ranks.kill(1)
    assert f"port {port}, where its ranks would meet, is used by another process now" in launcher.output(-1, "err")
    launcher.wait_for_output("of attempt 2")
    ranks.order(2, "finish")
    assert launcher.end_of(launcher.processes[-1]).code == 0
