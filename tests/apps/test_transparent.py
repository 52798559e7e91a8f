"""Known limits of saving a program from outside: each tells what was looked at, and none is met by guessing."""

import os
import shutil
import sys
from pathlib import Path

import msgspec
import pytest

from lastgood.apps.transparent import limits_of
from lastgood.apps.transparent_machine import Machine, linkage_of, look

BARE = Machine(architecture="x86_64", kernel="6.1")
FULL = Machine(
    architecture="x86_64",
    kernel="6.1",
    tools={"criu": "/usr/sbin/criu", "cuda-checkpoint": "/usr/bin/cuda-checkpoint", "dmtcp_launch": "/d"},
    criu_version="4.1",
    criu_check="ok",
    may_restore=True,
    driver="580.65.06",
    gpus=("H100", "H100"),
    mig="Disabled",
    linkage="dynamic",
    dmtcp_signal="35",
)


def states(machine: Machine, *command: str) -> dict[str, str]:
    return {f"{limit.mechanism}: {limit.limit}": limit.state for limit in limits_of(machine, command)}


def state_of(machine: Machine, words: str, *command: str) -> str:
    found = [state for limit, state in states(machine, *command).items() if words in limit]
    assert len(found) == 1, words
    return found[0]


@pytest.mark.parametrize(
    ("change", "words", "state"),
    [
        ({}, "CRIU: a kernel", "met"),
        ({"criu_check": "Error: no vdso"}, "CRIU: a kernel", "not met"),
        ({"criu_check": ""}, "CRIU: a kernel", "not known"),
        ({"may_restore": False}, "the right to restore", "not met"),
        ({"architecture": "aarch64"}, "cuda-checkpoint: architecture", "not met"),
        ({"architecture": "riscv64"}, "CRIU: architecture", "not met"),
        ({"driver": "550.54"}, "driver 555", "not met"),
        ({"driver": "560.1"}, "driver 555", "met"),
        ({"driver": "560.1"}, "driver 570", "not met"),
        ({}, "driver 570", "met"),
        ({"criu_version": "3.17.1"}, "CRIU 4.0", "not met"),
        ({}, "CRIU 4.0", "met"),
        ({}, "unified memory", "not known"),
        ({}, "CUDA IPC", "not known"),
        ({"driver": "610.1"}, "CUDA IPC", "met"),
        ({"driver": "575.1"}, "another GPU", "not met"),
        ({}, "another GPU", "not known"),
        ({"mig": "Enabled"}, "no MIG", "not met"),
        ({}, "no MIG", "met"),
        ({"is_mps": True}, "no MPS", "not met"),
        ({}, "as many GPUs", "not known"),
        ({"linkage": "static"}, "LD_PRELOAD", "not met"),
        ({"dmtcp_signal": ""}, "a signal of its own", "not met"),
        ({}, "a signal of its own", "met"),
    ],
)
def test_each_limit_follows_from_what_the_machine_has(change: dict[str, object], words: str, state: str) -> None:
    assert state_of(msgspec.structs.replace(FULL, **change), words, "./solver") == state


@pytest.mark.parametrize(
    ("command", "state"),
    [
        (["./solver"], "met"),
        (["srun", "./solver"], "not met"),
        (["mpirun", "-np", "2", "./solver"], "not met"),
        (["torchrun", "--nnodes=2", "train.py"], "not met"),
        (["torchrun", "--nnodes", "1", "train.py"], "met"),
        ([], "not known"),
    ],
)
def test_the_process_tree_is_told_by_the_command(command: list[str], state: str) -> None:
    assert state_of(FULL, "CRIU: one process tree", *command) == state


def test_several_ranks_on_gpus_speak_through_nccl() -> None:
    assert state_of(FULL, "no NCCL", "torchrun", "--nproc-per-node=2", "train.py") == "not met"
    assert state_of(FULL, "no NCCL", "python", "train.py") == "not known"


def test_where_nothing_is_installed_nothing_is_said_to_work() -> None:
    found = states(BARE, "./solver")
    for tool in ("criu", "cuda-checkpoint", "dmtcp_launch", "mana_launch"):
        assert next(state for limit, state in found.items() if f"{tool} is installed" in limit) == "not met"


def test_how_a_program_is_linked_is_read_from_its_head(tmp_path: Path) -> None:
    assert linkage_of(str(Path(sys.executable).resolve())) == "dynamic"
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert linkage_of(str(script)) == "script"
    cut = tmp_path / "cut"
    cut.write_bytes(Path(sys.executable).resolve().read_bytes()[:40])
    assert linkage_of(str(cut)) == "" and linkage_of(str(tmp_path / "absent")) == ""


@pytest.mark.slow
def test_criu_itself_is_asked() -> None:
    if shutil.which("criu", path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None:
        pytest.skip("CRIU is not installed")
    machine = look(["sleep", "1"])
    assert machine.criu_version and machine.criu_check
    kernel = state_of(machine, "CRIU: a kernel", "sleep", "1")
    assert kernel == ("met" if machine.criu_check == "ok" else "not met")
