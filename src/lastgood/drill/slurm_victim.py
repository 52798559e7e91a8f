"""Kills one process of a Slurm job on the node on which it is started, and says so as a line of JSON.

    srun --overlap --jobid=7 python -m lastgood.drill.slurm_victim 7 CLUSTER rank 0

On a node that has no such process nothing is done and nothing is said.
"""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence

import psutil

from lastgood.core.signals import SIGKILL
from lastgood.trial import processes

_GONE_LIMIT_S = 5.0
_MOST_STEPS = 2**31
"""Numbers above are Slurm's own steps: the batch script, an interactive shell."""


def main(job_id: str, cluster: str, kind: str, rank: str) -> int:
    found = _of_job(job_id, cluster)
    victim = _launcher(found) if kind == "launcher" else _rank(found, rank)
    if victim is None:
        return 0
    at = time.time()
    victim.send_signal(SIGKILL)
    end = time.monotonic() + _GONE_LIMIT_S
    while processes.is_alive(victim.pid) and time.monotonic() < end:
        time.sleep(0.001)
    told = {"node": _node(os.environ), "pid": victim.pid, "at": at, "is_gone": not processes.is_alive(victim.pid)}
    # Read by the drill from srun's output.
    sys.stdout.write(json.dumps(told) + "\n")
    return 0


def _rank(found: Sequence[psutil.Process], rank: str) -> psutil.Process | None:
    """What computes as this rank: of a step of the job, or of its batch script where it starts no step."""
    found = [process for process in found if not processes.is_of_ours(process)]
    found = [process for process in found if processes.environment_of(process).get("SLURM_PROCID") == rank]
    in_steps = [process for process in found if _is_in_step(process)]
    if not in_steps and any(process.name() == "srun" for process in found):
        # Its step is on other nodes.
        return None
    return next(iter(processes.leaves(in_steps or found)), None)


def _launcher(found: Sequence[psutil.Process]) -> psutil.Process | None:
    return next((process for process in found if processes.is_launcher(process)), None)


def _of_job(job_id: str, cluster: str) -> list[psutil.Process]:
    """On this node, without those of our own step."""
    found = []
    for process in psutil.process_iter():
        environment = processes.environment_of(process)
        if environment.get("SLURM_JOB_ID") != job_id or _node(environment) != _node(os.environ):
            continue
        # A machine may be of several clusters, each of which has a job of that number. srun does not always tell of which.
        if environment.get("SLURM_CLUSTER_NAME", cluster) != cluster:
            continue
        if environment.get("SLURM_STEP_ID", "") == os.environ.get("SLURM_STEP_ID", "-"):
            continue
        if process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            found.append(process)
    return found


def _is_in_step(process: psutil.Process) -> bool:
    step = processes.environment_of(process).get("SLURM_STEP_ID", "")
    return step.isdigit() and int(step) < _MOST_STEPS


def _node(environment: Mapping[str, str]) -> str:
    return environment.get("SLURMD_NODENAME", "")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
