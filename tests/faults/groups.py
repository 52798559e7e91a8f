"""A cgroup with a memory limit, of whichever version this machine has."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


class Group:
    def __init__(self, path: Path, *, is_v2: bool) -> None:
        self.path = path
        self._is_v2 = is_v2

    def add(self, pid: int) -> None:
        (self.path / "cgroup.procs").write_text(str(pid))

    def usage(self) -> int:
        return int((self.path / ("memory.current" if self._is_v2 else "memory.usage_in_bytes")).read_text())

    def limit(self, size: int) -> None:
        (self.path / ("memory.max" if self._is_v2 else "memory.limit_in_bytes")).write_text(str(size))


def _parent() -> tuple[Path, bool] | None:
    """The directory of this process's memory group, and whether it is of version 2."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            for found in (ROOT / "memory" / path.strip("/"), ROOT / "memory"):
                if found.is_dir():
                    return found, False
    controllers_file = ROOT / "cgroup.subtree_control"
    if controllers_file.exists() and "memory" in controllers_file.read_text().split():
        return ROOT, True
    return None


def is_available() -> bool:
    try:
        with limited():
            return True
    except OSError:
        return False


@contextmanager
def limited() -> Iterator[Group]:
    """A group below this process's, removed on leaving when all of its processes have ended."""
    parent = _parent()
    if parent is None:
        raise OSError("no memory cgroups here")
    path = parent[0] / f"lastgood-test-{os.getpid()}-{os.urandom(4).hex()}"
    path.mkdir()
    try:
        yield Group(path, is_v2=parent[1])
    finally:
        for _ in range(500):
            try:
                path.rmdir()
                break
            except OSError:
                time.sleep(0.02)
