"""Pressure on the machine while a drill runs: processors, memory and disk, by processes of ours at normal priority.

    with Pressure(parse_load("cpu=2,memory=1GiB,io"), directory) as pressure:
        ...
    pressure.done                                 # what it really did

The processes end with the drill, in whatever way that ends: they stop when their input is closed.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import psutil

from lastgood.core.errors import LastgoodError, UsageError
from lastgood.core.units import byte_size, parse_byte_size

ALL = "cpu,memory,io"
"""What --load means without a value."""
_MEMORY_SHARE = 0.25
_MOST_SHARE = 0.8
_START_LIMIT_S = 60.0
_REMEDY = "write --load cpu=2,memory=1GiB,io, or leave out what is not wanted"


class Load(msgspec.Struct, frozen=True):
    cpu: int = 0
    """So many processes compute."""
    memory_bytes: int = 0
    """So much memory is held, and written to again and again."""
    io: bool = False
    """One process writes, flushes and reads where the job works."""


class LoadDone(msgspec.Struct, frozen=True):
    """What the pressure came to."""

    load: Load
    took_s: float
    cpu_s: float
    """Processor time that it used, of all its processes."""
    memory_bytes: int
    """Held at the end."""
    written_bytes: int
    """To the disk on which the job works."""


def parse_load(text: str, *, cores: int | None = None, available_bytes: int | None = None) -> Load:
    """What is written after --load; where a size is left out, as much as this machine has cores, a quarter of the memory that
    is free. Raises UsageError for what is wrong, or more memory than there is.

    >>> parse_load("cpu=2,memory=1GiB,io", cores=8, available_bytes=2**34)
    Load(cpu=2, memory_bytes=1073741824, io=True)
    >>> parse_load("cpu,memory", cores=8, available_bytes=2**34)
    Load(cpu=8, memory_bytes=4294967296, io=False)
    """
    cores = cores or len(os.sched_getaffinity(0))
    available = psutil.virtual_memory().available if available_bytes is None else available_bytes
    given: dict[str, Any] = {}
    for word in text.split(","):
        name, equals, value = (part.strip() for part in word.partition("="))
        if name in given or (equals and not value):
            raise UsageError(f"--load {text}: {word.strip()!r} is given twice, or has no value", remedy=_REMEDY)
        if name == "cpu":
            if value and not (value.isascii() and value.isdigit() and 0 < int(value) <= 4096):
                raise UsageError(f"--load {text}: cpu={value} is no number of processes", remedy=_REMEDY)
            given[name] = int(value or cores)
        elif name == "memory":
            given[name] = parse_byte_size(value) if value else int(available * _MEMORY_SHARE)
        elif name == "io" and not equals:
            given[name] = True
        else:
            raise UsageError(f"--load {text}: {word.strip()!r} is not cpu[=N], memory[=SIZE] or io", remedy=_REMEDY)
    if given.get("memory", 0) > available * _MOST_SHARE:
        raise UsageError(
            f"--load {text}: of this machine's memory {byte_size(available)} are free",
            safe="nothing was started",
            remedy=f"give at most {byte_size(available * _MOST_SHARE)}: the fault out-of-memory is safe for the machine",
        )
    return Load(given.get("cpu", 0), given.get("memory", 0), given.get("io", False))


class Pressure:
    """Between entering and leaving. Raises LastgoodError if its processes do not start."""

    def __init__(self, load: Load, directory: Path) -> None:
        self._load = load
        self._directory = directory / "load"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._io: subprocess.Popen[bytes] | None = None
        self._began = 0.0
        self.done: LoadDone | None = None
        """Known when it has ended."""

    def __enter__(self) -> "Pressure":
        self._began = time.monotonic()
        try:
            for _ in range(self._load.cpu):
                self._start("cpu")
            if self._load.memory_bytes:
                self._start("memory", str(self._load.memory_bytes))
            if self._load.io:
                self._directory.mkdir()
                self._io = self._start("io", str(self._directory))
            for process in self._processes:
                self._await_ready(process)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        used = [_used(process.pid) for process in self._processes]
        written = _used(self._io.pid).get("written_bytes", 0) if self._io is not None else 0
        self.done = LoadDone(
            self._load,
            time.monotonic() - self._began,
            cpu_s=sum(each.get("cpu_s", 0.0) for each in used),
            memory_bytes=int(max((each.get("memory_bytes", 0) for each in used), default=0))
            if self._load.memory_bytes
            else 0,
            written_bytes=int(written),
        )
        self._end()

    def _start(self, *words: str) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [sys.executable, "-m", "lastgood.drill.load_worker", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._processes.append(process)
        return process

    def _await_ready(self, process: "subprocess.Popen[bytes]") -> None:
        """It says a word when its pressure is there."""
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        end = time.monotonic() + _START_LIMIT_S
        while not process.stdout.read():
            if process.poll() is not None or time.monotonic() > end:
                raise LastgoodError("a process that makes load did not start", remedy="give a smaller --load")
            time.sleep(0.01)

    def _end(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.communicate()
        with suppress(OSError):
            for path in self._directory.iterdir():
                path.unlink()
            self._directory.rmdir()


def _used(pid: int) -> Mapping[str, float]:
    """Nothing of a process that has ended: it has made no load until now."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        with process.oneshot():
            times = process.cpu_times()
            used = {"cpu_s": times.user + times.system, "memory_bytes": process.memory_info().rss}
        with suppress(psutil.Error):
            used["written_bytes"] = process.io_counters().write_chars
        return used
    return {}
