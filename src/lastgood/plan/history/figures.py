"""The figures of an accounting: rates with their intervals, what was lost, who ran again and after how long."""

import polars as pl

from lastgood.core.reliability import FailureRate
from lastgood.core.units import duration
from lastgood.plan.history.answer import (
    AccountingAnswer,
    AttemptFigures,
    BurstFigures,
    CodeFigures,
    EndingFigures,
    GroupFigures,
    MisreadFigures,
    PeriodFigures,
)
from lastgood.plan.history.bursts import sizes_of, with_events
from lastgood.plan.history.endings import CANCELLED_BY_ROOT, ENDINGS, OUT_OF_MEMORY, PROGRAM
from lastgood.plan.history.exposure import FAILURE_CODES, Window, day_of, moment_of, span_of, with_exposure
from lastgood.plan.history.nodes import worst_nodes
from lastgood.plan.history.runs import Reading
from lastgood.plan.history.trend import periods, trend

_DAY_S = 86400
_HOUR_S = 3600
_MOST_CODES = 20
_MANY_RUNS = 5
_MOST_BURSTS = 10
_OF_MACHINE = [ending.code for ending in ENDINGS if ending.is_of_machine]
_OWN_FAULT = [PROGRAM.code, OUT_OF_MEMORY.code]


def figures_of(
    reading: Reading,
    source: str,
    *,
    told: str = "",
    window: Window | None = None,
    saved_every_s: float | None = None,
) -> AccountingAnswer:
    """Everything that the rows tell. `source` names the file or command in the answer; its rates say `told`."""
    window = window or Window()
    table = with_exposure(reading.table, window, saved_every_s)
    if window != Window():
        # What neither ran nor failed in it is not asked for.
        table = table.filter(pl.col("is_in") | (pl.col("node_s") > 0))
    ends = with_events(table.filter(pl.col("is_in") & pl.col("ending").is_in([*FAILURE_CODES, *_OWN_FAULT])))
    failures = ends.filter("is_failure")
    node_days = float(table["node_s"].sum()) / _DAY_S
    nodes, unsure = worst_nodes(table, failures)
    begin, end = span_of(table, window)
    told = told or source
    if begin is not None:
        told += f", {_shown(begin, reading)[:10]} to {_shown(end, reading)[:10]}"
    notes = [note for note in (*reading.notes, unsure, _by_root(table)) if note]
    return AccountingAnswer(
        source=source,
        rows=reading.rows,
        step_rows=reading.steps,
        duplicate_rows=reading.duplicates,
        joined_rows=reading.joined,
        not_started=reading.not_started,
        runs=table.height,
        begin=_shown(begin, reading),
        end=_shown(end, reading),
        node_days=node_days,
        gpu_hours=float(table["gpu_s"].sum()) / _HOUR_S,
        rate=_rate(failures, node_days, told),
        machine_rate=_rate(failures.filter(pl.col("ending").is_in(_OF_MACHINE)), node_days, told),
        lost_node_hours=_lost(failures, "nodes"),
        lost_gpu_hours=_lost(failures, "gpus"),
        assumption=_assumption(saved_every_s),
        endings=_endings(table, ends, node_days, told),
        attempts=_attempts(table),
        partitions=_groups(table, failures, "partition"),
        gpu_types=_groups(table, failures, "gpu_type"),
        nodes=nodes,
        trend=_trend(table, failures, begin, end, reading),
        exit_codes=_exit_codes(ends),
        bursts=_bursts(ends),
        not_understood=[MisreadFigures(found.what, found.rows, found.examples) for found in reading.misread],
        notes=notes,
    )


def _by_root(table: pl.DataFrame) -> str:
    of_root = table.filter(pl.col("ending") == CANCELLED_BY_ROOT.code)
    if not of_root.height:
        return ""
    hours = of_root["node_s"].sum() / _HOUR_S
    return (
        f"root cancelled {of_root.height:,} of the runs, of {hours:,.0f} node-hours; they are no failures here: if that "
        "was a drain or a maintenance, look closer"
    )


def _rate(failures: pl.DataFrame, node_days: float, source: str) -> FailureRate | None:
    return FailureRate.counted(sizes_of(failures), node_days, source) if node_days > 0 else None


def _lost(failures: pl.DataFrame, of: str) -> float:
    return float((failures["lost_s"] * failures[of].fill_null(0)).sum()) / _HOUR_S


def _assumption(saved_every_s: float | None) -> str:
    if saved_every_s is None:
        return "all that a failed run had done is lost: nothing in the accounting tells whether it was saved"
    return (
        f"work is saved each {duration(saved_every_s)}: a failed run lost half of that, or all that it had done if it "
        "was shorter"
    )


