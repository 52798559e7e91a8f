"""How a job stands, from what is on disk and, on the machine where it runs, from its heartbeats."""

import os
import time
from contextlib import suppress
from enum import StrEnum

import msgspec

from lastgood.core.accounting import Account, Record, account, saved_at
from lastgood.core.errors import LastgoodError
from lastgood.core.outcome import Outcome
from lastgood.core.restart import Action
from lastgood.core.units import byte_size
from lastgood.launch.heartbeats import directory_of, read_heartbeats, read_told
from lastgood.launch.history import ending_of, read_records
from lastgood.launch.library import LibraryProgram
from lastgood.launch.ports import LastGood
from lastgood.store.durable import explained
from lastgood.store.jobdir import JobDirectory
from lastgood.store.lock import Holder, holder


class State(StrEnum):
    RUNNING = "running"
    ORPHANED = "running without its launcher"
    FINISHED = "finished"
    STOPPED = "stopped, unfinished"
    GIVEN_UP = "given up"
    NEW = "not started yet"


class Live(msgspec.Struct, frozen=True):
    """What the heartbeats say right now."""

    step: int
    total_steps: int | None
    steps_per_s: float | None
    silent_s: float
    """Since the last sign of life of the rank that has been silent longest."""
    phase: str


class Standing(msgspec.Struct, frozen=True):
    """Everything that `lastgood status` answers. Times are in seconds since 1970."""

    job: str
    id: str
    created: float
    state: State
    why: str
    pid: int | None
    """Process that runs the job, if it runs on this machine."""
    host: str
    live: Live | None
    last_good: LastGood | None
    attempts: list[Account]
    lost_steps: int
    lost_s: float
    standby: str
    """The standby of the attempt that runs, in words; empty if no launcher said anything of one."""
    interval_s: float | None
    """Seconds between two saves, as the attempt that runs promises it; None if it counts steps, or says nothing."""
    snapshots: str
    """The memory that holds the snapshots of the attempt that runs, in words; empty if there is none."""
    restarts_left: int | None
    """Failures that would still be restarted; None if no launcher has said."""


def standing_of(job: JobDirectory, records: list[Record] | None = None) -> Standing:
    """Look at a job, changing nothing; `records`, if they have been read already. Raises StorageError or
    PermissionDeniedError if it cannot be read."""
    if records is None:
        with explained("read the attempts in", job.attempts):
            records = read_records(job)
    last_good = _last_good(job, records)
    owner = _owner(job, records)
    accounts = account(records, last_good.step if last_good else None, is_running=owner is not None)
    accounts = [_with_end(a, r, is_running=owner is not None) for a, r in zip(accounts, records, strict=True)]
    state, why = _state(job, records, accounts, owner)
    return Standing(
        job=os.fspath(job.path),
        id=job.id,
        created=job.job.created,
        state=state,
        why=why,
        pid=owner.pid if owner and not owner.is_dead and owner.host == os.uname().nodename else None,
        host=owner.host if owner else "",
        live=_live(records, accounts) if owner else None,
        last_good=last_good,
        attempts=accounts,
        lost_steps=sum(a.lost_steps for a in accounts),
        lost_s=sum(a.lost_s for a in accounts),
        standby=_standby(records[-1]) if owner and not owner.is_dead and records else "",
        interval_s=_interval(records[-1]) if owner and records else None,
        snapshots=_snapshots(records[-1]) if owner and records else "",
        restarts_left=_restarts_left(records),
    )


def _last_good(job: JobDirectory, records: list[Record]) -> LastGood | None:
    """From the store; for a program with checkpoints of its own, what was last seen of them."""
    with suppress(OSError, LastgoodError):
        if (good := LibraryProgram(job).last_good()) is not None:
            return good
    for record in reversed(records):
        event = record.last("committed")
        if event is not None and record.is_wrapped:
            step, size = event.data.get("step"), event.data.get("bytes")
            name = str(event.data.get("name", ""))
            at = saved_at(event)
            return LastGood(name, step if isinstance(step, int) else 0, at, (at,), size)
        if record.is_fresh:
            break
    return None


