"""Starting the real launcher, and finding whatever it might leave behind."""

import ctypes
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from journals import whole_lines

MARK = "LASTGOOD_TEST_MARK"
LIMIT_S = 180.0
"""No wait in a test takes longer; nothing in them is expected to come near it."""


class Ended(NamedTuple):
    code: int
    out: str
    err: str


def wait_for(condition: Callable[[], Any], what: str = "", limit_s: float = LIMIT_S) -> Any:
    """The first true answer of `condition`; fails if there is none within the limit."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if answer := condition():
            return answer
        time.sleep(0.02)
    raise AssertionError(f"did not happen within {limit_s} s: {what or condition}")


def without_root_powers() -> None:
    """For preexec_fn: from the next exec on, permissions count also for root."""
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


class Launcher:
    """`lastgood run` on one job directory. Everything below it carries a mark in its environment."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.job = directory / "job"
        self.mark = uuid.uuid4().hex
        self.environment = {**os.environ, MARK: self.mark}
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, *words: object, job: Path | None = None, **popen: Any) -> "subprocess.Popen[bytes]":
        """Options, "--", and the command; or a command only."""
        given = [os.fspath(w) if isinstance(w, Path) else w if isinstance(w, bytes) else str(w) for w in words]
        if "--" not in given:
            given.insert(0, "--")
        command = [sys.executable, "-m", "lastgood", "run", "--job", os.fspath(job or self.job), *given]
        number = len(self.processes)
        with open(self.directory / f"out-{number}", "wb") as out, open(self.directory / f"err-{number}", "wb") as err:
            popen = {
                "stdin": subprocess.DEVNULL,
                "stdout": out,
                "stderr": err,
                "env": self.environment,
                "cwd": self.directory,
                **popen,
            }
            process = subprocess.Popen(command, **popen)
        self.processes.append(process)
        return process

    def run(self, *words: object, **popen: Any) -> Ended:
        return self.end_of(self.start(*words, **popen))

    def end_of(self, process: "subprocess.Popen[bytes]") -> Ended:
        code = process.wait(LIMIT_S)
        number = self.processes.index(process)
        return Ended(code, self.output(number, "out"), self.output(number, "err"))

    def output(self, number: int = -1, which: str = "out") -> str:
        number = number % len(self.processes)
        return (self.directory / f"{which}-{number}").read_text("utf-8", "surrogateescape")

    def wait_for_output(self, text: str, which: str = "out") -> None:
        """Fails at once, with all that was printed, if the launcher ends without it."""

        def has_it() -> bool:
            has_ended = self.processes[-1].poll() is not None
            if text in self.output(-1, which):
                return True
            printed = f"{self.output(-1, 'out')}\n{self.output(-1, 'err')}"
            assert not has_ended, f"ended without {text!r} in its output:\n{printed}"
            return False

        wait_for(has_it, f"{text!r} in the output")

    def events(self, attempt: int) -> list[dict[str, Any]]:
        return whole_lines(self.job / "attempts" / f"{attempt:04d}.events.jsonl")

    def event(self, attempt: int, kind: str) -> dict[str, Any]:
        return next(e["data"] for e in self.events(attempt) if e["kind"] == kind)

    def outcomes(self) -> list[str]:
        """How each attempt ended."""
        numbers = sorted(int(p.name[:4]) for p in (self.job / "attempts").glob("[0-9]*.json"))
        return [next((e["data"]["outcome"] for e in self.events(n) if e["kind"] == "ended"), "") for n in numbers]

    @property
    def log(self) -> str:
        return (self.job / "log.txt").read_text("utf-8", "surrogateescape")

    def survivors(self) -> list[psutil.Process]:
        """Living processes that carry our mark."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def kill_survivors(self) -> None:
        """Those that end by themselves meanwhile, as a keeper may when its program is gone, are as good as killed."""
        for process in self.survivors():
            with suppress(psutil.NoSuchProcess):
                process.kill()


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    """Fails the test if any process is left at its end."""
    launcher = Launcher(tmp_path)
    yield launcher
    for process in launcher.processes:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait(LIMIT_S)
    # What ends by itself is given time for it: on a busy machine it may not have run yet.
    end = time.monotonic() + 60.0
    while (left := launcher.survivors()) and time.monotonic() < end:
        time.sleep(0.05)
    launcher.kill_survivors()
    assert not left, f"left behind: {left}"


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str, str], Path]:
    """Writes a Python program: `script("name.py", source)`."""

    def write(name: str, source: str) -> Path:
        path = tmp_path / name
        path.write_text(source)
        return path

    return write
