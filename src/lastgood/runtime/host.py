"""What of this process's environment may change its numbers: kept in manifests, compared on resume.

It is asked once, at the start, and must cost nothing there: what the kernel and loaded libraries tell without a process or
a CUDA context of ours.
"""

import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path

from lastgood.core.fingerprint import EDITION, NEWEST_EDITION, kept_variables
from lastgood.core.fingerprint_items import LIBRARIES
from lastgood.core.machine_facts import Gpu, cpu_facts, gpu_facts, parse_driver_files, visible
from lastgood.runtime.ports import Framework, Ranks

_DRIVER = Path("/proc/driver/nvidia")
_CPU = Path("/proc/cpuinfo")
_FIRST_BYTES = 8192
"""The first processor of many: the kernel makes the text of each as it is read."""


def fingerprint_of(frameworks: list[Framework], ranks: Ranks) -> dict[str, str]:
    """Versions, machine, number of ranks and threads, switches and variables, as texts; see core.fingerprint_items."""
    facts = {**machine_facts(os.environ), **process_facts(), "ranks": str(ranks.world_size)}
    for framework in frameworks:
        facts |= framework.fingerprint()
    return facts


def process_facts() -> dict[str, str]:
    """Of this interpreter and what it has imported, without frameworks."""
    versions = {name: getattr(sys.modules[name], "__version__", None) for name in LIBRARIES if name in sys.modules}
    return {
        EDITION: NEWEST_EDITION,
        "python": platform.python_version(),
        "lastgood": str(getattr(sys.modules.get("lastgood"), "__version__", "unknown")),
        **{name: str(version) for name, version in versions.items() if version is not None},
    }


def machine_facts(environment: Mapping[str, str]) -> dict[str, str]:
    """Of the machine, and the variables that matter."""
    system = os.uname()
    facts = {
        "machine": system.machine,
        **cpu_facts(_first_text(_CPU)),
        "cpu.count": str(len(os.sched_getaffinity(0))),
        "libc": _libc(),
        "host": system.nodename,
        "kernel": system.release,
        **gpu_facts(visible(driver_gpus(), environment)),
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
