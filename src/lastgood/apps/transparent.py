"""Saving a program that saves nothing itself: which known limits of the tools for it this machine keeps. Nothing is started.

The limits are those that the tools' own pages and trackers name:
CRIU https://criu.org/What_cannot_be_checkpointed and https://criu.org/CUDA; cuda-checkpoint
https://github.com/NVIDIA/cuda-checkpoint (README; issues 5 and 30 on NCCL); DMTCP https://github.com/dmtcp/dmtcp
(SIGUSR2, LD_PRELOAD); MANA https://github.com/mpickpt/mana.
"""

import os
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from lastgood.apps.transparent_machine import Machine, look
from lastgood.core.quoting import shown

State = Literal["met", "not met", "not known"]

_CRIU_ARCHITECTURES = ("x86_64", "aarch64", "armv7l", "ppc64le", "s390x")
_DMTCP_ARCHITECTURES = ("x86_64", "aarch64")
_STARTERS = ("srun", "mpirun", "mpiexec", "orterun", "prun")
_MANYS = ("--nnodes", "--nproc_per_node", "--nproc-per-node")
_CRIU, _CUDA, _DMTCP, _MANA = "CRIU", "cuda-checkpoint", "DMTCP", "MANA"


class Limit(msgspec.Struct, frozen=True):
    mechanism: str
    limit: str
    """What must be so."""
    state: State
    looked_at: str


def limits_here(command: Sequence[str]) -> list[Limit]:
    """On this machine, for this command; empty: for none in particular."""
    return limits_of(look(command), command)


def limits_of(machine: Machine, command: Sequence[str]) -> list[Limit]:
    return [*_criu(machine, command), *_cuda(machine, command), *_dmtcp(machine, command), *_mana(machine, command)]


def _criu(machine: Machine, command: Sequence[str]) -> Iterator[Limit]:
    yield _architecture(_CRIU, machine, _CRIU_ARCHITECTURES)
    yield _installed(_CRIU, machine, "criu", machine.criu_version)
    kernel = "a kernel that has what it needs"
    if machine.criu_check == "ok":
        yield Limit(_CRIU, kernel, "met", f"`criu check` passes on {machine.kernel}")
    elif machine.criu_check:
        yield Limit(_CRIU, kernel, "not met", f"`criu check` on {machine.kernel} says: {machine.criu_check}")
    else:
        yield Limit(
            _CRIU, kernel, "not known", f"criu is not installed, so that its check of {machine.kernel} is not run"
        )
    yield Limit(
        _CRIU,
        "the right to restore processes (CAP_CHECKPOINT_RESTORE, or root's)",
        "met" if machine.may_restore else "not met",
        "CapEff in /proc/self/status",
    )
    yield _one_tree(_CRIU, command)


def _cuda(machine: Machine, command: Sequence[str]) -> Iterator[Limit]:
    yield _architecture(_CUDA, machine, ("x86_64",))
    yield _installed(_CUDA, machine, "cuda-checkpoint", "")
    yield _driver(machine, "driver 555 or newer, for CRIU's plugin", (555,))
    yield _driver(machine, "driver 570 or newer, for process trees", (570,))
    trees = "CRIU 4.0 or newer, for process trees"
    if machine.criu_version:
        state: State = "met" if _numbers(machine.criu_version) >= (4,) else "not met"
        yield Limit(_CUDA, trees, state, f"criu --version: {machine.criu_version}")
    else:
        yield Limit(_CUDA, trees, "not known", "criu is not installed")
    yield from _of_the_program(machine, command)
    migration = "restoring on another GPU of the same type (a driver that can pair GPUs)"
    if machine.driver and _numbers(machine.driver) < (580,):
        yield Limit(_CUDA, migration, "not met", f"driver {machine.driver}; pairing came with CUDA 13")
    else:
        why = f"driver {machine.driver}: which one brought it is not said" if machine.driver else _NO_DRIVER
        yield Limit(_CUDA, migration, "not known", why)
    here = ", ".join(sorted(set(machine.gpus)))
    seen = f"here: {len(machine.gpus)} x {here}; " if here else "no GPU is seen here; "
    yield Limit(
        _CUDA,
        "as many GPUs of the same type at the restart",
        "not known",
        f"{seen}the node of the restart cannot be seen from here",
    )


def _of_the_program(machine: Machine, command: Sequence[str]) -> Iterator[Limit]:
    """What the program may not use; where there is no driver it can use none of it."""
    unused: tuple[State, str] = ("met", _NO_DRIVER) if not machine.driver else ("not known", "no command line tells")
    yield Limit(_CUDA, "no unified memory (UVM)", *unused)
    if machine.driver and _numbers(machine.driver) >= (610,):
        yield Limit(_CUDA, "no CUDA IPC, or driver 610", "met", f"driver {machine.driver}")
    else:
        yield Limit(_CUDA, "no CUDA IPC, or driver 610", *unused)
    many = _many(command)
    if many and machine.driver:
        yield Limit(_CUDA, "no NCCL", "not met", f"{many} starts several ranks, which with CUDA speak through NCCL")
    else:
        yield Limit(_CUDA, "no NCCL", *unused)
    if machine.mig:
        state: State = "not met" if machine.mig == "Enabled" else "met"
        yield Limit(_CUDA, "no MIG", state, f"nvidia-smi: mig.mode.current is {machine.mig}")
    else:
        yield Limit(_CUDA, "no MIG", *(unused if not machine.driver else ("not known", "nvidia-smi does not say")))
    yield Limit(
        _CUDA,
        "no MPS",
        "not met" if machine.is_mps else "met",
        "CUDA_MPS_PIPE_DIRECTORY and /tmp/nvidia-mps/control" + ("" if machine.is_mps else ": neither is there"),
    )


