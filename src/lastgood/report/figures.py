"""The sums of a report: what the time went to, and the effective training time ratio with its formula. Pure."""

import math
from collections.abc import Iterable, Mapping

from lastgood.core.units import duration
from lastgood.report.model import KINDS, Ettr, Share, Span, SpanKind

_AWAY: tuple[SpanKind, ...] = ("queued", "down")
"""Nothing ran, and nothing was held."""


def shares(spans: Iterable[Span], gpus: Mapping[int, int] | None = None) -> list[Share]:
    """One for each kind. `gpus` of each attempt; None if not all of them are known."""
    seconds: dict[SpanKind, list[float]] = {kind: [] for kind in KINDS}
    on_gpus: dict[SpanKind, list[float]] = {kind: [] for kind in KINDS}
    for span in spans:
        seconds[span.kind].append(span.seconds)
        if gpus is not None and span.attempt is not None:
            on_gpus[span.kind].append(span.seconds * gpus[span.attempt])
    return _of_sums({kind: math.fsum(s) for kind, s in seconds.items()}, on_gpus if gpus is not None else None)


def added(several: Iterable[list[Share]]) -> list[Share]:
    """Those of several jobs as one."""
    listed = list(several)
    sums = {kind: math.fsum(s.seconds for one in listed for s in one if s.kind == kind) for kind in KINDS}
    hours: dict[SpanKind, list[float]] | None = {kind: [] for kind in KINDS}
    for share in (share for one in listed for share in one):
        if share.gpu_hours is None:
            hours = None
            break
        assert hours is not None
        hours[share.kind].append(share.gpu_hours * 3600)
    return _of_sums(sums, hours)


def _of_sums(sums: Mapping[SpanKind, float], on_gpus: Mapping[SpanKind, list[float]] | None) -> list[Share]:
    whole = math.fsum(sums.values())
    return [
        Share(
            kind=kind,
            seconds=sums[kind],
            share=sums[kind] / whole if whole > 0 else 0.0,
            gpu_hours=None if on_gpus is None else math.fsum(on_gpus[kind]) / 3600,
        )
        for kind in KINDS
    ]


def ettr(found: list[Share], doubts: list[str]) -> Ettr | None:
    """None where there is no time at all.

    >>> told = ettr([Share(kind="useful", seconds=90.0, share=0.9, gpu_hours=None),
    ...              Share(kind="queued", seconds=10.0, share=0.1, gpu_hours=None)], [])
    >>> told.formula, told.with_numbers, told.running_share
    ('useful / (useful + queued)', '90 s / (90 s + 10 s) = 90.0%', 1.0)
    """
    there = [share for share in found if share.seconds > 0]
    whole = math.fsum(share.seconds for share in there)
    if whole <= 0:
        return None
    useful = math.fsum(share.seconds for share in there if share.kind == "useful")
    ran = math.fsum(share.seconds for share in there if share.kind not in _AWAY)
    parts = there if useful > 0 else [Share(kind="useful", seconds=0.0, share=0.0, gpu_hours=None), *there]
    numbers = " + ".join(duration(share.seconds) for share in parts)
    return Ettr(
        share=useful / whole,
        formula=f"useful / ({' + '.join(share.kind for share in parts)})",
        with_numbers=f"{duration(useful)} / ({numbers}) = {useful / whole:.1%}",
        running_share=useful / ran if ran > 0 else None,
        doubts=doubts,
    )


def median(values: Iterable[float]) -> float | None:
    """The middle one; of two the longer; None if there is none."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else None
