"""What a report says of each attempt: a line of its own, marks on the time line, and the table of outcomes. Pure."""

import math
from collections.abc import Sequence

from lastgood.core.accounting import RESTARTED_INSIDE, Account, Record
from lastgood.core.chain import allocation_of
from lastgood.core.events import Event
from lastgood.core.outcome import Outcome as Ends
from lastgood.report.model import AttemptLine, Mark, Outcome
from lastgood.report.timeline import Course, commits, number, step_of

_MOST = 2**53
"""Larger numbers are no exit codes and no counts, and readers of JSON lose their last digits."""

RUNNING = "running"
"""In a table of outcomes, where one that has none stands beside others."""

_TROUBLE = {
    "save_failed": "save failed",
    "late": "save late",
    "keeper_lost": "keeper lost",
    "agents_lost": "agents lost",
    "rejected": "checkpoint rejected",
    "not_promoted": "not promoted",
    "not_deleted": "not deleted",
    "excluded": "nodes excluded",
}
"""Kinds of lines in a journal that tell of something that did not end the attempt."""


def attempt_lines(
    records: Sequence[Record], accounts: Sequence[Account], courses: Sequence[Course], resumed_from: dict[int, str]
) -> list[AttemptLine]:
    """`resumed_from`: names of checkpoints, by attempt."""
    lines = []
    for i, (record, account, course) in enumerate(zip(records, accounts, courses, strict=True)):
        before = courses[i - 1] if i and records[i - 1].launch == record.launch and record.launch else None
        lines.append(_line(record, account, course, before, resumed_from.get(record.number, "")))
    return lines


def _line(record: Record, account: Account, course: Course, before: Course | None, resumed_from: str) -> AttemptLine:
    started, launched = record.first("started"), record.first("launched")
    allocation = allocation_of(record)
    seconds: dict[str, float] = {}
    for stretch in course.stretches:
        seconds[stretch.kind] = seconds.get(stretch.kind, 0.0) + stretch.end - stretch.begin
    since = course.begin if before is None else before.end
    return AttemptLine(
        attempt=record.number,
        began=course.begin,
        ended=None if account.ended is None else course.end,
        is_end_seen=course.is_end_seen,
        how=account.how,
        from_checkpoint=resumed_from,
        is_from_memory=started is not None and bool(started.data.get("is_from_memory")),
        is_standby=launched is not None and bool(launched.data.get("is_standby")),
        is_inner=account.is_inner,
        outcome=account.outcome,
        reason=account.reason,
        exit_code=_whole(record.last("ended"), "exit_code"),
        decided=_decided(record.last("decided")),
        from_step=account.from_step,
        reached_step=account.reached_step,
        saved_step=account.saved_step,
        saves=len(commits(record)),
        lost_steps=account.lost_steps,
        lost_s=account.lost_s,
        is_loss_known=account.is_loss_known,
        first_step_at=course.first_step,
        restart_s=None if course.ready is None else max(course.ready - since, 0.0),
        host=str(launched.data.get("host", "")) if launched is not None else "",
        allocation=_allocation(allocation),
        nodes=[str(node) for node in nodes] if isinstance(nodes := allocation.get("nodes"), list) else [],
        gpus=gpus_of(record),
        seconds=seconds,
    )


def gpus_of(record: Record) -> int | None:
    """The GPUs of the allocation; None if nothing tells."""
    return _whole(record.last("allocation"), "gpus")


def _whole(event: Event | None, name: str) -> int | None:
    value = None if event is None else event.data.get(name)
    is_whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MOST
    return value if is_whole else None


def _decided(event: Event | None) -> str:
    if event is None:
        return ""
    action, reason = str(event.data.get("action", "")), str(event.data.get("reason", ""))
    return f"{action}: {reason}" if reason else action


def _allocation(data: dict[str, object]) -> str:
    if not data.get("job_id"):
        return ""
    array, task = data.get("array_job_id"), data.get("array_task_id")
    name = f"{array}_{task}" if array and task not in (None, "") else data["job_id"]
    count = data.get("restart_count")
    return f"{data.get('scheduler') or 'job'} {name}" + (f", restart {count}" if count else "")


def marks(records: Sequence[Record], accounts: Sequence[Account]) -> list[Mark]:
    """What happened, oldest first."""
    found = []
    for record, account in zip(records, accounts, strict=True):
        has_stop = False
        for event in record.events:
            mark = _mark(record, event)
            if mark is None or (mark.kind == "stop asked" and has_stop):
                continue
            # The launcher asks, and the program says that it was asked.
            has_stop = has_stop or mark.kind == "stop asked"
            found.append(mark)
        found += _end(record, account)
    return sorted(found, key=lambda mark: mark.at)


def _mark(record: Record, event: Event) -> Mark | None:
    data, step = event.data, step_of(event)
    if event.kind == "hang":
        text = str(data.get("what", ""))
        return Mark(at=event.at, attempt=record.number, kind="hang", what="hang", text=text, step=step)
    if event.kind == "stopping":
        cause = str(data.get("cause", ""))
        return Mark(at=event.at, attempt=record.number, kind="stop asked", what=cause, text=cause, step=step)
    what = _TROUBLE.get(event.kind)
    if what is None:
        return None
    pieces = (data.get(name) for name in ("error", "problem", "reason"))
    text = next((str(piece) for piece in pieces if piece), "")
    if event.kind == "late" and (since_s := number(event, "since_s")) is not None:
        text = f"the checkpoint of step {step} had been written for {since_s:.0f} s when the next was due"
    return Mark(at=event.at, attempt=record.number, kind="trouble", what=what, text=text or what, step=step)


def _end(record: Record, account: Account) -> list[Mark]:
    if account.ended is None or not account.outcome or account.outcome == RESTARTED_INSIDE:
        return []
    kind = "finished" if account.outcome == Ends.FINISHED.value else "fault"
    return [
        Mark(
            at=account.ended,
            attempt=record.number,
            kind="finished" if kind == "finished" else "fault",
            what=account.outcome,
            text=account.reason or account.outcome,
            step=account.reached_step,
        )
    ]


def outcomes(lines: Sequence[AttemptLine], spans_between: dict[int, float]) -> list[Outcome]:
    """The table of how attempts ended. `spans_between`: seconds from the end of an attempt until the next did steps."""
    names = list(dict.fromkeys(line.outcome or RUNNING for line in lines))
    found = []
    for name in names:
        those = [line for line in lines if (line.outcome or RUNNING) == name]
        waits = [spans_between[line.attempt] for line in those if line.attempt in spans_between]
        found.append(
            Outcome(
                outcome=name,
                attempts=len(those),
                lost_steps=sum(line.lost_steps for line in those),
                lost_s=math.fsum(line.lost_s for line in those),
                mean_restart_s=math.fsum(waits) / len(waits) if waits else None,
            )
        )
    return sorted(found, key=lambda outcome: -outcome.attempts)


def until_steps(courses: Sequence[Course]) -> dict[int, float]:
    """Seconds from the end of each attempt until the next that came so far did steps."""
    found: dict[int, float] = {}
    ready: float | None = None
    for course in reversed(courses):
        if ready is not None:
            found[course.number] = max(ready - course.end, 0.0)
        if course.ready is not None:
            ready = course.ready
    return found
