"""What the machine is that a process runs on, and what its environment says, as far as that may change numbers.

Only what the kernel and NVIDIA's driver tell in files: no process is started, and no CUDA context made.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from lastgood.core.fingerprint import kept_variables
from lastgood.core.machine_facts import Gpu, cpu_facts, gpu_facts, parse_driver_files, visible

_DRIVER = Path("/proc/driver/nvidia")
_CPU = Path("/proc/cpuinfo")
_FIRST_BYTES = 8192
"""The first processor of many: the kernel makes the text of each as it is read."""


def machine_facts(environment: Mapping[str, str], gpus: list[Gpu] | None = None) -> dict[str, str]:
    """Of the machine, and the variables that matter. `gpus` are those of the machine, where somebody has asked already."""
    system = os.uname()
    facts = {
        "machine": system.machine,
        **cpu_facts(_first_text(_CPU)),
        "cpu.count": str(len(os.sched_getaffinity(0))),
        "libc": _libc(),
        "host": system.nodename,
        "kernel": system.release,
        **gpu_facts(visible(driver_gpus() if gpus is None else gpus, environment)),
        **kept_variables(environment),
    }
    return {name: _printable(value) for name, value in facts.items()}


def driver_gpus() -> list[Gpu]:
    """The GPUs of this machine or container, as NVIDIA's driver lists them in files; none where there is no such driver."""
    files = sorted(_DRIVER.glob("gpus/*/information")) if _DRIVER.is_dir() else []
    return parse_driver_files([_first_text(path) for path in files], _first_text(_DRIVER / "version") if files else "")


def _first_text(path: Path) -> str:
    try:
        with path.open("rb", buffering=0) as file:
            return (file.read(_FIRST_BYTES) or b"").decode(errors="replace")
    except OSError:
        return ""


def _libc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        return "not glibc"


def _printable(text: str) -> str:
    """Variables can have bytes that are no text, and a manifest cannot."""
    return text.encode(errors="backslashreplace").decode()
