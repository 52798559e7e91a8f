"""Starts a job, kills its worker, and waits for the first step of the next one."""

import json
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from lab import FailedError
from peers import processes

from restarts.ways import Way

PARTS = ("to its first line", "imports", "making the state", "loading", "first step")


class Killed:
    """One start and one kill: how long each part of the way back took, in seconds."""

    def __init__(self, parts: list[float], saved: int, lost: int) -> None:
        self.parts = parts
        self.saved = saved
        """The step that the next process began from."""
        self.lost = lost
        """Steps that had to be done again."""

    @property
    def total_s(self) -> float:
        return sum(self.parts)


def kill_once(way: Way, directory: Path, scale: float, every: int, *, pause_s: float, limit_s: float) -> Killed:
    """Raises FailedError if no step follows the kill."""
    events, store, token = directory / "events", directory / "store", uuid.uuid4().hex
    environment = {
        **os.environ,
        processes.VARIABLE: token,
        "BENCH_EVENTS": str(events),
        "BENCH_STORE": str(store),
        "BENCH_SCALE": str(scale),
        "BENCH_EVERY": str(every),
        "LASTGOOD_STATE_DIR": str(directory / "state"),
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]),
    }
    with (directory / "log").open("wb") as log:
        supervisor = subprocess.Popen(
            way.command(store),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
        try:
            began = _await(lambda: _step(events, 2 * every), limit_s, directory)
            # Whatever is made ready for a restart has the time that it would have in earnest.
            time.sleep(pause_s)
            pid = int(began["pid"])
            os.kill(pid, signal.SIGKILL)
            killed_at = time.monotonic()
            _await(lambda: _first_step_after(events, pid), limit_s, directory)
        finally:
            supervisor.kill()
            supervisor.wait()
            processes.wait_for_end(token, 0.0)
    return _judged(_read(events), pid, killed_at)


def _judged(lines: list[dict[str, float]], pid: int, killed_at: float) -> Killed:
    new = next(line["pid"] for line in lines if line["pid"] != pid and line["event"] == "step")
    first = {line["event"]: line for line in reversed([line for line in lines if line["pid"] == new])}
    # A process that stood by has begun and imported before the kill.
    marks = [
        killed_at,
        *(max(killed_at, first[name]["at"]) for name in ("started", "imported", "made", "loaded", "step")),
    ]
    last = max(line["step"] for line in lines if line["pid"] == pid and line["event"] == "step")
    saved = int(first["loaded"]["step"])
    return Killed([after - before for before, after in pairwise(marks)], saved, int(last) - saved)


def _step(events: Path, step: int) -> dict[str, float] | None:
    return next((line for line in _read(events) if line["event"] == "step" and line["step"] >= step), None)


def _first_step_after(events: Path, pid: int) -> dict[str, float] | None:
    return next((line for line in _read(events) if line["event"] == "step" and line["pid"] != pid), None)


def _read(events: Path) -> list[dict[str, float]]:
    if not events.exists():
        return []
    return [json.loads(line) for line in events.read_text().splitlines() if line.endswith("}")]


def _await(find: Callable[[], dict[str, float] | None], limit_s: float, directory: Path) -> dict[str, float]:
    until = time.monotonic() + limit_s
    while (found := find()) is None:
        if time.monotonic() > until:
            lines = (directory / "log").read_text(errors="replace").strip().splitlines() or ["nothing was said"]
            raise FailedError(f"no step within {limit_s:.0f} s: {lines[-1][:150]}")
        # Seldom: the job should have the processor to itself.
        time.sleep(0.05)
    return found