def _endings(table: pl.DataFrame, ends: pl.DataFrame, node_days: float, source: str) -> list[EndingFigures]:
    sums = table.group_by("ending").agg(pl.len().alias("runs"), pl.col("node_s", "gpu_s").sum())
    by_code = {row["ending"]: row for row in sums.iter_rows(named=True)}
    found = []
    for ending in ENDINGS:
        if (row := by_code.get(ending.code)) is None:
            continue
        own = ends.filter(pl.col("ending") == ending.code)
        events = row["runs"]
        if ending.is_failure:
            events = sum(number for _, number in sizes_of(own))
        elif own.height:
            events = row["runs"] - int(own["is_repeat"].sum())
        found.append(
            EndingFigures(
                name=ending.name,
                is_failure=ending.is_failure,
                runs=row["runs"],
                events=events,
                node_hours=row["node_s"] / _HOUR_S,
                gpu_hours=row["gpu_s"] / _HOUR_S,
                rate=_rate(own, node_days, source) if ending.is_failure else None,
                lost_node_hours=_lost(own, "nodes"),
                lost_gpu_hours=_lost(own, "gpus"),
            )
        )
    return found


def _groups(table: pl.DataFrame, failures: pl.DataFrame, name: str) -> list[GroupFigures]:
    """By the values of a column that has few of them; nothing where it is empty."""
    if table[name].null_count() == table.height:
        return []
    text = pl.col(name).cast(pl.String).fill_null("")
    sums = table.group_by(name).agg(pl.len().alias("runs"), pl.col("node_s", "gpu_s").sum())
    sums = sums.with_columns(text.alias("key")).sort(["node_s", "key"], descending=[True, False])
    by_key = {str(key): rows for (key,), rows in failures.with_columns(text.alias("key")).group_by("key")}
    found = []
    for row in sums.iter_rows(named=True):
        own = by_key.get(row["key"], failures.clear())
        sizes = sizes_of(own)
        counted = own.filter(~pl.col("is_repeat"))["ending"].value_counts()
        causes = {ENDINGS[code].name: count for code, count in sorted(counted.iter_rows())}
        node_days = row["node_s"] / _DAY_S
        found.append(
            GroupFigures(
                name=row["key"] or "(none)",
                runs=row["runs"],
                node_days=node_days,
                gpu_hours=row["gpu_s"] / _HOUR_S,
                failures=sum(size * number for size, number in sizes),
                causes=causes,
                rate=FailureRate.counted(sizes, node_days, row["key"] or "(none)") if node_days > 0 else None,
                lost_node_hours=_lost(own, "nodes"),
                lost_gpu_hours=_lost(own, "gpus"),
            )
        )
    return found


def _attempts(table: pl.DataFrame) -> AttemptFigures:
    runs = table["job_number"].rle().struct.field("len")
    by_runs = runs.clip(1, _MANY_RUNS).alias("n").value_counts(name="jobs").sort("n")
    failed = table.filter("is_failure")
    waits = failed["wait_s"].drop_nulls()
    return AttemptFigures(
        jobs=runs.len(),
        restarted_jobs=int((runs > 1).sum()),
        most=runs.to_frame().max().item() or 0,
        jobs_by_runs={f"{n} or more" if n == _MANY_RUNS else str(n): jobs for n, jobs in by_runs.iter_rows()},
        failures=failed.height,
        failures_restarted=int(failed["is_followed"].sum()),
        wait_median_s=_quantile(waits, 0.5),
        wait_p90_s=_quantile(waits, 0.9),
        wait_total_s=float(waits.sum()),
    )


def _quantile(values: pl.Series, share: float) -> float | None:
    found = values.quantile(share, "linear")
    return None if found is None else float(found)


def _exit_codes(ends: pl.DataFrame) -> list[CodeFigures]:
    failed = ends.filter((pl.col("ending") == PROGRAM.code) & pl.col("exit_code").is_not_null())
    sums = failed.group_by(pl.col("exit_code").cast(pl.String)).agg(
        pl.len().alias("runs"), (~pl.col("is_repeat")).sum().alias("events"), pl.col("node_s").sum()
    )
    top = sums.sort(["runs", "exit_code"], descending=[True, False]).head(_MOST_CODES)
    return [CodeFigures(code, runs, events, node_s / _HOUR_S) for code, runs, events, node_s in top.iter_rows()]


def _bursts(ends: pl.DataFrame) -> list[BurstFigures]:
    sums = ends.filter(pl.col("burst").is_not_null()).group_by("burst_number", "burst", "ending").len()
    top = sums.sort(["len", "burst"], descending=[True, False]).head(_MOST_BURSTS)
    return [BurstFigures(of, ENDINGS[code].name, runs) for _, of, code, runs in top.iter_rows()]


def _trend(
    table: pl.DataFrame, failures: pl.DataFrame, begin: int | None, end: int | None, reading: Reading
) -> list[PeriodFigures]:
    if begin is None or end is None or table["end"].null_count() == table.height:
        return []
    first, last = day_of(begin, is_epoch=reading.is_epoch), day_of(end, is_epoch=reading.is_epoch)
    begins = periods(first, last)
    moments = [min(max(moment_of(day, is_epoch=reading.is_epoch), begin), end) for day in begins]
    return trend(table, failures, begins, moments)


def _shown(moment: int | None, reading: Reading) -> str:
    return "" if moment is None else day_of(moment, is_epoch=reading.is_epoch).isoformat()
