"""Attempts of a job: claiming the next number, which fences off earlier ones, and their journals."""

import os
import socket
import time
from pathlib import Path

from lastgood.core import events, layout
from lastgood.core.errors import DamagedError, FencedError, StorageError
from lastgood.core.manifest import Attempt
from lastgood.core.sealed import seal, unseal
from lastgood.store import durable
from lastgood.store.jobdir import JobDirectory, read_document

MAX_ATTEMPTS = 999_999_999


def attempt_numbers(job: JobDirectory) -> list[int]:
    """Numbers claimed so far, rising. Raises OSError if the directory cannot be read."""
    return sorted(n for name in os.listdir(job.attempts) if (n := layout.parse_attempt_file(name)) is not None)


def claim_attempt(
    job: JobDirectory, launch: str, *, fresh: bool = False, restarts: dict[str, int] | None = None
) -> Attempt:
    """Take the next attempt number, by exclusive create. From now on lower numbers commit nothing."""
    with durable.explained("claim an attempt in", job.attempts, safe="nothing was changed"):
        number = max(attempt_numbers(job), default=0) + 1
        while number <= MAX_ATTEMPTS:
            attempt = Attempt(
                layout.FORMAT_VERSION,
                job.id,
                number,
                time.time(),
                socket.gethostname(),
                os.getpid(),
                launch,
                fresh,
                restarts or {},
            )
            if durable.create_file(job.attempts / layout.attempt_file(number), seal(attempt)):
                return attempt
            number += 1
    raise StorageError(f"{job.attempts} is full of attempts")


def read_attempt(job: JobDirectory, number: int) -> Attempt | None:
    """The record of an attempt; None if there is none, also if its number was claimed and the record never
    arrived (on a file system without hard links, when the claimer was killed in between)."""
    name = layout.attempt_file(number)
    with durable.explained("read", job.attempts / name):
        data = read_document(job.attempts / name)
    return unseal(data, Attempt, f"{layout.ATTEMPTS_DIR}/{name}") if data else None


def check_fence(job: JobDirectory, attempt: int) -> None:
    """Raise FencedError if a newer attempt than `attempt` has been claimed."""
    newest = max(attempt_numbers(job), default=0)
    if newest > attempt:
        raise FencedError(
            f"attempt {newest} of the job in {job.path} has begun; this is attempt {attempt} and must not write any more",
            safe="nothing of the newer attempt was touched",
            remedy="nothing to do if the job was requeued; otherwise end one of the two programs",
        )


def check_launcher(job: JobDirectory, attempt: int, launch: str) -> None:
    """Raise FencedError if the newest attempt is newer than `attempt`, and of another launcher than `launch`: one below
    the launcher (torchrun) begins others in its name."""
    newest = max(attempt_numbers(job), default=0)
    claimed = read_attempt(job, newest) if newest > attempt else None
    if claimed is not None and claimed.launch != launch:
        check_fence(job, attempt)


class Journal:
    """Appends what happens to an attempt's event file. A failure to write is kept, not raised:
    a journal must never stop the job that it describes."""

    def __init__(self, job: JobDirectory, attempt: int) -> None:
        self.path: Path = job.attempts / layout.events_file(attempt)
        self.failure: OSError | None = None
        self._file: durable.AppendFile | None = None

    def write(self, kind: str, **data: object) -> None:
        try:
            if self._file is None:
                self._file = durable.AppendFile(self.path)
            self._file.append(events.encode(events.Event(kind, time.time(), data)))
        except OSError as error:
            self.failure = error

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def read_events(job: JobDirectory, number: int) -> list[events.Event]:
    """What is known of an attempt; empty if its journal is missing or is no file. Raises OSError if it
    cannot be read."""
    try:
        data = read_document(job.attempts / layout.events_file(number))
    except DamagedError:
        return []
    return events.decode_lines(data or b"")
