"""How long each run was exposed to failures in the time that is looked at, and what a failure of it lost."""

from datetime import UTC, datetime

import msgspec
import polars as pl

from lastgood.plan.history.endings import ENDINGS

FAILURE_CODES = [ending.code for ending in ENDINGS if ending.is_failure]


class Window(msgspec.Struct, frozen=True):
    """The time that is looked at, in the seconds of the table; None is open."""

    since: int | None = None
    until: int | None = None


def with_exposure(table: pl.DataFrame, window: Window, saved_every_s: float | None) -> pl.DataFrame:
    """Adds `node_s` and `gpu_s` (exposed in the window), `is_failure` (in the window), `lost_s` (of each of its nodes).

    A run of which nothing tells when it was counts whole.
    """
    run = pl.col("run_s").cast(pl.Int64)
    begun = _moment("start")
    ended = pl.coalesce(_moment("end"), begun + run)
    seen = run
    is_in = pl.lit(True)
    if window.since is not None or window.until is not None:
        since, until = window.since or 0, window.until if window.until is not None else 2**40
        inside = (pl.min_horizontal(ended, pl.lit(until)) - pl.max_horizontal(begun, pl.lit(since))).clip(0)
        # Where it was suspended it ran for less than from its start to its end.
        share = pl.when(ended > begun).then(inside / (ended - begun)).otherwise(1.0)
        seen = pl.when(begun.is_null()).then(run).otherwise((run * share).round().cast(pl.Int64))
        is_in = (ended.is_null() | ended.is_between(since, until)).fill_null(True)
    is_failure = pl.col("ending").is_in(FAILURE_CODES) & is_in
    # Short of an interval nothing was saved; beyond it half of one is lost, on average.
    lost = run if saved_every_s is None else pl.when(run < saved_every_s).then(run).otherwise(saved_every_s / 2)
    return table.with_columns(
        node_s=seen * pl.col("nodes").fill_null(0),
        gpu_s=seen * pl.col("gpus").fill_null(0),
        is_failure=is_failure,
        is_in=is_in,
        lost_s=pl.when(is_failure).then(lost).otherwise(0).cast(pl.Float64),
    )


def span_of(table: pl.DataFrame, window: Window) -> tuple[int | None, int | None]:
    """The time that is looked at: as asked, or from the first start to the last end."""
    first, last = table.select(
        pl.col("start").min().alias("first"),
        pl.max_horizontal(pl.col("end").max(), (_moment("start") + pl.col("run_s")).max()).alias("last"),
    ).row(0)
    return first if window.since is None else window.since, last if window.until is None else window.until


def day_of(moment: int, *, is_epoch: bool) -> datetime:
    """The moment by the clock of the cluster; that of this machine where the file has seconds since 1970."""
    if is_epoch:
        return datetime.fromtimestamp(moment)
    return datetime.fromtimestamp(moment, UTC).replace(tzinfo=None)


def moment_of(day: datetime, *, is_epoch: bool) -> int:
    """The other way round.

    >>> moment_of(day_of(1767225600, is_epoch=False), is_epoch=False)
    1767225600
    """
    return int(day.timestamp() if is_epoch else day.replace(tzinfo=UTC).timestamp())


def _moment(name: str) -> pl.Expr:
    return pl.col(name).cast(pl.Int64)