def _dmtcp(machine: Machine, command: Sequence[str]) -> Iterator[Limit]:
    yield _architecture(_DMTCP, machine, _DMTCP_ARCHITECTURES)
    yield _installed(_DMTCP, machine, "dmtcp_launch", "")
    linking = "programs that load libraries at their start (LD_PRELOAD)"
    if not command:
        yield Limit(_DMTCP, linking, "not known", "no command was given")
    elif machine.linkage in ("dynamic", "static"):
        state: State = "met" if machine.linkage == "dynamic" else "not met"
        yield Limit(_DMTCP, linking, state, f"{shown(command[0])} is a {machine.linkage} program")
    else:
        what = (
            "a script, and what it starts is not seen" if machine.linkage == "script" else "not found, or no ELF file"
        )
        yield Limit(_DMTCP, linking, "not known", f"{shown(command[0])} is {what}")
    yield _signal(machine)
    yield Limit(
        _DMTCP,
        "no GPU in use",
        "met" if not machine.driver else "not known",
        _NO_DRIVER if not machine.driver else "no command line tells",
    )
    yield Limit(
        _DMTCP, "the same version at the restart", "not known", "the node of the restart cannot be seen from here"
    )


def _mana(machine: Machine, command: Sequence[str]) -> Iterator[Limit]:
    yield _installed(_MANA, machine, "mana_launch", "")
    library = "Cray MPICH, MPICH, Open MPI or ExaMPI"
    if machine.mpi:
        is_known = any(name in machine.mpi.upper() for name in ("OPEN MPI", "MPICH", "HYDRA", "EXAMPI"))
        yield Limit(_MANA, library, "met" if is_known else "not known", f"mpirun --version: {machine.mpi}")
    else:
        yield Limit(_MANA, library, "not known", "mpirun is not there")
    if not command:
        yield Limit(_MANA, "a program of MPI", "not known", "no command was given")
    else:
        starter = next((name for name in map(os.path.basename, command) if name in _STARTERS), "")
        yield Limit(
            _MANA,
            "a program of MPI",
            "met" if starter and starter != "srun" else "not known",
            f"the command has {starter}" if starter else "the command has no mpirun",
        )


_NO_DRIVER = "no NVIDIA driver: /proc/driver/nvidia/version is not there"


def _architecture(mechanism: str, machine: Machine, allowed: tuple[str, ...]) -> Limit:
    state: State = "met" if machine.architecture in allowed else "not met"
    return Limit(mechanism, f"architecture {' or '.join(allowed)}", state, f"uname: {machine.architecture}")


def _installed(mechanism: str, machine: Machine, tool: str, version: str) -> Limit:
    path = machine.tools.get(tool, "")
    if not path:
        return Limit(mechanism, f"{tool} is installed", "not met", "not in PATH")
    return Limit(mechanism, f"{tool} is installed", "met", f"{path} {version}".strip())


def _one_tree(mechanism: str, command: Sequence[str]) -> Limit:
    limit = "one process tree on one node"
    if not command:
        return Limit(mechanism, limit, "not known", "no command was given")
    if many := _many(command, is_across_nodes=True):
        return Limit(
            mechanism, limit, "not met", f"{many} starts processes that are not below the command, or elsewhere"
        )
    return Limit(
        mechanism, limit, "met", f"{shown(command[0])} is started on this node; what it starts itself is not seen"
    )


def _driver(machine: Machine, limit: str, least: tuple[int, ...]) -> Limit:
    if not machine.driver:
        return Limit(_CUDA, limit, "not met", _NO_DRIVER)
    state: State = "met" if _numbers(machine.driver) >= least else "not met"
    return Limit(_CUDA, limit, state, f"/proc/driver/nvidia/version: {machine.driver}")


def _signal(machine: Machine) -> Limit:
    limit = "a signal of its own: its SIGUSR2 means save and carry on to `lastgood run`"
    if machine.dmtcp_signal in ("", "12", "10"):
        said = f"DMTCP_SIGCKPT is {machine.dmtcp_signal or 'not set'}"
        return Limit(_DMTCP, limit, "not met", f"{said}: set it to a real-time signal, such as 35")
    return Limit(_DMTCP, limit, "met", f"DMTCP_SIGCKPT is {machine.dmtcp_signal}")


def _many(command: Sequence[str], *, is_across_nodes: bool = False) -> str:
    """The word that starts several ranks; `is_across_nodes`: where they may not be below the command."""
    for i, word in enumerate(command):
        if os.path.basename(word) in _STARTERS:
            return word
        name, _, value = word.partition("=")
        value = value or next(iter(command[i + 1 :]), "")
        if name in (_MANYS[:1] if is_across_nodes else _MANYS) and value not in ("1", "1:1"):
            return word
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
