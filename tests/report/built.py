"""Jobs whose journals are written by the tests themselves, at times of their choosing."""

from pathlib import Path

from lastgood.core import events, layout
from lastgood.core.accounting import Record
from lastgood.core.events import Event
from lastgood.core.manifest import Attempt
from lastgood.core.sealed import seal
from lastgood.store.jobdir import JobDirectory, create_job

BEGAN = 1_790_000_000.0


def event(kind: str, at: float, **data: object) -> Event:
    """`at` counts from BEGAN."""
    return Event(kind, BEGAN + at, data)


def record(number: int, at: float, *told: Event, launch: str = "launch", is_fresh: bool = False) -> Record:
    return Record(number, BEGAN + at, launch, is_fresh, list(told))


def job_of(path: Path, *records: Record) -> JobDirectory:
    """A job directory in which these attempts are written down."""
    job = create_job(path)
    for one in records:
        write_attempt(job, one)
    return job


def write_attempt(job: JobDirectory, one: Record, *, version: int = layout.FORMAT_VERSION) -> None:
    claim = Attempt(version, job.id, one.number, one.began, "n1", 4242, one.launch, one.is_fresh)
    (job.attempts / layout.attempt_file(one.number)).write_bytes(seal(claim))
    text = b"".join(map(events.encode, one.events))
    (job.attempts / layout.events_file(one.number)).write_bytes(text)


def told_attempt(
    number: int,
    at: float,
    *,
    from_step: int = 0,
    commits: tuple[tuple[float, int], ...] = (),
    reached: int | None = None,
    ended: float | None = None,
    outcome: str = "killed",
    stall_s: float = 0.5,
    launch: str = "launch",
    more: tuple[Event, ...] = (),
) -> Record:
    """An attempt as a launcher and a program tell of it: launched 1 s after `at`, with its state 10 s later, its first step
    done 2 s after that."""
    told = [
        event("launched", at + 1, command=["python", "train.py"], pid=1, host="n1", is_standby=False),
        event("started", at + 11, how="resumed" if from_step else "fresh", step=from_step, rejected=[], reason=""),
        event("stepped", at + 13, step=from_step + 1),
    ]
    for when, step in commits:
        name = layout.checkpoint_name(step, number)
        told.append(event("committed", when, step=step, name=name, bytes=1000, write_s=2.0))
        told.append(event("stalled", when, step=step, stall_s=stall_s))
    told += more
    if ended is not None:
        told.append(event("ended", ended, outcome=outcome, reason=f"why {outcome}", exit_code=1, step=reached))
        told.append(event("decided", ended, action="restart", reason="it may pass", exit_code=0))
    return record(number, at, *sorted(told, key=lambda one: one.at), launch=launch)
