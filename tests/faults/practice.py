"""A program that trains with a keeper, and what becomes of both."""

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from faults.nursery import Nursery
from keeper.leftovers import keepers_of
from keeper.ranks import until
from lastgood.core.events import Event
from lastgood.store import attempts, catalogue, jobdir, reader

SIGKILLED = -signal.SIGKILL


class Note(NamedTuple):
    """What the program knew when it was last heard of."""

    done: int
    taken: int
    """A snapshot of this step was taken: the save had returned."""
    committed: int
    began: int
    """The step that it went on from."""


class Practice:
    """One job, and the processes that work on it, one after the other."""

    def __init__(self, gym: Nursery, directory: Path, **settings: Any) -> None:
        self.gym = gym
        self.directory = directory
        directory.mkdir()
        self.job = directory / "job"
        self._notes = directory / "notes"
        self._result = directory / "result"
        self._go = directory / "go"
        self._settings = settings
        self._said_before = len(gym.errors())
        self.pid = 0

    def start(self, prepared: Callable[[int], None] = lambda pid: None, **more: Any) -> None:
        """Begin an attempt; returns when it is about to take its first step. `prepared` is called before it does
        anything. One that `holds_at` a step, or several, waits in it for `let_go`, and so does this for the first."""
        for go in self.directory.glob("go*"):
            go.unlink()
        self._notes.unlink(missing_ok=True)
        arguments = {
            "job": str(self.job),
            "state": str(self.directory / "state"),
            "notes": str(self._notes),
            "result": str(self._result),
            "go": str(self._go),
            **self._settings,
            **more,
        }
        self.pid = self.gym.prepare("practise", **arguments)
        prepared(self.pid)
        self.gym.release(self.pid)
        is_held = "holds_at" in more
        until(lambda: self._is_held() if is_held else self._lines() or self._has_ended())

    def _lines(self) -> list[list[str]]:
        text = self._notes.read_text() if self._notes.exists() else ""
        return [line.split() for line in text.splitlines() if text.endswith("\n") or line != text.splitlines()[-1]]

    def note(self) -> Note:
        lines = self._lines()
        done, taken, committed = map(int, lines[-1][1:])
        return Note(done, taken, committed, int(lines[0][1]))

    def _is_held(self) -> bool:
        assert not self._has_ended(), self.errors()
        return any(line[0] == "held" for line in self._lines())

    def _has_ended(self) -> bool:
        return not psutil.pid_exists(self.pid) or _is_zombie(self.pid)

    def let_go(self, step: int | None = None) -> None:
        """Of that step, or of all."""
        Path(f"{self._go}-{step}" if step is not None else self._go).touch()

    def await_step(self, step: int) -> None:
        until(lambda: self.note().done >= step)

    def await_snapshot(self) -> None:
        """Until it has taken one, or is in its last step."""
        until(lambda: self.note().taken > self.note().began or self.note().done >= self._settings["total"] - 1)

    def kill(self) -> bool:
        """False if it had ended by itself."""
        os.kill(self.pid, signal.SIGKILL)
        code = self.wait()
        assert code in (0, SIGKILLED)
        return code != 0

    def wait(self) -> int:
        return self.gym.wait(self.pid)

    def run(self, **more: Any) -> int:
        self.start(**more)
        return self.wait()

    def result(self) -> str:
        return self._result.read_text()

    def keeper(self) -> int:
        """The process id of the job's keeper; waits until there is one."""
        until(lambda: keepers_of(self.job.parent))
        return keepers_of(self.job.parent)[0].pid

    def events(self, kind: str) -> list[Event]:
        """Of all attempts, in order."""
        job = jobdir.open_job(self.job)
        return [e for n in attempts.attempt_numbers(job) for e in attempts.read_events(job, n) if e.kind == kind]

    def errors(self) -> str:
        """Of this job's processes: the gym has had others before."""
        return self.gym.errors()[self._said_before :]

    def said(self, text: str) -> int:
        return self.errors().count(text)

    def newest(self) -> int:
        """Step of the newest committed checkpoint, which may be deleted in the next moment; 0 if there is none."""
        listed = [c.step for c in catalogue.list_checkpoints(jobdir.open_job(self.job)) if c.is_committed]
        return listed[0] if listed else 0

    def committed(self) -> list[int]:
        """Steps of committed checkpoints, newest first, all of which must be whole."""
        job = jobdir.open_job(self.job)
        listed = [c for c in catalogue.list_checkpoints(job) if c.is_committed]
        for one in listed:
            assert reader.open_checkpoint(job, one.name).verify() == []
        return [one.step for one in listed]

    def assert_nothing_is_left(self) -> None:
        """No process, and with that no memory: it has no name, and goes with its last holder. No half of a file."""
        until(lambda: not keepers_of(self.job.parent))
        assert not list(self.job.rglob("*.part"))


def _is_zombie(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def moments(seed: int, number: int, most_s: float) -> list[float]:
    """Random delays, so many of them, many of which are short."""
    source = random.Random(seed)
    return [most_s * source.random() ** 2 for _ in range(number)]
