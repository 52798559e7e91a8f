"""Runs contenders one at a time, each in processes of its own and in a directory that is empty and then removed."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from peers import processes

END_S = 10.0
"""How long processes of a contender may outlive it before they are ended."""


class FailedError(Exception):
    """A contender did not do what it should, with its last line."""


class Lab:
    def __init__(self, directory: Path, *, scale: float, threads: int, limit_s: float) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="bench-", dir=directory))
        self.scale = scale
        self.threads = threads
        self.limit_s = limit_s
        self.memory: list[tuple[float, int]] = []
        """Samples of the newest run with `is_watched`: time and bytes."""

    def run(
        self, contender: str, mode: str, kind: str, *options: str, is_watched: bool = False, **more: Any
    ) -> dict[str, Any]:
        """What the worker has measured. Raises FailedError."""
        with self._place(more.pop("directory", None)) as place:
            output, log = place / "found.json", place / "log"
            token = uuid.uuid4().hex
            named = {"kind": kind, "scale": self.scale, "threads": self.threads, "token": token, **more}
            command = [sys.executable, "-W", "ignore", "-m", "peers.worker", contender, mode, *options]
            command += [word for name, value in named.items() for word in (f"--{name}", str(value))]
            command += ["--directory", str(place), "--output", str(output)]
            os.sync()
            with log.open("wb") as file:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=self._environment(token, place)
                )
                try:
                    self._wait(process, token, is_watched=is_watched)
                finally:
                    process.kill()
                    process.wait()
                    left = processes.wait_for_end(token, END_S)
            if process.returncode or not output.exists():
                raise FailedError(_reason(log.read_text(errors="replace")) or f"exit code {process.returncode}")
            found: dict[str, Any] = json.loads(output.read_text())
            output.unlink()
            return {**found, "left_behind": left}

    def close(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    @contextmanager
    def _place(self, given: Path | None) -> Iterator[Path]:
        if given is not None:
            given.mkdir(exist_ok=True)
            yield given
            return
        place = Path(tempfile.mkdtemp(dir=self.directory))
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _environment(self, token: str, place: Path) -> dict[str, str]:
        return {
            **os.environ,
            processes.VARIABLE: token,
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
            "LASTGOOD_STATE_DIR": str(place / "state"),
            "OMP_NUM_THREADS": str(self.threads),
        }

    def _wait(self, process: subprocess.Popen[bytes], token: str, *, is_watched: bool) -> None:
        self.memory = []
        until = time.monotonic() + self.limit_s
        if is_watched:
            watch = threading.Thread(target=self._watch, args=(process, token), daemon=True)
            watch.start()
        try:
            process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise FailedError(f"did not end within {self.limit_s:.0f} s") from None
        finally:
            if is_watched:
                process.kill()
                watch.join(10.0)

    def _watch(self, process: subprocess.Popen[bytes], token: str) -> None:
        while process.poll() is None:
            self.memory.append((time.monotonic(), processes.memory_bytes(token)))
            time.sleep(0.02)


def _reason(log: str) -> str:
    """The line that says what went wrong."""
    # What comes after this is raised by objects that were only half made.
    lines = log.partition("Exception ignored in")[0].strip().splitlines()
    errors = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Exit)\b", line)]
    return (errors or lines or [""])[-1][:200]


def rotated(names: Sequence[str], by: int) -> list[str]:
    """The same names, beginning with another one, so that nobody always comes after the same neighbour's mess."""
    by %= max(1, len(names))
    return [*names[by:], *names[:by]]
