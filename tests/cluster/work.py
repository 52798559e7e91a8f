"""A job that computes, for the cluster: its program, its batch script, and whether its answer is the right one."""

import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from journals import whole_lines

from .machine import wait_until
from .slurm import LIMIT_S, SlurmCluster

PROGRAM = '''
"""Random walks. Each rank has its own; with torch they also add up their steps over gloo."""
import hashlib, json, os, signal, sys, time
import numpy as np
import lastgood

settings = json.loads(sys.argv[1])
rank = int(os.environ.get("SLURM_PROCID", "0"))
world = int(os.environ.get("SLURM_NTASKS", "1")) if settings["ranks"] > 1 else 1
if world > 1:
    import torch.distributed as dist
    dist.init_process_group("gloo", init_method=f"file://{os.environ['MEETING']}-{os.environ['LASTGOOD_ATTEMPT']}-{os.environ['LASTGOOD_LAUNCH']}", rank=rank, world_size=world)
    import torch
x = np.zeros(settings["size"])
if settings["slow_write"]:
    settings["options"]["writing"] = lastgood.Writing(limit=settings["slow_write"])
run = lastgood.Run({"x": x}, every=settings["every"], config={"steps": settings["steps"]}, **settings["options"])
if run.step == 0:
    np.random.seed(1234 + rank)
restarts = os.environ.get("SLURM_RESTART_COUNT", "0")
for step in run.steps(settings["steps"]):
    x += np.random.standard_normal(x.size)
    if world > 1:
        total = torch.tensor([float(x[0])], dtype=torch.float64)
        dist.all_reduce(total)
        x[1] = float(total[0])
    print(f"step {step} of rank {rank} in attempt {os.environ.get('LASTGOOD_ATTEMPT', '?')}", flush=True)
    for fault in settings["faults"]:
        here = {"restart": restarts, "attempt": os.environ["LASTGOOD_ATTEMPT"], "node": os.environ["SLURMD_NODENAME"]}
        if fault["step"] == step and fault["rank"] == rank and all(str(fault[name]) in (here[name], "any") for name in here):
            while fault["after"] and not os.path.exists(fault["after"]):
                time.sleep(0.05)
            if fault["how"] == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if fault["how"] == "bus":
                os.kill(os.getpid(), signal.SIGBUS)
            if fault["how"] == "hang":
                time.sleep(1000)
            if fault["how"] == "raise":
                raise KeyError("a mistake in the program")
            if fault["how"] == "again":
                sys.exit(75)
            if fault["how"] == "quit":
                sys.exit(0)
            if fault["how"] == "device":
                raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
            if fault["how"] == "network":
                raise RuntimeError("[/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1234")
    time.sleep(settings["pause_s"])
digest = hashlib.sha256(x.tobytes()).hexdigest()
(lambda path: (open(path + ".new", "w").write(digest), os.replace(path + ".new", path)))(os.path.join(settings["results"], f"rank-{rank}"))
print(f"finished rank {rank}", flush=True)
if world > 1:
    dist.destroy_process_group()
'''


