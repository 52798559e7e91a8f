"""Killing a program at the moment in which it writes a certain file.

With strace the kill comes exactly there: at the entry of the first call that writes to the file, or that renames one. Without it the file is looked at as often as that goes, which may come too late for a small one.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

_WRITES = ("write", "pwrite64", "writev", "pwritev", "pwritev2", "ftruncate", "sendfile", "copy_file_range")
_RENAMES = ("rename", "renameat", "renameat2", "link", "linkat")
_ATTACH_LIMIT_S = 10.0
_MOST_PATHS = 40
_END_LIMIT_S = 5.0


class Aim(msgspec.Struct, frozen=True):
    """At which call a program is killed."""

    paths: tuple[str, ...]
    """The files that it writes, one for each checkpoint in order of time; from where it works."""
    is_at_rename: bool = False
    """It writes under other names and then renames: it is killed at the rename, when all is written and nothing counts yet."""

    def after(self, saves: int) -> "Aim":
        """Without the checkpoints that are already there."""
        return Aim(tuple(dict.fromkeys(self.paths[saves:])), self.is_at_rename)


class Tracer:
    """strace on all threads of some processes, which kills whoever makes such a call."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self._process = process
        self._log = log

    @classmethod
    def attached(cls, pids: Sequence[int], aim: Aim, work: str, log: Path) -> "Tracer | None":
        """None where there is no strace, or where it may not look at other processes."""
        program = shutil.which("strace")
        if program is None or not pids:
            return None
        calls = ",".join(f"?{name}" for name in (_RENAMES if aim.is_at_rename else _WRITES))
        words = [
            program,
            "-f",
            "-y",
            "-qq",
            "-o",
            str(log),
            "-e",
            f"trace={calls}",
            "-e",
            f"inject={calls}:signal=SIGKILL:when=1",
        ]
        for path in () if aim.is_at_rename else aim.paths[:_MOST_PATHS]:
            # A relative path would be taken as it is, and matched only with what a call names so itself.
            words += ["-P", path, "-P", os.path.join(work, path)]
        words += [word for pid in pids for word in ("-p", str(pid))]
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        tracer = cls(process, log)
        try:
            is_attached = tracer._wait_until_attached(pids)
        except BaseException:
            tracer.close()
            raise
        if not is_attached:
            tracer.close()
            return None
        return tracer

    def _wait_until_attached(self, pids: Sequence[int]) -> bool:
        end = time.monotonic() + _ATTACH_LIMIT_S
        while not all(_is_traced(pid) for pid in pids):
            if self._process.poll() is not None or time.monotonic() > end:
                return False
            time.sleep(0.001)
        return True

    @property
    def is_tracing(self) -> bool:
        """False when nothing is left that it could look at."""
        return self._process.poll() is None

    @property
    def has_struck(self) -> bool:
        return "(INJECTED)" in self._text() or "killed by SIGKILL" in self._text()

    def struck(self) -> str:
        """What was killed where, for a person; empty if nothing was."""
        self.close()
        for line in self._text().splitlines():
            call = line.split(None, 1)[-1]
            if "(" in call and not call.startswith(("+++", "---")):
                return f"SIGKILL at {_shortened(call)}"
        return ""

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_END_LIMIT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()

    def __enter__(self) -> "Tracer":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _text(self) -> str:
        try:
            return self._log.read_text(errors="replace")
        except OSError:
            return ""


def wait_for_write(paths: Sequence[str], work: str, is_over: Callable[[], bool]) -> str:
    """Look at the files as often as that goes, until one is written; which. Empty if `is_over` comes true before."""
    places = {path: os.path.join(work, path) for path in paths[:_MOST_PATHS]}
    before = {path: _stamp(place) for path, place in places.items()}
    while True:
        for _ in range(100):
            for path, place in places.items():
                if _stamp(place) != before[path]:
                    return path
        if is_over():
            return ""


def _stamp(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)


def _is_traced(pid: int) -> bool:
    """A process that is gone needs no wait."""
    try:
        return "TracerPid:\t0\n" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


def _shortened(call: str) -> str:
    """The call without what it writes.

    >>> _shortened('write(3, "PK...", 4096) = 4096 (INJECTED)')
    'write(3, ...)'
    """
    name, _, rest = call.partition("(")
    if name.startswith(("rename", "link")):
        return f"{name}({rest.split(')')[0]})"
    return f"{name}({rest.split(',')[0].rstrip(')')}, ...)"
