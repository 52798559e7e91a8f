"""Whether it gets worse: the rate by week, month or year, each with its interval."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import polars as pl

from lastgood.core.reliability import FailureRate
from lastgood.plan.history.answer import PeriodFigures
from lastgood.plan.history.bursts import sizes_of

_DAY_S = 86400
_MOST_DAYS_BY_WEEK = 200
_MOST_DAYS_BY_MONTH = 200 * 30


def periods(first: datetime, last: datetime) -> list[datetime]:
    """The begins of the weeks, months or years from one moment to another, and of the one after the last.

    >>> [f"{day:%m-%d}" for day in periods(datetime(2026, 1, 1), datetime(2026, 1, 13))]
    ['12-29', '01-05', '01-12', '01-19']
    >>> [f"{day:%Y-%m}" for day in periods(datetime(2025, 11, 20), datetime(2026, 9, 1))][-3:]
    ['2026-08', '2026-09', '2026-10']
    """
    days = (last - first).days
    day = first.replace(hour=0, minute=0, second=0, microsecond=0)
    if days <= _MOST_DAYS_BY_WEEK:
        day -= timedelta(days=day.weekday())
    elif days <= _MOST_DAYS_BY_MONTH:
        day = day.replace(day=1)
    else:
        day = day.replace(month=1, day=1)
    found = [day]
    while found[-1] <= last:
        found.append(_next(found[-1], days))
    return found


def _next(day: datetime, days: int) -> datetime:
    if days <= _MOST_DAYS_BY_WEEK:
        return day + timedelta(days=7)
    if days <= _MOST_DAYS_BY_MONTH:
        return (day.replace(day=28) + timedelta(days=4)).replace(day=1)
    return day.replace(year=day.year + 1)


def trend(
    table: pl.DataFrame, failures: pl.DataFrame, begins: Sequence[datetime], moments: Sequence[int]
) -> list[PeriodFigures]:
    """`moments`: the begins in the seconds of the table, the first and the last cut to the time that is looked at.

    The time of a run is divided among the periods in which it ran.
    """
    node_s = _node_s(table, moments)
    found = []
    for i, begin in enumerate(begins[: len(moments) - 1]):
        node_days = node_s[i] / _DAY_S
        inside = failures.filter(
            (pl.col("end") >= moments[i])
            & ((pl.col("end") < moments[i + 1]) | (pl.lit(i == len(moments) - 2) & (pl.col("end") == moments[i + 1])))
        )
        sizes = sizes_of(inside)
        found.append(
            PeriodFigures(
                begin=f"{begin:%Y-%m-%d}",
                node_days=node_days,
                failures=sum(size * number for size, number in sizes),
                rate=FailureRate.counted(sizes, node_days, f"{begin:%Y-%m-%d}") if node_days > 0 else None,
                lost_node_hours=float((inside["lost_s"] * inside["nodes"]).sum()) / 3600,
            )
        )
    return found


def _node_s(table: pl.DataFrame, moments: Sequence[int]) -> list[float]:
    """Node-seconds between each moment and the next."""
    start, end, run_s = (pl.col(name).cast(pl.Int64) for name in ("start", "end", "run_s"))
    # What still runs has no end; and where a clock was put back the end is before the start.
    ended = pl.when(end > start).then(end).otherwise(start + run_s)
    timed = table.filter(pl.col("start").is_not_null() & (pl.col("run_s") > 0)).select(
        start=start, end=ended, per_second=run_s / (ended - start) * pl.col("nodes").fill_null(0)
    )
    edges = pl.Series(moments)
    timed = timed.with_columns(
        first=edges.search_sorted(timed["start"], side="right").cast(pl.Int64) - 1,
        last=edges.search_sorted(timed["end"], side="left").cast(pl.Int64) - 1,
    )
    found = [0.0] * (len(moments) - 1)
    # Most begin and end in the same period. The others are cut at each moment, which takes longer.
    is_inside = (pl.col("first") == pl.col("last")) & pl.col("first").is_between(0, len(found) - 1)
    length = pl.col("end") - pl.col("start")
    inside = timed.filter(is_inside).group_by("first").agg((length * pl.col("per_second")).sum().alias("node_s"))
    for i, seconds in inside.iter_rows():
        found[i] += seconds
    across = timed.filter(~is_inside).select(
        ((moment - pl.col("start")).clip(0, length) * pl.col("per_second")).sum().alias(str(i))
        for i, moment in enumerate(moments)
    )
    until = across.row(0)
    return [seconds + until[i + 1] - until[i] for i, seconds in enumerate(found)]