class Work:
    """One job on the cluster. Everything of it lies in `directory`, which all nodes see."""

    def __init__(
        self,
        cluster: SlurmCluster,
        directory: Path,
        *,
        steps: int = 200,
        pause_s: float = 0.05,
        every: int = 10,
        ranks: int = 1,
        size: int = 1000,
        faults: list[dict[str, Any]] | None = None,
        slow_write: str = "",
        **options: Any,
    ) -> None:
        """`faults`: what a rank does to itself, such as `fault(30, "kill", rank=1)`. `options` are those of `Run`.
        `slow_write`: no more bytes are written in a second, such as "20MB/s"."""
        self.cluster = cluster
        self.directory = directory
        self.job = directory / "job"
        self.output = directory / "output.txt"
        self.results = directory / "results"
        self.results.mkdir(parents=True, exist_ok=True)
        self.ranks = ranks
        self.settings = {
            "steps": steps,
            "pause_s": pause_s,
            "every": every,
            "ranks": ranks,
            "size": size,
            "faults": faults or [],
            "slow_write": slow_write,
            "options": options,
            "results": os.fspath(self.results),
        }
        self.program = directory / "program.py"
        self.program.write_text(PROGRAM)

    def python(self) -> list[str]:
        return [sys.executable, os.fspath(self.program), json.dumps(self.settings)]

    def command(self, *srun: str) -> list[str]:
        """The program under srun, a rank on each of as many nodes."""
        return ["srun", *(srun or (f"--nodes={self.ranks}", f"--ntasks={self.ranks}")), *self.python()]

    def script(self, *run_options: str, command: list[str] | None = None, last: str = "") -> str:
        """A batch script by hand: its last line is `lastgood run`, or `last` for a job without it."""
        words = [sys.executable, "-m", "lastgood", "run", "--job", os.fspath(self.job), *run_options]
        line = last or f"exec {shlex.join([*words, '--', *(command or self.command())])}"
        exports = {
            "LASTGOOD_STATE_DIR": os.fspath(self.directory / "state"),
            "MEETING": os.fspath(self.directory / "meeting"),
            "OMP_NUM_THREADS": "1",
        }
        lines = ["#!/bin/bash", *(f"export {name}={shlex.quote(value)}" for name, value in exports.items()), line]
        return "\n".join(lines) + "\n"

    def submit(self, *sbatch: str, script: str | None = None) -> int:
        options = [
            f"--nodes={self.ranks}",
            f"--ntasks={self.ranks}",
            "--ntasks-per-node=1",
            "--open-mode=append",
            f"--output={self.output}",
            *sbatch,
        ]
        return self.cluster.submit(script or self.script(), *options, directory=self.directory)

    def expected(self) -> list[str]:
        """The answers of an uninterrupted run, computed here, without Slurm."""
        place = self.directory / "expected"
        place.mkdir(exist_ok=True)
        settings = {**self.settings, "pause_s": 0, "faults": [], "results": os.fspath(place)}
        processes = []
        for rank in range(self.ranks):
            given = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "LASTGOOD_"))}
            given |= {"SLURM_PROCID": str(rank), "SLURM_NTASKS": str(self.ranks), "OMP_NUM_THREADS": "1"}
            given |= {"LASTGOOD_JOB": os.fspath(place / "job"), "LASTGOOD_STATE_DIR": os.fspath(place / "state")}
            given |= {"LASTGOOD_KEEPER": "off", "LASTGOOD_ATTEMPT": "1", "LASTGOOD_LAUNCH": "expected"}
            given |= {"MEETING": os.fspath(place / "meeting")}
            processes.append(
                subprocess.Popen(
                    [sys.executable, os.fspath(self.program), json.dumps(settings)],
                    env=given,
                    stdout=subprocess.DEVNULL,
                )
            )
        assert [process.wait(LIMIT_S) for process in processes] == [0] * self.ranks
        return self._answers(place)

    def answers(self) -> list[str]:
        return self._answers(self.results)

    def _answers(self, place: Path) -> list[str]:
        return [(place / f"rank-{rank}").read_text() for rank in range(self.ranks)]

    def check_answer(self) -> None:
        """All ranks have the same bits as an uninterrupted run."""
        assert self.answers() == self.expected(), self.text()

    # What it says

    def text(self) -> str:
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def reached(self, rank: int = 0) -> int:
        """The highest step that a rank has printed, in any attempt."""
        return max(map(int, re.findall(rf"step (\d+) of rank {rank} ", self.text())), default=0)

    def wait_step(self, step: int, rank: int = 0, limit_s: float = LIMIT_S) -> None:
        self.wait_until(lambda: self.reached(rank) >= step, f"step {step}", limit_s)

    def wait_text(self, text: str, limit_s: float = LIMIT_S) -> None:
        self.wait_until(lambda: text in self.text(), text, limit_s)

    def wait_until(self, true: Any, what: str, limit_s: float = LIMIT_S) -> None:
        try:
            wait_until(true, what, limit_s)
        except AssertionError as error:
            parts = [
                str(error),
                "--- output of the job",
                self.text()[-6000:],
                "--- what runs on the nodes",
                *self._running(),
            ]
            raise AssertionError("\n".join(parts)) from None

    def _running(self) -> list[str]:
        """Each process of the cluster's jobs: where it is, its state, what it waits for in the kernel, and its command line."""
        lines = []
        for node in self.cluster.nodes:
            for process in self.cluster.processes_of_node(node):
                with suppress(psutil.Error, OSError):
                    waits_in = Path(f"/proc/{process.pid}/wchan").read_text()
                    words = " ".join(process.cmdline())[:200]
                    lines.append(f"{node} {process.pid} of {process.ppid()} {process.status()} in {waits_in}: {words}")
        return lines

    def done_twice(self, rank: int = 0) -> int:
        """Steps that a rank did more than once."""
        steps = re.findall(rf"step (\d+) of rank {rank} ", self.text())
        return len(steps) - len(set(steps))

    def events(self, attempt: int) -> list[dict[str, Any]]:
        lines = whole_lines(self.job / "attempts" / f"{attempt:04d}.events.jsonl")
        return [event for event in lines if "kind" in event]

    def event(self, attempt: int, kind: str) -> dict[str, Any]:
        return next(event["data"] for event in reversed(self.events(attempt)) if event["kind"] == kind)

    def event_steps(self, attempt: int, kind: str) -> list[int]:
        return [event["data"]["step"] for event in self.events(attempt) if event["kind"] == kind]

    @property
    def attempts(self) -> int:
        return len(list((self.job / "attempts").glob("*[0-9].json")))

    def outcomes(self) -> list[str]:
        ends = [[e for e in self.events(n) if e["kind"] == "ended"] for n in range(1, self.attempts + 1)]
        return [end[-1]["data"]["outcome"] if end else "" for end in ends]

    @property
    def is_finished(self) -> bool:
        return (self.job / "finished.json").exists()


def fault(
    step: int,
    how: str,
    *,
    rank: int = 0,
    restart: int | str = "any",
    attempt: int | str = 1,
    node: str = "any",
    after: Path | None = None,
) -> dict[str, Any]:
    """`how`: kill, bus, device, network, hang, raise, quit (with 0), again (with 75), wait (for `after`). It strikes where the restart count
    of Slurm, our attempt and the node are these, and not before there is the file `after`."""
    where = {"step": step, "rank": rank, "restart": restart, "attempt": attempt, "node": node}
    return {**where, "how": how, "after": os.fspath(after or "")}
