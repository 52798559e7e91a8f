"""Opening the job for this process: its directory, its lock, its attempt. Rank 0 acts, all ranks learn."""

import os
from pathlib import Path
from typing import Any

import msgspec

from lastgood.core.errors import UsageError
from lastgood.core.start import Expectation
from lastgood.runtime.environment import Surroundings
from lastgood.runtime.ports import Ranks
from lastgood.runtime.resume import from_rank_0
from lastgood.store.attempts import claim_attempt, read_events
from lastgood.store.jobdir import JobDirectory, create_job, open_job
from lastgood.store.lock import JobLock, lock_job
from lastgood.store.record import Records, refuse_vanished


class OpenedJob(msgspec.Struct, frozen=True):
    job: JobDirectory
    attempt: int
    lock: JobLock | None
    """Held by rank 0 of a program that runs without a launcher."""
    expectations: list[Expectation]


def choose_path(given: str | os.PathLike[str] | None, surroundings: Surroundings) -> Path:
    """The job's directory: what the launcher says, else what the program says."""
    chosen = surroundings.job or given
    if not chosen:
        raise UsageError(
            "no job directory: neither lastgood.Run(..., job=...) nor a launcher names one",
            remedy='write lastgood.Run(..., job="runs/name"), or start with `lastgood run --job runs/name -- ...`',
        )
    return Path(chosen).absolute()


def open_for(
    path: Path, surroundings: Surroundings, ranks: Ranks, records: Records, *, is_fresh_meant: bool
) -> OpenedJob:
    """Open or create the job and get an attempt number, the same on every rank.

    Raises JobBusyError, StartRefusedError, and whatever is wrong with the directory.
    """
    held: list[JobLock] = []

    def work() -> dict[str, Any]:
        if is_fresh_meant:
            records.forget(path)
        refuse_vanished(path, records)
        job = create_job(path)
        if not surroundings.is_launched:
            held.append(lock_job(job))
        record = records.read(path)
        return {"attempt": _attempt(job, surroundings, is_fresh_meant), "recorded": record.step if record else None}

    told = from_rank_0(ranks, work)
    expectations = surroundings.expectations()
    if told["recorded"] is not None:
        expectations.append(Expectation("the record in the user's state directory", told["recorded"]))
    return OpenedJob(open_job(path), told["attempt"], held[0] if held else None, expectations)


def _attempt(job: JobDirectory, surroundings: Surroundings, is_fresh_meant: bool) -> int:
    """The launcher's attempt, if this program is the first to use it; otherwise a new one.

    Something between the launcher and us (torchrun, a shell loop) may start the program again within one
    attempt of the launcher. Each start is an attempt of its own: two never write to one path.
    """
    claimed = surroundings.attempt
    if claimed is not None and not any(e.kind == "started" for e in read_events(job, claimed)):
        return claimed
    return claim_attempt(job, surroundings.launch, fresh=is_fresh_meant, restarts=surroundings.restarts).attempt
