"""Whether a process that was started a while ago would be the same if it were started now."""

import os
import resource
from collections.abc import Iterable
from contextlib import suppress

import msgspec

from lastgood.core.quoting import shown

_LIMITS = sorted({value for name, value in vars(resource).items() if name.startswith("RLIMIT_")})

INSTALLED_IN = ("site-packages", "dist-packages")
"""Names of the directories that hold installed packages."""


class Found(msgspec.Struct, frozen=True):
    """What a start finds. Two of these differ if two starts could."""

    files: dict[str, tuple[int, ...] | None]
    """Device, inode, size and time of change; None for a file that is not there."""
    hiding: frozenset[str]
    """Entries of the program's own directories that have the name of a module that is found elsewhere."""
    inherited: dict[str, object]


def look(files: Iterable[str], path: Iterable[str], names: Iterable[str]) -> Found:
    """`files`: all that is imported; `path`: `sys.path`; `names`: the modules that are not the program's own."""
    tops = {name.partition(".")[0] for name in names}
    installed = [entry for entry in path if os.path.basename(entry) in INSTALLED_IN]
    own = [entry for entry in path if entry not in installed]
    return Found(
        # A package that is newly installed shows in the directory.
        {file: _stamp(file) for file in (*files, *installed)},
        frozenset(found for entry in own for found in _entries(entry) if _stem(found) in tops),
        _inherited(),
    )


def difference(before: Found, now: Found) -> str:
    """The first thing that is not the same, in words; empty if nothing is."""
    for file, stamp in before.files.items():
        if now.files.get(file) != stamp:
            return f"{shown(file)} has changed"
    if before.hiding != now.hiding:
        name = min(before.hiding ^ now.hiding)
        return f"{shown(name)} has come or gone, which has the name of an installed module"
    for what, value in before.inherited.items():
        if now.inherited.get(what) != value:
            return f"the launcher's {what} has changed"
    return ""


def mapped_files(pid: int) -> list[str]:
    """Files whose content a process has in its memory: the interpreter and native libraries.

    One that was replaced since has " (deleted)" after its name, and is not found.
    """
    with suppress(OSError), open(f"/proc/{pid}/maps", "rb") as maps:
        paths = {fields[5].rstrip(b"\n") for line in maps if len(fields := line.split(None, 5)) == 6}
        return sorted(os.fsdecode(path) for path in paths if path.startswith(b"/") and not path.startswith(b"/memfd:"))
    return []


def _stamp(file: str) -> tuple[int, ...] | None:
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _entries(directory: str) -> list[str]:
    with suppress(OSError):
        return [os.path.join(directory, name) for name in os.listdir(directory or ".")]
    return []


def _stem(path: str) -> str:
    return os.path.basename(path).partition(".")[0]


def _inherited() -> dict[str, object]:
    """What a process gets from the one that starts it, and others may have changed there."""
    here = os.stat(".")
    found: dict[str, object] = {
        "working directory": (here.st_dev, here.st_ino),
        "CPU affinity": frozenset(os.sched_getaffinity(0)),
        "scheduling": (os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)),
        "resource limits": [resource.getrlimit(number) for number in _LIMITS],
    }
    for name in ("cgroup", "oom_score_adj"):
        with suppress(OSError), open(f"/proc/self/{name}", "rb") as file:
            found[name] = file.read()
    return found
