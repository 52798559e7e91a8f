"""Starting a system's job, waiting for its end with a limit, and never leaving one behind."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Protocol

IMPORT_LIMIT_S = 180.0


class Process(Protocol):
    pid: int

    def wait(self, limit_s: float) -> int | None:
        """Its exit code, negative for a signal; None if it still runs after that time."""

    def kill(self) -> None:
        """SIGKILL for it and all that it has started."""


class Spawned:
    """A command of its own."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.pid = self._process.pid

    def wait(self, limit_s: float) -> int | None:
        try:
            return self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        if self._process.poll() is None:
            _kill_group(self.pid)
            self._process.wait()


class ForkServer:
    """A `forker` with some libraries."""

    def __init__(self, modules: list[str], environment: dict[str, str], log: Path) -> None:
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("forker.py")), *modules],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self._pending = b""
        if self.answer(IMPORT_LIMIT_S) is None:
            self._process.kill()
            raise RuntimeError(f"could not import {', '.join(modules)}: see {log}")

    def start(self, script: Path, environment: dict[str, str], log: Path) -> "Forked":
        request = {"script": str(script), "environment": environment, "log": str(log)}
        assert self._process.stdin
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        answer = self.answer(30.0)
        assert answer, "the forking process does not answer"
        return Forked(self, answer["pid"])

    def answer(self, limit_s: float) -> dict[str, int] | None:
        """The next line; None if there is none within that time, or none any more."""
        assert self._process.stdout
        fd, end = self._process.stdout.fileno(), time.monotonic() + limit_s
        while b"\n" not in self._pending:
            if not select.select([fd], [], [], max(0.0, end - time.monotonic()))[0]:
                return None
            data = os.read(fd, 4096)
            if not data:
                return None
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        found: dict[str, int] = json.loads(line)
        return found

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


class Forked:
    def __init__(self, server: ForkServer, pid: int) -> None:
        self._server = server
        self.pid = pid
        self._code: int | None = None

    def wait(self, limit_s: float) -> int | None:
        if self._code is None and (answer := self._server.answer(limit_s)) is not None:
            self._code = answer["code"]
        return self._code

    def kill(self) -> None:
        if self._code is None:
            _kill_group(self.pid)
            if self.wait(30.0) is None:
                raise RuntimeError(f"process {self.pid} does not end")


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def kill_if_of(pid: int, marker: str) -> None:
    """SIGKILL for a process that was started with `marker` in its environment, if it still lives."""
    with contextlib.suppress(OSError):
        if marker.encode() in Path(f"/proc/{pid}/environ").read_bytes():
            os.kill(pid, signal.SIGKILL)


def wait_until_none_of(marker: str, limit_s: float) -> None:
    """Until no process lives that was started with `marker` in its environment: what a job has started by itself, such
    as a keeper, works on after the job's end."""
    end = time.monotonic() + limit_s
    while left := _processes_of(marker):
        if time.monotonic() > end:
            raise RuntimeError(f"processes {left} of an ended job do not end within {limit_s:g} s")
        time.sleep(0.01)


def _processes_of(marker: str) -> list[int]:
    found = []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
        # It may have ended meanwhile, or be another user's. Of one that has ended and was not waited for it is empty.
        with contextlib.suppress(OSError):
            if marker.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                found.append(pid)
    return found
