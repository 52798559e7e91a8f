"""What this machine has for programs that save nothing themselves. Each look has a limit, and none changes anything."""

import contextlib
import os
import re
import shutil
import struct
from collections.abc import Sequence

import msgspec

from lastgood.launch.asking import ask

LIMIT_S = 20.0
_CAP_SYS_ADMIN, _CAP_CHECKPOINT_RESTORE = 21, 40
_TOOLS = ("criu", "cuda-checkpoint", "dmtcp_launch", "mana_launch", "mpirun", "nvidia-smi")
_PT_INTERP = 3


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Facts. An empty text is one that could not be had."""

    architecture: str
    kernel: str
    tools: dict[str, str] = {}
    """Path of each program that is there."""
    criu_version: str = ""
    criu_check: str = ""
    """What `criu check` said of its failure; "ok" if it passed."""
    may_restore: bool = False
    """Has the capability that CRIU needs."""
    driver: str = ""
    """Version of the NVIDIA driver; empty where there is none."""
    gpus: tuple[str, ...] = ()
    mig: str = ""
    is_mps: bool = False
    mpi: str = ""
    linkage: str = ""
    """Of the command's program: dynamic, static, script, or empty."""
    dmtcp_signal: str = ""


def look(command: Sequence[str]) -> Machine:
    """Gather them, for one command."""
    kernel = os.uname()
    tools = {name: path for name in _TOOLS if (path := shutil.which(name) or _in_sbin(name))}
    gpus = _said([tools.get("nvidia-smi", ""), "--query-gpu=name,mig.mode.current", "--format=csv,noheader"], tools)
    rows = [line.split(", ") for line in gpus[1].splitlines()] if gpus[0] == 0 else []
    criu = _said([tools.get("criu", ""), "--version"], tools)
    return Machine(
        architecture=kernel.machine,
        kernel=kernel.release,
        tools=tools,
        criu_version=_version_in(criu[1]),
        criu_check=_criu_check(tools),
        may_restore=_may_restore(),
        driver=_driver(),
        gpus=tuple(row[0] for row in rows),
        mig=rows[0][1] if rows and len(rows[0]) > 1 else "",
        is_mps="CUDA_MPS_PIPE_DIRECTORY" in os.environ or os.path.exists("/tmp/nvidia-mps/control"),
        mpi=_said([tools.get("mpirun", ""), "--version"], tools)[1].partition("\n")[0],
        linkage=linkage_of(shutil.which(command[0]) or "") if command else "",
        dmtcp_signal=os.environ.get("DMTCP_SIGCKPT", ""),
    )


def linkage_of(path: str) -> str:
    """Whether a program loads libraries at its start: dynamic, static, script; empty if that cannot be told."""
    with contextlib.suppress(OSError, struct.error), open(path, "rb") as file:
        head = file.read(64)
        if head[:2] == b"#!":
            return "script"
        if head[:6] != b"\x7fELF\x02\x01":
            return ""
        (begin,) = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        file.seek(begin)
        table = file.read(size * count)
        kinds = {struct.unpack_from("<I", table, size * i)[0] for i in range(count)}
        return "dynamic" if _PT_INTERP in kinds else "static"
    return ""


def _in_sbin(name: str) -> str:
    """Where a user's PATH often does not lead."""
    path = f"/usr/sbin/{name}"
    return path if os.access(path, os.X_OK) else ""


def _criu_check(tools: dict[str, str]) -> str:
    if "criu" not in tools:
        return ""
    code, text = _said([tools["criu"], "check"], tools)
    if code == 0:
        return "ok"
    # The first ones tell that a child of it ended, which says nothing.
    lines = [line for line in text.splitlines() if "Error" in line and "exited, status" not in line]
    lines = lines or text.splitlines() or ["no answer"]
    return lines[0].strip()


def _may_restore() -> bool:
    with contextlib.suppress(OSError, ValueError), open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("CapEff:"):
                held = int(line.split()[1], 16)
                return bool(held >> _CAP_SYS_ADMIN & 1 or held >> _CAP_CHECKPOINT_RESTORE & 1)
    return False


def _driver() -> str:
    with contextlib.suppress(OSError), open("/proc/driver/nvidia/version", encoding="utf-8") as file:
        return _version_in(file.read())
    return ""


def _version_in(text: str) -> str:
    match = re.search(r"\b(\d+\.\d+(?:\.\d+)*)\b", text)
    return match[1] if match else ""


def _said(command: Sequence[str], tools: dict[str, str]) -> tuple[int | None, str]:
    """Exit code and words of a program that is there; None if it is not, or gave no answer within the limit."""
    if command[0] not in tools.values():
        return None, ""
    try:
        return ask(command, LIMIT_S)
    except OSError as error:
        return None, f"no answer: {error}"
