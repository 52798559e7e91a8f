"""What a job's own journals tell of its saves and starts. Pure."""

from collections.abc import Iterable

import msgspec

from lastgood.core.accounting import Record
from lastgood.core.events import Event

RECENT = 20
"""So many of the newest saves count: an older one was another program, or another storage."""


class Told(msgspec.Struct, frozen=True):
    """Medians of the newest; None for what no journal tells."""

    saves: int
    write_s: float | None
    """To the job's own directory."""
    fastest_s: float | None
    slowest_s: float | None
    bytes: int
    stall_s: float | None
    stage_write_s: float | None
    """To the node's disk, where the job stages."""
    restart_s: float | None
    """From the launch of an attempt that resumed until it had its state."""
    starts: int
    nodes: int | None
    """Of the newest allocation."""
    gpus: int | None


def told_by(records: Iterable[Record]) -> Told:
    """Oldest first."""
    records = list(records)
    events = [event for record in records for event in record.events]
    committed = [event for event in events if event.kind == "committed"]
    shared = _numbers([e for e in committed if not e.data.get("stage")], "write_s")
    # What is staged comes to the job's directory by promotion.
    shared = shared or _numbers([e for e in events if e.kind == "promoted"], "took_s")
    staged = _numbers([e for e in committed if e.data.get("stage")], "write_s")
    sizes = _numbers(committed, "bytes")
    stalls = _numbers([e for e in events if e.kind == "paced"], "stall_s")
    starts = [taken for record in records if (taken := _start_s(record)) is not None][-RECENT:]
    allocations = [event for event in events if event.kind == "allocation"]
    places = allocations[-1].data.get("nodes") if allocations else None
    gpus = _numbers(allocations[-1:], "gpus")
    return Told(
        saves=len(shared),
        write_s=_median(shared),
        fastest_s=min(shared, default=None),
        slowest_s=max(shared, default=None),
        bytes=round(sizes[-1]) if sizes else 0,
        stall_s=stalls[-1] if stalls else None,
        stage_write_s=_median(staged),
        restart_s=_median(starts),
        starts=len(starts),
        nodes=len(places) if isinstance(places, list) and places else None,
        gpus=round(gpus[0]) if gpus and gpus[0] >= 1 else None,
    )


def _start_s(record: Record) -> float | None:
    launched, started = record.first("launched"), record.first("started")
    if launched is None or started is None or started.data.get("how") != "resumed":
        return None
    return max(started.at - launched.at, 0.0)


def _numbers(events: list[Event], name: str) -> list[float]:
    found = [event.data.get(name) for event in events]
    # A journal is what somebody wrote: a bool is no number, and no save takes less than nothing.
    numbers = [float(n) for n in found if isinstance(n, int | float) and not isinstance(n, bool)]
    return [n for n in numbers if 0 <= n < 1e18][-RECENT:]


def _median(values: list[float]) -> float | None:
    return sorted(values)[len(values) // 2] if values else None
