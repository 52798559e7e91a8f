"""Which process of a Slurm job is killed, without Slurm: by what it was given to know."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from lastgood.drill import slurm_victim

HERE = {"SLURM_JOB_ID": "7", "SLURM_CLUSTER_NAME": "here", "SLURMD_NODENAME": "n1"}


@pytest.fixture
def processes() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def start(processes: ExitStack, **environment: str) -> "subprocess.Popen[str]":
    """A process that says when it is what it is to be."""
    program = "print('there', flush=True); import time; time.sleep(100)"
    process = subprocess.Popen(
        [sys.executable, "-c", program], env={**HERE, **environment}, stdout=subprocess.PIPE, text=True
    )
    processes.callback(process.communicate)
    processes.callback(process.kill)
    assert process.stdout is not None
    assert process.stdout.readline() == "there\n"
    return process


@pytest.mark.parametrize("other", [{"SLURM_CLUSTER_NAME": "there"}, {"SLURMD_NODENAME": "n2"}, {"SLURM_JOB_ID": "8"}])
def test_a_rank_of_another_cluster_node_or_job_is_left_alone(
    other: dict[str, str],
    processes: ExitStack,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # srun does not tell its step the cluster where it comes from outside.
    for name, value in {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1", "SLURM_STEP_ID": "9"}.items():
        monkeypatch.setenv(name, value)
    of_step = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "0"}
    stranger = start(processes, **of_step, **other)
    assert slurm_victim.main("7", "here", "rank", "0") == 0
    assert (capsys.readouterr().out, stranger.poll()) == ("", None)
    rank = start(processes, **of_step)
    assert slurm_victim.main("7", "here", "rank", "0") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["pid"], told["node"]) == (rank.pid, "n1")
    assert (rank.wait(10), stranger.poll()) == (-9, None)
