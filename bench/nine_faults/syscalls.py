"""The calls of a save that change something on disk, and a kill right before each of them.

The job stands still at a gate right before its save; strace is attached there, so that counting begins
there; the next thing that the job writes into its trace ends the save.
"""

import os
import re
import shutil
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from nine_faults.lab import NotTriedError, Started

CHANGING = (
    *("open", "openat", "openat2", "creat", "write", "pwrite64", "writev", "pwritev", "pwritev2"),
    *("ftruncate", "truncate", "fallocate", "fsync", "fdatasync", "sync_file_range"),
    *("rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "unlink", "unlinkat"),
    *("mkdir", "mkdirat", "rmdir", "copy_file_range", "sendfile", "chmod", "fchmod", "fchmodat"),
)
_ATTACH_LIMIT_S = 120.0
_CALL = re.compile(r"(\d+)\s+(\w+)\((.*)")


class Point(NamedTuple):
    call: str
    occurrence: int
    """1 for the first call of that name by its thread since the gate; strace counts likewise."""
    text: str
    """As strace shows it."""

    def __str__(self) -> str:
        return f"{self.call} #{self.occurrence}: {self.text[:160]}"


def need_strace() -> None:
    if shutil.which("strace") is None:
        raise NotTriedError("strace is not installed")


class Tracer:
    """strace on all threads of a job that stands at its gate."""

    def __init__(self, pid: int, log: Path, *options: str) -> None:
        self._log = log
        trace = f"trace={','.join('?' + name for name in CHANGING)}"
        command = ["strace", "-f", "-qq", "-y", "-s", "40", "-o", str(log), "-e", trace, *options, "-p", str(pid)]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + _ATTACH_LIMIT_S
        tasks = Path(f"/proc/{pid}/task")
        while any("TracerPid:\t0\n" in (task / "status").read_text() for task in tasks.iterdir()):
            if self._process.poll() is not None or time.monotonic() > end:
                raise NotTriedError(f"strace cannot attach here: {self.close()}")
            time.sleep(0.001)

    def close(self) -> str:
        """Detach; what strace complained of."""
        self._process.terminate()
        assert self._process.stderr
        said = self._process.stderr.read().strip()
        self._process.stderr.close()
        self._process.wait()
        return said

    def calls(self) -> list[Point]:
        seen: Counter[tuple[str, str]] = Counter()
        found = []
        for line in self._log.read_text(errors="replace").splitlines():
            if match := _CALL.match(line):
                thread, name, text = match.groups()
                seen[thread, name] += 1
                found.append(Point(name, seen[thread, name], text))
        return found


def save_points(calls: list[Point], work: Path, trace: Path) -> list[Point]:
    """Of all calls since the gate those that change something below `work`, up to the end of the save.

    The last point is that end: the first thing that the job writes into its trace.
    """
    points: list[Point] = []
    for point in calls:
        if point.call == "write" and f"<{trace}>" in point.text:
            return [*points, point]
        is_open = point.call in ("open", "openat", "openat2")
        if str(work) in point.text and not (is_open and "O_CREAT" not in point.text and "O_TRUNC" not in point.text):
            points.append(point)
    raise RuntimeError("the job wrote nothing into its trace after the save")


def open_gate(gate: Path) -> None:
    """Let the job go on. Fails, rather than wait, if it is not there."""
    writer = os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
    gate.unlink()
    os.close(writer)


def stand_at_gate(started: Started) -> int:
    """Wait until the job stands at its gate; its process."""
    if not started.wait_for(lambda life: life.is_at_gate):
        raise RuntimeError(f"the job did not reach its gate: see {started.trace.path}")
    return started.trace.lives[-1].pid
