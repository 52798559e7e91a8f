"""What the journals tell of saves: each of them, what they cost, and how far they were apart. Pure."""

from collections.abc import Sequence

import msgspec

from lastgood.core.accounting import Record
from lastgood.report.figures import median
from lastgood.report.model import FailedSave, Interval, IntervalSaid, IntervalUsed, Save, SaveFigures
from lastgood.report.timeline import Course, commits, number, stalls_of, step_of


class Planned(msgspec.Struct, frozen=True):
    """What a plan said, as far as a report compares with it."""

    interval_s: float
    by: str
    """Which plan."""
    ettr: float | None = None


def saves_of(records: Sequence[Record]) -> list[Save]:
    """Oldest first."""
    promoted: dict[str, float] = {}
    for record in records:
        for event in record.events:
            if event.kind == "promoted":
                promoted.setdefault(str(event.data.get("name", "")), event.at)
    found = []
    for record in records:
        stalls = stalls_of(record)
        for event in commits(record):
            step, size = step_of(event), number(event, "bytes")
            if step is None:
                continue
            name, stage = str(event.data.get("name", "")), str(event.data.get("stage", ""))
            found.append(
                Save(
                    attempt=record.number,
                    step=step,
                    at=event.at,
                    name=name,
                    bytes=None if size is None else round(size),
                    write_s=number(event, "write_s"),
                    stall_s=stalls.get(step),
                    stage=stage,
                    promoted_at=promoted.get(name) if stage else None,
                )
            )
    return found


def failed_saves_of(records: Sequence[Record]) -> list[FailedSave]:
    """Oldest first."""
    found = []
    for record in records:
        for event in record.events:
            if event.kind == "save_failed":
                rank = event.data.get("rank")
                found.append(
                    FailedSave(
                        attempt=record.number,
                        step=step_of(event),
                        at=event.at,
                        rank=rank if isinstance(rank, int) and not isinstance(rank, bool) else None,
                        error=str(event.data.get("error", "")),
                    )
                )
    return found


def count_failed(failed: Sequence[FailedSave]) -> int:
    """How many saves they are: several ranks may each tell of the same."""
    return len({(one.attempt, one.step) for one in failed})


def figures_of(saves: Sequence[Save], failed: Sequence[FailedSave]) -> SaveFigures:
    writes = [save.write_s for save in saves if save.write_s is not None]
    sizes = [save.bytes for save in saves if save.bytes is not None]
    return SaveFigures(
        saves=len(saves),
        failed=count_failed(failed),
        median_write_s=median(writes),
        fastest_write_s=min(writes, default=None),
        slowest_write_s=max(writes, default=None),
        median_stall_s=median(save.stall_s for save in saves if save.stall_s is not None),
        bytes=sizes[-1] if sizes else None,
        bytes_in_all=sum(sizes),
    )


def interval_of(
    records: Sequence[Record], courses: Sequence[Course], saves: Sequence[Save], planned: Planned | None
) -> Interval:
    """From the beginning of a save to the beginning of the next."""
    used: list[IntervalUsed] = []
    said: list[IntervalSaid] = []
    by_attempt: dict[int, list[Save]] = {}
    for save in saves:
        by_attempt.setdefault(save.attempt, []).append(save)
    for record, course in zip(records, courses, strict=True):
        started = record.first("started")
        step = None if started is None else step_of(started)
        at = course.ready
        for save in by_attempt.get(record.number, []):
            begin = save.at - (save.write_s or 0.0)
            if at is not None and begin > at:
                used.append(
                    IntervalUsed(
                        at=save.at,
                        attempt=record.number,
                        step=save.step,
                        interval_s=begin - at,
                        steps=None if step is None or step > save.step else save.step - step,
                    )
                )
            at, step = begin, save.step
        for event in record.events:
            interval_s = number(event, "interval_s") if event.kind == "paced" else None
            if interval_s is not None:
                said.append(IntervalSaid(at=event.at, attempt=record.number, interval_s=interval_s))
    return Interval(
        planned_s=None if planned is None else planned.interval_s,
        planned_by="" if planned is None else planned.by,
        planned_ettr=None if planned is None else planned.ettr,
        median_used_s=median(one.interval_s for one in used),
        used=used,
        said=said,
    )
