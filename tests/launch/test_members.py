"""Which processes of an attempt on a node get a signal."""

import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastgood.core.layout import Env
from lastgood.core.stopping import Manner
from lastgood.keeper.node import this_node
from lastgood.launch.members import Members

pytestmark = pytest.mark.slow

PROGRAM = f"""#!{sys.executable}
import sys, time
print("ready", flush=True)
time.sleep(600)
"""


class Node:
    """The node as it is for a step; what runs in it ends with the test."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.launch = uuid.uuid4().hex
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, name: str) -> "subprocess.Popen[bytes]":
        """A program of that name in a step of attempt 1."""
        path = self.directory / name
        path.write_text(PROGRAM)
        path.chmod(0o755)
        given = {Env.LAUNCH: self.launch, Env.ATTEMPT: "1", "SLURM_STEP_ID": "7", "SLURMD_NODENAME": this_node()}
        process = subprocess.Popen([path], env=given, stdout=subprocess.PIPE)
        self.started.append(process)
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        return process


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    for process in made.started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_a_signal_for_some_names_goes_to_those_alone(node: Node) -> None:
    """mpirun would kill its ranks, where they are asked to save."""
    starter, rank = node.start("mpirun"), node.start("gmx_mpi")
    members = Members(node.launch, 1)
    assert members.send(signal.SIGTERM, ("gmx_mpi",)) == 1
    assert rank.wait(180) == -signal.SIGTERM
    assert starter.poll() is None
    assert members.send(signal.SIGTERM) == 1
    assert starter.wait(180) == -signal.SIGTERM


def test_a_save_and_a_named_signal_are_sent_as_such(node: Node) -> None:
    starter = node.start("mpirun")
    members = Members(node.launch, 1)
    assert members.send(signal.SIGUSR1, manner=Manner.SAVE) == 0
    assert starter.poll() is None
    assert members.send(signal.SIGHUP, manner=Manner.AS_IS) == 1
    assert starter.wait(180) == -signal.SIGHUP
