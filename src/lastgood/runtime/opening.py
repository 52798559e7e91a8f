"""Opening the job for this process: its directory, its lock, its attempt. Rank 0 acts, all ranks learn."""

import os
import time
from pathlib import Path
from typing import Any

import msgspec

from lastgood.core.errors import DamagedError, NoSuchJobError, UsageError
from lastgood.core.start import Expectation
from lastgood.core.units import duration
from lastgood.keeper.client import Keeper, NoKeeperError
from lastgood.runtime.agreement import from_rank_0
from lastgood.runtime.environment import Surroundings
from lastgood.runtime.ports import Ranks
from lastgood.runtime.talk import say
from lastgood.store.attempts import attempt_numbers, claim_attempt, read_attempt, read_events
from lastgood.store.jobdir import JobDirectory, create_job, open_job
from lastgood.store.lock import JobLock, lock_job
from lastgood.store.record import Records, refuse_vanished

DRAIN_LIMIT_S = 600.0
"""How long a start waits for what an earlier attempt's keeper writes; then it begins with an older checkpoint."""

_PATIENCE_S = 15.0


class OpenedJob(msgspec.Struct, frozen=True):
    job: JobDirectory
    attempt: int
    lock: JobLock | None
    """Held by rank 0 of a program that runs without a launcher."""
    expectations: list[Expectation]
    is_fresh_meant: bool


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
    path: Path, surroundings: Surroundings, ranks: Ranks, records: Records, *, is_fresh_asked: bool
) -> OpenedJob:
    """Open or create the job and get an attempt number, the same on every rank. `is_fresh_asked`: the program
    asks for a new start.

    Raises JobBusyError, StartRefusedError, and whatever is wrong with the directory.
    """
    held: list[JobLock] = []

    def work() -> dict[str, Any]:
        is_fresh_meant = _begins_anew(path, surroundings, is_asked=is_fresh_asked)
        if not is_fresh_meant:
            refuse_vanished(path, records)
        job = create_job(path)
        if not surroundings.is_launched:
            held.append(lock_job(job))
        attempt = _launchers_attempt(job, surroundings, is_fresh_meant)
        if attempt is None:
            # Before the claim: afterwards the snapshot of an attempt that has died would be too late.
            await_keeper(job)
        if is_fresh_meant:
            records.forget(path)
        record = records.read(path)
        if attempt is None:
            claim = claim_attempt(job, surroundings.launch, fresh=is_fresh_meant, restarts=surroundings.restarts)
            attempt = claim.attempt
        return {
            "attempt": attempt,
            "recorded": record.step if record else None,
            "fresh": is_fresh_meant,
        }

    try:
        told = from_rank_0(ranks, work)
        expectations = surroundings.expectations()
        if told["recorded"] is not None:
            expectations.append(Expectation("the record in the user's state directory", told["recorded"]))
        return OpenedJob(open_job(path), told["attempt"], held[0] if held else None, expectations, told["fresh"])
    except BaseException:
        for lock in held:
            lock.close()
        raise


def await_keeper(job: JobDirectory) -> None:
    """Let the keeper of an earlier attempt on this node, if there is one, finish what it writes."""
    try:
        keeper = Keeper(job, drain_s=DRAIN_LIMIT_S)
    except NoKeeperError:
        return
    began = time.monotonic()
    while time.monotonic() - began < DRAIN_LIMIT_S:
        try:
            keeper.drain(_PATIENCE_S)
            break
        except TimeoutError:
            if not keeper.answers():
                say(f"the keeper of an earlier attempt (process {keeper.pid}) does not answer; going on without it")
                break
            waited = duration(time.monotonic() - began)
            say(f"an earlier attempt's snapshot is still being written, waiting for it, {waited} so far")
        except OSError:
            break
    keeper.close()


def _begins_anew(path: Path, surroundings: Surroundings, *, is_asked: bool) -> bool:
    """True if a new start is meant. It is meant once: a program that is started again by what started it
    before, with the same words, goes on from what it has saved since."""
    if not surroundings.is_fresh_meant and not is_asked:
        return False
    job = _existing(path)
    if surroundings.is_fresh_meant:
        return job is None or surroundings.attempt is None or not _has_started(job, surroundings.attempt)
    if any(surroundings.restarts.values()):
        return False
    return job is None or not surroundings.launch or not _has_started_in(job, surroundings.launch)


def _existing(path: Path) -> JobDirectory | None:
    try:
        return open_job(path)
    except NoSuchJobError:
        return None


def _has_started_in(job: JobDirectory, launch: str) -> bool:
    """Whether an attempt of the same launch has come as far as to start."""
    for number in attempt_numbers(job):
        try:
            attempt = read_attempt(job, number)
        except DamagedError:
            continue
        if attempt is not None and attempt.launch == launch and _has_started(job, number):
            return True
    return False


def _has_started(job: JobDirectory, attempt: int) -> bool:
    return any(event.kind == "started" for event in read_events(job, attempt))


def _launchers_attempt(job: JobDirectory, surroundings: Surroundings, is_fresh_meant: bool) -> int | None:
    """The launcher's attempt, if this program is the first to use it; None if a new one is to be claimed.

    Something between the launcher and us (torchrun, a shell loop) may start the program again within one
    attempt of the launcher. Each start is an attempt of its own: two never write to one path. And a new
    start that only the program means has to be on record, for the starts that follow.
    """
    claimed = surroundings.attempt
    is_on_record = surroundings.is_fresh_meant or not is_fresh_meant
    return claimed if claimed is not None and is_on_record and not _has_started(job, claimed) else None
