"""Stops a process at each system call that it makes, one after the other, with strace's fault injection.

Only the thread that runs the scenario is traced. Threads that read blocks for verification change
nothing, so what is on disk while they run is what was there before and after. But what they leave behind (a stack
that the next thread takes again, the last reference to an open file) depends on who was faster: a call of one run
may not come in the next. See `assert_few`.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from faults.nursery import Nursery

WAITING = "rt_sigtimedwait"
"""The call in which a child of the nursery waits for its release."""
TRACED = f"trace=%file,%desc,{WAITING}"
"""Every call that takes a path or a descriptor."""
LIMIT_S = 120.0
"""For strace to attach, and for a call to come. It takes milliseconds; a busy machine is given time."""

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
    """strace, attached to a child that has not been released yet. It ends with the child; leaving the context sees
    to both."""

    def __init__(self, pid: int, log: Path, *options: str) -> None:
        self.log = log
        log.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            ["strace", "-qq", "-s", "200", "-o", str(log), "-p", str(pid), "-e", TRACED, *options],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            # Being its tracer is not enough: strace stops it a moment later, and one that is released before that runs
            # its first calls unseen. Once strace has seen it wait again it sees all that follows.
            self.wait_for(WAITING)
            assert not self.has_ended(), "strace could not attach"
        except BaseException:
            self.close(0)
            raise

    def wait_for(self, text: str) -> bool:
        """Until strace has written that; False if it has ended without."""
        end = time.monotonic() + LIMIT_S
        while True:
            # Asked first: what it wrote before its end is read after it.
            has_ended = self.has_ended()
            if self.log.exists() and text in self.log.read_text(errors="replace"):
                return True
            if has_ended:
                return False
            assert time.monotonic() < end, f"{text!r} was not seen in {LIMIT_S:g} s"
            time.sleep(0.0005)

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def close(self, limit_s: float = LIMIT_S) -> None:
        """After the traced process has ended. One that does not end within that time is killed."""
        try:
            self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise

    def calls(self) -> list[Call]:
        """Those of files, in order."""
        seen: dict[str, int] = {}
        calls = []
        for line in self.log.read_text(errors="replace").splitlines():
            if (match := _CALL.match(line)) and match[1] != WAITING:
                name = match[1]
                seen[name] = seen.get(name, 0) + 1
                # Memory is no file: strace counts it among calls that take a descriptor, because it might.
                if "MAP_ANONYMOUS" not in line:
                    calls.append(Call(name, seen[name], line))
        return calls


def _end(nursery: Nursery, pid: int) -> None:
    """Of a child that something has gone wrong with."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    nursery.wait(pid)


@contextlib.contextmanager
def _traced(
    nursery: Nursery, log: Path, options: Sequence[str], scenario: str, arguments: dict[str, object]
) -> Iterator[tuple[int, Tracer]]:
    """A released child with its tracer. If what is done with them fails, nothing of them is left."""
    pid = nursery.prepare(scenario, **arguments)
    try:
        tracer = Tracer(pid, log, *options)
    except BaseException:
        _end(nursery, pid)
        raise
    try:
        nursery.release(pid)
        yield pid, tracer
    except BaseException:
        if nursery.has(pid):
            _end(nursery, pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            tracer.close()
        raise


def trace(nursery: Nursery, log: Path, scenario: str, **arguments: object) -> list[Call]:
    """Run a scenario undisturbed; the calls that it makes, in order."""
    with _traced(nursery, log, (), scenario, arguments) as (pid, tracer):
        code = nursery.wait(pid)
        tracer.close()
    assert code == 0, f"{scenario} failed with {code} undisturbed"
    return tracer.calls()


def kill_at(nursery: Nursery, log: Path, call: Call, scenario: str, **arguments: object) -> bool:
    """Run a scenario and kill it right before that call takes effect; False if it survived: the call did not come."""
    options = ("-e", f"inject={call.name}:signal=SIGKILL:when={call.occurrence}")
    with _traced(nursery, log, options, scenario, arguments) as (pid, tracer):
        code = nursery.wait(pid)
        tracer.close()
    assert code in (0, -signal.SIGKILL), f"{scenario} failed with {code} instead of being killed at {call}"
    return code != 0


class Frozen:
    """A scenario that was stopped (SIGSTOP) right after a call took effect."""

    def __init__(self, nursery: Nursery, log: Path, call: Call, scenario: str, **arguments: object) -> None:
        self._nursery = nursery
        options = ("-e", f"inject={call.name}:signal=SIGSTOP:when={call.occurrence}")
        with _traced(nursery, log, options, scenario, arguments) as (self.pid, self._tracer):
            self.is_stopped = self._tracer.wait_for("stopped by SIGSTOP")
        """False if the call did not come: then the scenario has ended undisturbed."""
        if not self.is_stopped:
            code = self.wake()
            assert code == 0, f"{scenario} failed with {code} undisturbed"

    def wake(self) -> int:
        """Let it run on to its end; its exit code."""
        if self.is_stopped:
            os.kill(self.pid, signal.SIGCONT)
        code = self._nursery.wait(self.pid)
        self._tracer.close()
        return code


def assert_few(missed: Sequence[Call], calls: Sequence[Call]) -> None:
    """Of the calls of a scenario, those that did not come in their own turn are so few that the campaign is one."""
    most = max(2, len(calls) // 10)
    assert len(missed) <= most, (
        f"{len(missed)} of {len(calls)} calls did not come, at most {most} may: {[str(call) for call in missed]}"
    )
