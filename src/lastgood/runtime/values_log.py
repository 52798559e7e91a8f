"""What the loop logs at each step, exactly, so that two runs can be compared bit for bit.

One line per step: `{"step": 12, "values": {"loss": 0.25}}`. Floats are written so that reading gives the
same bits. Lines of steps after the checkpoint that a later attempt resumed from are superseded by it.
"""

import time
from pathlib import Path
from typing import Any

import msgspec

from lastgood.core import layout, tree
from lastgood.core.errors import DamagedError, UnstorableError
from lastgood.runtime.ports import Framework
from lastgood.store import durable
from lastgood.store.attempts import attempt_numbers, read_attempt
from lastgood.store.jobdir import JobDirectory, open_job, read_document

FLUSH_S = 1.0


class ValuesLog:
    """Collects values of a step and appends them in one line when the step is done."""

    def __init__(self, path: Path, frameworks: list[Framework]) -> None:
        self._path = path
        self._frameworks = frameworks
        self._values: dict[str, Any] = {}
        self._lines: list[bytes] = []
        self._file: durable.AppendFile | None = None
        self._flushed_at = time.monotonic()
        self.latest: dict[str, float] = {}
        """Newest finite number logged under each name: what retention chooses the best by."""

    def add(self, values: dict[str, object]) -> None:
        for name, value in values.items():
            # A 0-dimensional array or tensor is meant as its number.
            item = getattr(value, "item", None)
            plain = item() if item is not None and getattr(value, "ndim", None) == 0 else value
            encoded = tree.flatten(plain, self._frameworks, at=f"run.log({name}=...)")
            if encoded.arrays:
                raise UnstorableError(f"run.log({name}=...): cannot log an array", remedy="log numbers or short texts")
            self._values[name] = encoded.skeleton
            if (
                isinstance(plain, int | float)
                and not isinstance(plain, bool)
                and isinstance(encoded.skeleton, int | float)
            ):
                self.latest[name] = float(plain)

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
        with durable.explained("append to", self._path, safe="checkpoints are untouched"):
            if self._file is None:
                self._file = durable.AppendFile(self._path)
            self._file.append(b"".join(self._lines))
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
            try:
                attempt = read_attempt(job, number)
            except DamagedError:
                attempt = None
            if attempt is not None and attempt.fresh:
                log.clear()
            data = read_document(job.attempts / layout.values_file(number, rank)) or b""
            for line in data.split(b"\n"):
                _add_line(log, line)
    return dict(sorted(log.items()))


def _add_line(log: dict[int, dict[str, Any]], line: bytes) -> None:
    try:
        record = msgspec.json.decode(line)
        values = tree.unflatten(record["values"], lambda name, kind, tag: None)
        log[int(record["step"])] = dict(values)
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, DamagedError):
        return
