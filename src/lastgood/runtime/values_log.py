"""What the loop logs at each step, exactly, so that two runs can be compared bit for bit.

One line per step: `{"step": 12, "values": {"loss": 0.25}}`. Floats are written so that reading gives the
same bits. The first line says from which step the attempt went on, `{"after": 10}`: what earlier attempts have
logged beyond that step was lost with it, and does not count.
"""

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from lastgood.core import layout, tree
from lastgood.core.errors import DamagedError, UnstorableError
from lastgood.store import durable
from lastgood.store.attempts import attempt_numbers, read_attempt
from lastgood.store.jobdir import JobDirectory, open_job

FLUSH_S = 1.0


class ValuesLog:
    """Collects values of a step and appends them in one line when the step is done."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._values: dict[str, Any] = {}
        self._lines: list[bytes] = []
        self._file: durable.AppendFile | None = None
        self._flushed_at = time.monotonic()
        self.latest: dict[str, float] = {}
        """Newest number logged under each name since the last safe point, if it is finite."""
        self.failure: OSError | None = None
        """Why lines could not be written last time; they are kept until they can."""

    def begin(self, step: int) -> None:
        """The attempt goes on after `step`."""
        self._lines.append(msgspec.json.encode({"after": step}) + b"\n")

    def add(self, values: dict[str, object]) -> None:
        for name, value in values.items():
            # A 0-dimensional array or tensor is meant as its number.
            item = getattr(value, "item", None)
            plain = item() if item is not None and getattr(value, "ndim", None) == 0 else value
            try:
                self._values[name] = tree.flatten(plain, at=f"run.log({name}=...)").skeleton
            except UnstorableError as error:
                raise UnstorableError(error.what, remedy="log numbers, texts, and lists of these") from None
            self.latest.pop(name, None)
            # A NaN must not stand behind the last number that was good.
            if isinstance(plain, int | float) and not isinstance(plain, bool) and math.isfinite(plain):
                self.latest[name] = float(plain)

    def has_new(self, name: str | None) -> bool:
        """A number was logged under this name since the last safe point."""
        return name in self.latest

    def end_step(self, step: int) -> None:
        if self._values:
            self._lines.append(msgspec.json.encode({"step": step, "values": self._values}) + b"\n")
            self._values = {}
        if time.monotonic() - self._flushed_at >= FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Hand the lines to the operating system: they survive the death of this process."""
        self._flushed_at = time.monotonic()
        if not self._lines:
            return
        try:
            if self._file is None:
                self._file = durable.AppendFile(self._path)
            self._file.append(b"".join(self._lines))
        except OSError as error:
            # A log must not stop the job that it describes. What was partly written is written again.
            self.failure = error
            return
        self.failure = None
        self._lines = []

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def read_log(job: JobDirectory | Path | str, rank: int = 0) -> dict[int, dict[str, Any]]:
    """What a job logged, as {step: {name: value}}, by rising step.

    Where several attempts did a step, the newest one's values count. Torn lines are passed over.

    Raises NoSuchJobError if there is no job in the directory.
    """
    if not isinstance(job, JobDirectory):
        job = open_job(job)
    log: dict[int, dict[str, Any]] = {}
    with durable.explained("read the log of", job.path):
        for number in attempt_numbers(job):
            if _is_new_start(job, number):
                log.clear()
            for record in _records(job.attempts / layout.values_file(number, rank)):
                _add(log, record)
    return dict(sorted(log.items()))


def read_logs_of_attempts(job: JobDirectory | Path | str, rank: int = 0) -> list[tuple[int, dict[int, dict[str, Any]]]]:
    """What each attempt logged by itself, as [(number, {step: {name: value}})], since the newest start from zero: steps
    that were done again are in several. As `read_log` otherwise."""
    if not isinstance(job, JobDirectory):
        job = open_job(job)
    logs: list[tuple[int, dict[int, dict[str, Any]]]] = []
    with durable.explained("read the log of", job.path):
        for number in attempt_numbers(job):
            if _is_new_start(job, number):
                logs.clear()
            log: dict[int, dict[str, Any]] = {}
            for record in _records(job.attempts / layout.values_file(number, rank)):
                _add(log, record)
            logs.append((number, log))
    return logs


def _is_new_start(job: JobDirectory, number: int) -> bool:
    try:
        attempt = read_attempt(job, number)
    except DamagedError:
        return False
    return attempt is not None and attempt.fresh


def _records(path: Path) -> Iterator[Any]:
    try:
        fd = durable.open_regular(path)
    except (FileNotFoundError, DamagedError):
        return
    with open(fd, "rb") as file:
        for line in file:
            try:
                yield msgspec.json.decode(line)
            except (msgspec.DecodeError, RecursionError):
                continue


def _add(log: dict[int, dict[str, Any]], record: Any) -> None:
    try:
        if "after" in record:
            for step in [step for step in log if step > int(record["after"])]:
                del log[step]
        else:
            values = tree.unflatten(record["values"], lambda name, kind, tag: None)
            log.setdefault(int(record["step"]), {}).update(values)
    except (KeyError, TypeError, ValueError, DamagedError):
        return
