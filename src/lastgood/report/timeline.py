"""Where the time of a job went: its whole time, from its first start to its last end, in spans that follow on one another.
Pure.

What an attempt lost is what core.accounting says, within it the time of work alone: its start, its saves and a hang are
told apart. Where a journal does not tell when something happened, no moment is made up: `doubts` says what that means for
the figures.
"""

from itertools import pairwise

import msgspec

from lastgood.core.accounting import RESTARTED_INSIDE, Account, Record
from lastgood.core.chain import allocation_of
from lastgood.core.events import Event
from lastgood.core.restart import Action
from lastgood.report.layers import Stretch, in_order, joined_up, laid_over, sequence
from lastgood.report.model import Span, SpanKind

CLOCKS_S = 1.0
"""By how much one attempt may seem to begin before the end of the one before it, without a remark."""

_WORK: tuple[SpanKind, ...] = ("useful", "lost", "unseen")

_WORKING = ("started", "stepped", "committed", "stalled", "paced")
"""What a program that moves writes down."""


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt in time. Moments are None where no journal tells them."""

    number: int
    begin: float
    end: float
    is_end_seen: bool
    launched: float | None
    ready: float | None
    """From when on it did steps: its first one was done, or, if that is not told, it had its state."""
    first_step: float | None
    stretches: list[Stretch]
    """From `begin` to `end`."""
    doubts: list[str]


class Timeline(msgspec.Struct, frozen=True):
    spans: list[Span]
    courses: list[Course]
    remarks: list[str]


def timeline(records: list[Record], accounts: list[Account], now: float, *, is_running: bool) -> Timeline:
    """`records` and `accounts` of the same attempts, oldest first. An attempt without an end runs until `now`, and a launcher
    that runs the job waits until then for its next attempt."""
    floors = _floors(records)
    has_library = any(record.first("started") is not None for record in records)
    courses: list[Course] = []
    spans: list[Span] = []
    remarks: list[str] = []
    cursor = records[0].began if records else 0.0
    begins = [record.began for record in records[1:]] + [now]
    for i, (record, account) in enumerate(zip(records, accounts, strict=True)):
        begin = max(cursor, record.began)
        ended = now if account.ended is None else account.ended
        limit = begins[i] if i + 1 < len(records) else max(ended, begin)
        end = max(begin, min(ended, limit))
        if ended > limit + CLOCKS_S and i + 1 < len(records):
            remarks.append(
                f"attempt {record.number} was last heard of {ended - limit:.0f} s after attempt {records[i + 1].number} "
                "had begun (clocks that differ, or two that ran at once): it counts up to there"
            )
        course = _course(record, account, begin, end, floors[i], has_library=has_library)
        if courses:
            spans += _spans(sequence(cursor, (_between(records[i - 1], record, courses[-1]), begin)), None)
        spans += _spans(course.stretches, record.number)
        courses.append(course)
        cursor = end
    if is_running and records and _is_to_restart(records[-1]):
        spans += _spans(sequence(cursor, ("restarting", now)), None)
    return Timeline(spans, courses, remarks)


def _spans(stretches: list[Stretch], attempt: int | None) -> list[Span]:
    return [Span(kind=s.kind, begin=s.begin, end=s.end, attempt=attempt) for s in stretches]


def _between(before: Record, after: Record, course: Course) -> SpanKind:
    """What the time between two attempts was."""
    if not course.is_end_seen:
        return "unseen"
    if before.launch and before.launch == after.launch:
        return "restarting"
    there, here = _allocation(before), _allocation(after)
    return "queued" if there and here and there != here else "down"


def _is_to_restart(record: Record) -> bool:
    decided = record.last("decided")
    return decided is not None and decided.data.get("action") == Action.RESTART


def _allocation(record: Record) -> tuple[object, ...]:
    data = allocation_of(record)
    return tuple(data.get(name) for name in ("cluster", "job_id", "restart_count")) if data.get("job_id") else ()


def _floors(records: list[Record]) -> list[int | None]:
    """For each attempt the lowest step that one after it went on from: all above it was done again. -1 if that was a new
    start, which goes on from nothing."""
    floors: list[int | None] = []
    lowest: int | None = None
    for record in reversed(records):
        floors.append(lowest)
        started = record.first("started")
        step = None if started is None else step_of(started)
        if started is not None and step is not None:
            step = -1 if started.data.get("how") == "fresh" else step
            lowest = step if lowest is None else min(lowest, step)
    return floors[::-1]


def _course(
    record: Record, account: Account, begin: float, end: float, floor: int | None, *, has_library: bool
) -> Course:
    launched, started = record.first("launched"), record.first("started")
    first = _first_step(record)
    ready = first
    if ready is None and started is not None:
        # The launcher says that a wrapped command started before it starts it.
        ready = max(e.at for e in (started, launched) if e is not None) if record.is_wrapped else started.at
    doubts: list[str] = []
    last_word = _last_word(record)
    if ready is None and (signs := _signs_of_work(record)):
        ready = min(signs)
        doubts.append("its journal does not tell when it started: its start is counted until its first sign of work")
    elif ready is not None and first is None:
        until = "was launched" if record.is_wrapped else "had its state"
        doubts.append(f"it does not tell when its first step was done: its start is counted until it {until}")
    stop = end if last_word is None else last_word.at
    hangs = _hangs(record, doubts)
    if hangs and not any(event.at > hangs[-1].end for event in record.events if event.kind in _WORKING):
        # Asked what it did, it may have moved again before it was ended.
        stop = min(stop, hangs[-1].end)
    base = _base(record, account, begin, end, ready, stop, floor, doubts, has_library=has_library)
    stalls = in_order(_stalls(record, last_word, doubts))
    stretches = laid_over(joined_up(base), stalls, _WORK)
    stretches = laid_over(stretches, hangs, (*_WORK, "saving", "restarting"))
    return Course(
        number=record.number,
        begin=begin,
        end=end,
        is_end_seen=account.ended is None or is_end_seen(record) or account.outcome == RESTARTED_INSIDE,
        launched=None if launched is None else launched.at,
        ready=None if ready is None else min(max(ready, begin), end),
        first_step=first,
        stretches=stretches,
        doubts=doubts,
    )


def _base(
    record: Record,
    account: Account,
    begin: float,
    end: float,
    ready: float | None,
    stop: float,
    floor: int | None,
    doubts: list[str],
    *,
    has_library: bool,
) -> list[Stretch]:
    """Start, work that counts, work that is lost, end."""
    if ready is None:
        launched = record.first("launched")
        if launched is None or has_library:
            return sequence(begin, ("restarting", end))
        if account.outcome == "finished":
            return sequence(begin, ("restarting", min(launched.at, end)), ("useful", end))
        doubts.append("its program says nothing of what it does, and leaves no checkpoint that is known")
        return sequence(begin, ("restarting", min(launched.at, end)), ("unseen", end))
    # A file of an earlier moment, or a clock that was set back, must not move the end of the attempt.
    ready, stop = min(max(ready, begin), end), min(max(stop, ready, begin), end)
    kept_until = _kept_until(record, account, ready, stop, doubts)
    above = [event.at for event in commits(record) if floor is not None and (step_of(event) or 0) > floor]
    if floor is not None and (above or (account.reached_step or 0) > floor):
        # The next attempt may have gone on from its newest step, and one after that from an older one.
        kept = _newest_at([event for event in commits(record) if (step_of(event) or 0) <= floor], ready)
        if kept < kept_until and kept < stop:
            kept_until = kept
            why = "was a new start" if floor < 0 else f"went on from an older step, {floor}"
            doubts.append(f"a later attempt {why}: more of its time is lost than its own line tells")
    kept_until = min(max(kept_until, ready), stop)
    return sequence(begin, ("restarting", ready), ("useful", kept_until), ("lost", stop), ("stopping", end))


def _kept_until(record: Record, account: Account, ready: float, stop: float, doubts: list[str]) -> float:
    """Up to when the work of an attempt counts."""
    if account.ended is None:
        return stop
    if account.lost_steps:
        return account.ended - account.lost_s
    if account.is_loss_known:
        return stop
    # Nobody saw its last step, but what came after its last commit is in no checkpoint, and nothing goes on from it.
    doubts.append("nobody saw its last step: all its time after its last commit counts as lost")
    return _newest_at(commits(record), ready)


def _newest_at(committed: list[Event], otherwise: float) -> float:
    """When the highest step of them was committed. A clock that was set back makes an older one the later one."""
    return max(((step_of(event) or 0, event.at) for event in committed), default=(0, otherwise))[1]


def is_end_seen(record: Record) -> bool:
    """Somebody wrote down that the attempt ended, when it did."""
    return any(event.kind in ("ended", "finished", "left") for event in record.events) or (
        _last_word(record) is not None
    )


def _first_step(record: Record) -> float | None:
    """When the first step was done. Journals of earlier versions tell of the memory for snapshots that was asked for then."""
    started = record.first("started")
    if started is None or record.is_wrapped:
        return None
    told = [event.at for event in record.events if event.kind in ("stepped", "snapshots") and event.at >= started.at]
    return min(told, default=None)


def _signs_of_work(record: Record) -> list[float]:
    """Moments at which it did steps, where the line that says that it started is missing."""
    found = [event.at for event in record.events if event.kind in ("stepped", "snapshots", "paced", "stalled")]
    return found + [event.at - (number(event, "write_s") or 0.0) for event in commits(record)]


def _last_word(record: Record) -> Event | None:
    """What the program said when it did no more steps. A stop that the launcher asks for has no step."""
    for event in record.events:
        if event.kind in ("finished", "left", "exception") or (event.kind == "stopping" and "step" in event.data):
            return event
    return None


def _hangs(record: Record, doubts: list[str]) -> list[Stretch]:
    event = record.last("hang")
    if event is None:
        return []
    silent_s = number(event, "silent_s")
    if silent_s is None:
        doubts.append("its journal does not tell how long it hung: that time counts as work")
        return []
    return sequence(event.at - silent_s, ("hung", event.at))


def _stalls(record: Record, last_word: Event | None, doubts: list[str]) -> list[Stretch]:
    """When the loop stood still for a save."""
    stalls = stalls_of(record)
    found, untold = [], 0
    for event in commits(record):
        write_s, step = number(event, "write_s"), step_of(event)
        stall_s = None if step is None else stalls.get(step)
        if write_s is None:
            continue
        begin = event.at - write_s
        is_last = last_word is not None and last_word.kind in ("stopping", "finished")
        if last_word is not None and is_last and step is not None and step == step_of(last_word):
            # The final save is waited for.
            found += sequence(begin, ("saving", max(last_word.at, event.at)))
        elif stall_s is not None:
            found += sequence(begin, ("saving", begin + stall_s))
        else:
            untold += 1
    if untold:
        saves = "1 save" if untold == 1 else f"{untold} saves"
        doubts.append(f"its journal does not tell how long the loop stood still for {saves}: that counts as work")
    return found


def stalls_of(record: Record) -> dict[int, float]:
    """How long the loop stood still for the save of each step: as told, or else the median that was told after it."""
    exact: dict[int, float] = {}
    for event in record.events:
        step, stall_s = step_of(event), number(event, "stall_s")
        if event.kind == "stalled" and step is not None and stall_s is not None:
            exact[step] = stall_s
    medians: dict[int, float] = {}
    told = [
        stall_s
        for event in record.events
        if event.kind == "paced" and (stall_s := number(event, "stall_s")) is not None
    ]
    median = told[-1] if told else None
    for event in reversed(record.events):
        if event.kind == "paced":
            stall_s = number(event, "stall_s")
            median = median if stall_s is None else stall_s
        elif event.kind == "committed" and median is not None and (step := step_of(event)) is not None:
            medians[step] = median
    return medians | exact


def commits(record: Record) -> list[Event]:
    return [event for event in record.events if event.kind == "committed"]


def step_of(event: Event) -> int | None:
    """The step that an event tells; None if it tells none."""
    step = event.data.get("step")
    return step if isinstance(step, int) and not isinstance(step, bool) else None


def number(event: Event, name: str) -> float | None:
    """A length of time or a size in an event; None if it is none."""
    value = event.data.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        return None
    return float(value)


def gaps(spans: list[Span]) -> list[tuple[float, float]]:
    """Where one span does not begin at the end of the one before: nowhere, or the figures are wrong."""
    return [(a.end, b.begin) for a, b in pairwise(spans) if a.end != b.begin]
