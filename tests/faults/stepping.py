"""Stops a process at each system call that it makes, one after the other, with strace's fault injection.

Only the thread that runs the scenario is traced. Threads that read blocks for verification change
nothing, so what is on disk while they run is what was there before and after.
"""

import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from faults.nursery import Nursery

WAITING = "rt_sigtimedwait"
"""The call in which a child of the nursery waits for its release."""
TRACED = f"trace=%file,%desc,{WAITING}"
"""Every call that takes a path or a descriptor."""
ATTACH_LIMIT_S = 20.0

_CALL = re.compile(r"(\w+)\((.*)")


class Call(NamedTuple):
    name: str
    occurrence: int
    """1 for the first call of that name in the scenario; strace counts each name by itself."""
    text: str

    def __str__(self) -> str:
        return f"{self.name} #{self.occurrence}: {self.text[:150]}"


def is_available() -> bool:
    return shutil.which("strace") is not None


class Tracer:
    """strace, attached to a child that has not been released yet."""

    def __init__(self, pid: int, log: Path, *options: str) -> None:
        self.pid = pid
        self.log = log
        log.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            ["strace", "-qq", "-s", "200", "-o", str(log), "-p", str(pid), "-e", TRACED, *options],
            stderr=subprocess.PIPE,
            text=True,
        )
        limit = time.monotonic() + ATTACH_LIMIT_S
        # Being its tracer is not enough: strace stops it a moment later, and one that is released before that runs
        # its first calls unseen. Once strace has seen it wait again it sees all that follows.
        while not (log.exists() and WAITING in log.read_text(errors="replace")):
            assert self._process.poll() is None and time.monotonic() < limit, "strace could not attach"
            time.sleep(0.0005)

    def close(self) -> None:
        """After the traced process has ended."""
        assert self._process.stderr
        self._process.wait(ATTACH_LIMIT_S)
        self._process.stderr.close()

    def calls(self) -> list[Call]:
        seen: dict[str, int] = {}
        calls = []
        for line in self.log.read_text(errors="replace").splitlines():
            if (match := _CALL.match(line)) and match[1] != WAITING:
                name = match[1]
                seen[name] = seen.get(name, 0) + 1
                calls.append(Call(name, seen[name], line))
        return calls


def trace(nursery: Nursery, log: Path, scenario: str, **arguments: object) -> list[Call]:
    """Run a scenario undisturbed; the calls that it makes, in order."""
    pid = nursery.prepare(scenario, **arguments)
    tracer = Tracer(pid, log)
    nursery.release(pid)
    code = nursery.wait(pid)
    tracer.close()
    assert code == 0, f"{scenario} failed with {code} undisturbed"
    return tracer.calls()


def kill_at(nursery: Nursery, log: Path, call: Call, scenario: str, **arguments: object) -> bool:
    """Run a scenario and kill it right before that call takes effect; False if it survived."""
    pid = nursery.prepare(scenario, **arguments)
    tracer = Tracer(pid, log, "-e", f"inject={call.name}:signal=SIGKILL:when={call.occurrence}")
    nursery.release(pid)
    code = nursery.wait(pid)
    tracer.close()
    assert code in (0, -9), f"{scenario} failed with {code} instead of being killed at {call}"
    return code == -9


class Frozen:
    """A scenario that was stopped (SIGSTOP) right after a call took effect."""

    def __init__(self, nursery: Nursery, log: Path, call: Call, scenario: str, **arguments: object) -> None:
        self._nursery = nursery
        self.pid = nursery.prepare(scenario, **arguments)
        self._tracer = Tracer(self.pid, log, "-e", f"inject={call.name}:signal=SIGSTOP:when={call.occurrence}")
        nursery.release(self.pid)
        limit = time.monotonic() + ATTACH_LIMIT_S
        while "stopped by SIGSTOP" not in (text := log.read_text(errors="replace")) and "exited with" not in text:
            assert time.monotonic() < limit, f"{scenario} was not stopped at {call}"
            time.sleep(0.0005)
        self.is_stopped = "stopped by SIGSTOP" in text

    def wake(self) -> int:
        """Let it run on to its end; its exit code."""
        import os
        import signal

        os.kill(self.pid, signal.SIGCONT)
        code = self._nursery.wait(self.pid)
        self._tracer.close()
        return code