def _owner(job: JobDirectory, records: list[Record]) -> Holder | None:
    """Who runs the job: by its lock, or, where locks cannot tell, by the process that the journal names."""
    with suppress(OSError):
        if (found := holder(job)) is not None:
            return found
    if not records or records[-1].last("ended") or not (launched := records[-1].first("launched")):
        return None
    pid, host, birth = (launched.data.get(name) for name in ("pid", "host", "birth"))
    if not isinstance(pid, int) or host != os.uname().nodename or not read_heartbeats(directory_of(records[-1])):
        return None
    named = Holder(pid, host, birth if isinstance(birth, str) else "")
    return None if named.is_dead else named


def _state(
    job: JobDirectory, records: list[Record], accounts: list[Account], owner: Holder | None
) -> tuple[State, str]:
    if owner is not None:
        if owner.is_dead:
            return State.ORPHANED, f"process {owner.pid}, its launcher, is gone; the command still runs"
        return State.RUNNING, f"process {owner.pid} on {owner.host}"
    try:
        finished = job.finished()
    except (OSError, LastgoodError) as error:
        return State.STOPPED, f"its finished.json cannot be read: {error}"
    if finished is not None:
        return State.FINISHED, f"all steps are done, the last is {finished.step}"
    if not records:
        return State.NEW, "no attempt has been made"
    last = accounts[-1]
    decided = records[-1].last("decided") or next((e for r in reversed(records) if (e := r.last("decided"))), None)
    if last.outcome == Outcome.FINISHED:
        return State.FINISHED, last.reason
    if decided is not None and decided.data.get("action") == Action.GIVE_UP and last.outcome != Outcome.LAUNCHER_LOST:
        return State.GIVEN_UP, str(decided.data.get("reason", ""))
    return State.STOPPED, f"{last.outcome}: {last.reason}" if last.reason else last.outcome


def _with_end(accounted: Account, record: Record, *, is_running: bool) -> Account:
    """With an outcome also where nobody wrote one down."""
    if accounted.outcome or (is_running and accounted.ended is None):
        return accounted
    ending = ending_of(accounted, record)
    return msgspec.structs.replace(accounted, outcome=ending.outcome.value, reason=ending.reason)


def _live(records: list[Record], accounts: list[Account]) -> Live | None:
    launched = next((r for r in reversed(records) if r.is_launched), None)
    beats = list(read_heartbeats(directory_of(launched)).values()) if launched else []
    if not beats and launched and (told := read_told(directory_of(launched))) is not None:
        beats = [told]
    if not beats:
        return None
    now, slowest = time.monotonic(), min(beats, key=lambda beat: beat.at)
    step, total = min(beat.step for beat in beats), max(beat.total_steps for beat in beats)
    started = records[-1].first("started")
    begun, took_s = accounts[-1].from_step or 0, time.time() - (started.at if started else accounts[-1].began)
    rate = (step - begun) / took_s if took_s > 0 and step > begun else None
    return Live(step, total if total >= 0 else None, rate, max(now - slowest.at, 0.0), slowest.phase)


def _standby(record: Record) -> str:
    said = record.last("standby")
    if said is None:
        return ""
    modules, of_its_own = said.data.get("modules"), said.data.get("uss_bytes")
    if not isinstance(modules, int) or not isinstance(of_its_own, int):
        return f"none: {said.data.get('reason', '')}"
    return f"ready: {modules} modules imported, {byte_size(of_its_own)} of memory of its own"


def _interval(record: Record) -> float | None:
    said = record.last("paced")
    interval_s = said.data.get("interval_s") if said is not None else None
    return float(interval_s) if isinstance(interval_s, int | float) else None


def _snapshots(record: Record) -> str:
    """Each rank says what it has when it gets it."""
    newest = {e.data.get("rank"): e.data for e in record.events if e.kind == "snapshots"}
    sizes = [(data.get("slots"), data.get("slot_bytes")) for data in newest.values()]
    known = [(slots, size) for slots, size in sizes if isinstance(slots, int) and isinstance(size, int) and slots > 0]
    if not known:
        return ""
    count, size = sum(slots for slots, _ in known), sum(slots * size for slots, size in known)
    ranks = f" of {len(known)} ranks" if len(known) > 1 else ""
    return f"{byte_size(size)} of memory for {count} snapshot{'s' if count > 1 else ''}{ranks}"


def _restarts_left(records: list[Record]) -> int | None:
    for record in reversed(records):
        for event in reversed(record.events):
            left = event.data.get("restarts_left") if event.kind in ("decided", "launched") else None
            if isinstance(left, int):
                return left
    return None
