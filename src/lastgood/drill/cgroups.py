"""A memory cgroup of our own, of whichever version this machine has: made, filled with processes, limited, removed."""

import os
import time
from contextlib import suppress
from pathlib import Path

from lastgood.launch.mounts import mounts

_REMOVE_LIMIT_S = 10.0
_NO_LIMIT_V1 = "-1"


class MemoryGroup:
    """One group. `limit` and the counter mean its own processes."""

    def __init__(self, path: Path, *, is_v2: bool) -> None:
        self.path = path
        self._is_v2 = is_v2

    @property
    def processes_file(self) -> Path:
        """Whoever writes his number here is in the group, and so is what he starts."""
        return self.path / "cgroup.procs"

    def add(self, pid: int) -> None:
        self.processes_file.write_text(str(pid))

    def pids(self) -> list[int]:
        with suppress(OSError):
            return [int(word) for word in self.processes_file.read_text().split()]
        return []

    def usage(self) -> int:
        """Bytes, with what the kernel keeps of files and would give up."""
        return int((self.path / ("memory.current" if self._is_v2 else "memory.usage_in_bytes")).read_text())

    def needed(self) -> int:
        """Bytes that the kernel cannot give up: without the files that it only remembers."""
        statistics = dict(line.split() for line in (self.path / "memory.stat").read_text().splitlines() if " " in line)
        cached = int(statistics.get("inactive_file", 0)) + int(statistics.get("active_file", 0))
        return max(self.usage() - cached, 0)

    def limit(self, size: int) -> None:
        """Raises OSError if the group cannot be made to fit."""
        if self._is_v2:
            with suppress(OSError):
                (self.path / "memory.swap.max").write_text("0")
            (self.path / "memory.max").write_text(str(size))
            return
        (self.path / "memory.limit_in_bytes").write_text(str(size))
        # With swap counted in, or the kernel would swap in place of killing. Not every kernel counts it.
        with suppress(OSError):
            (self.path / "memory.memsw.limit_in_bytes").write_text(str(size))

    def lift(self) -> None:
        """No limit any more."""
        if self._is_v2:
            (self.path / "memory.max").write_text("max")
            return
        with suppress(OSError):
            (self.path / "memory.memsw.limit_in_bytes").write_text(_NO_LIMIT_V1)
        (self.path / "memory.limit_in_bytes").write_text(_NO_LIMIT_V1)

    def oom_kills(self) -> int:
        """How many of its processes the kernel has killed for memory."""
        text = (self.path / ("memory.events" if self._is_v2 else "memory.oom_control")).read_text()
        return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill ")), 0)

    def remove(self, limit_s: float = _REMOVE_LIMIT_S) -> bool:
        """False if processes are still in it after that time."""
        end = time.monotonic() + limit_s
        while self.path.exists():
            try:
                self.path.rmdir()
            except OSError:
                if time.monotonic() > end:
                    return False
                time.sleep(0.02)
        return True


def parents() -> list[tuple[Path, bool]]:
    """(directory, is version 2) of groups below which this user may make one with a memory limit, the nearest first."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        seen = mounts()
    except (OSError, ValueError, IndexError):
        return []
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        is_v2 = controllers == ""
        if not is_v2 and "memory" not in controllers.split(","):
            continue
        for mount in seen:
            if mount.type != ("cgroup2" if is_v2 else "cgroup") or not (is_v2 or "memory" in mount.options):
                continue
            # In a container the mount shows only a part of the tree: take what lies below its root.
            inside = os.path.relpath(path, mount.root) if path.startswith(mount.root) else "."
            own = (Path(mount.point) / inside).resolve()
            found += [
                (at, is_v2)
                for at in (own, *own.parents)
                if at.is_relative_to(mount.point) and _may_be_parent(at, is_v2)
            ]
    return found


def make_group(name: str) -> MemoryGroup:
    """Raises OSError where none can be made."""
    error = OSError("no memory cgroup in which a group could be made")
    for parent, is_v2 in parents():
        group = MemoryGroup(parent / name, is_v2=is_v2)
        try:
            group.path.mkdir()
        except OSError as failure:
            error = failure
            continue
        try:
            group.oom_kills()
            group.lift()
        except OSError as failure:
            error = failure
            group.remove()
            continue
        return group
    raise error


def missing() -> str:
    """What this machine lacks for a group of our own, in words; empty if it lacks nothing. Makes one, and removes it."""
    try:
        group = make_group(f"lastgood-check-{os.getpid()}-{os.urandom(4).hex()}")
    except OSError as error:
        return (
            f"no memory cgroup can be made here ({error}): it needs root, or a delegated cgroup (systemd-run --user --scope "
            "-p Delegate=yes lastgood drill ...)"
        )
    group.remove()
    return ""


def _may_be_parent(path: Path, is_v2: bool) -> bool:
    if not os.access(path, os.W_OK):
        return False
    if not is_v2:
        return True
    with suppress(OSError):
        return "memory" in (path / "cgroup.subtree_control").read_text().split()
    return False
