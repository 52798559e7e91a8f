"""torchrun with two gloo workers below the launcher: one is killed, and the job goes on."""

import shutil
import signal
import sys
from pathlib import Path

import pytest

from .conftest import Ended, Launcher, wait_for

pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")]

WORKER = """
import json, os, signal, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, marks = dist.get_rank(), sys.argv[1]
generation = len([n for n in os.listdir(marks) if n.startswith(f"rank{rank}-")])
open(f"{marks}/rank{rank}-{generation}", "w").close()
path = f"{marks}/out.json"
step = json.load(open(path))["step"] if os.path.exists(path) else 0
print(f"rank {rank} generation {generation} begins after step {step}", flush=True)
x = torch.ones(1)
while step < 6:
    dist.all_reduce(x)
    step += 1
    if rank == 0:
        with open(path + ".tmp", "w") as file:
            json.dump({"step": step}, file)
        os.replace(path + ".tmp", path)
    dist.barrier()
    if rank == 1 and step == 3 and generation == 0:
        os.kill(os.getpid(), signal.SIGKILL)
print(f"rank {rank} done", flush=True)
dist.destroy_process_group()
"""


def torchrun(launcher: Launcher, worker: Path, *options: str) -> Ended:
    marks = launcher.directory / "marks"
    marks.mkdir()
    launcher.environment.pop("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", None)
    launcher.environment["OMP_NUM_THREADS"] = "1"
    return launcher.run(
        "--checkpoints",
        "marks/out.json",
        "--grace",
        "40s",
        "--",
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=2",
        "--master-port=0",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=localhost:0",
        *options,
        worker,
        marks,
    )


@pytest.fixture
def worker(script) -> Path:
    return script("worker.py", WORKER)


def test_torchrun_restarts_its_workers_itself(launcher: Launcher, worker: Path) -> None:
    ended = torchrun(launcher, worker, "--max-restarts=2")
    assert ended.code == 0, ended.err[-3000:]
    assert launcher.outcomes() == ["finished"]
    assert "rank 0 generation 1 begins after step 3" in ended.out
    assert ended.out.count(" done") == 2
    assert "torchrun kills its workers 30 s after a stop" in ended.err


def test_the_launcher_restarts_torchrun_and_calls_it_killed_rather_than_a_program_error(
    launcher: Launcher, worker: Path
) -> None:
    ended = torchrun(launcher, worker, "--max-restarts=0")
    assert ended.code == 0, ended.err[-3000:]
    assert launcher.outcomes() == ["killed", "finished"]
    assert launcher.event(1, "ended")["reason"] == "ended by SIGKILL"
    assert "rank 0 generation 1 begins after step 3" in ended.out


SIGNALLED = """
import os, signal, sys, time
import torch.distributed as dist
dist.init_process_group("gloo")
stop = []
for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, lambda n, _: stop.append(signal.Signals(n).name))
print("ready", flush=True)
while not stop:
    time.sleep(0.05)
time.sleep(0.3)
print(f"rank {dist.get_rank()} saved after {stop[0]}", flush=True)
os._exit(75)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_signals_reach_the_ranks_although_torchrun_would_not_pass_them_on(
    launcher: Launcher, script, number: signal.Signals
) -> None:
    launcher.environment["OMP_NUM_THREADS"] = "1"
    command = ["torch.distributed.run", "--nproc-per-node=2", "--standalone", script("signalled.py", SIGNALLED)]
    process = launcher.start(sys.executable, "-m", *command)
    wait_for(lambda: launcher.output().count("ready") == 2)
    process.send_signal(number)
    ended = launcher.end_of(process)
    assert ended.code == 75
    # torchrun itself gets SIGTERM and sends it on; whichever of the two signals is first will do.
    assert "rank 0 saved after SIG" in ended.out
    assert "rank 1 saved after SIG" in ended.out
    assert launcher.outcomes() == ["preempted"]
