"""A report as OpenMetrics text, for Prometheus' node exporter (its textfile collector). Pure.

The format: https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md (1.0). The node exporter reads
the older text format, too, of which this is written as a subset: `# UNIT` and `# EOF` are comments there, names of counters
end with `_total` in both.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import msgspec

from lastgood.report.model import FleetReport, Report

STATES = ("running", "running without its launcher", "finished", "stopped, unfinished", "given up", "not started yet")
"""As `lastgood status` says them."""

Labels = dict[str, str]


class Metric(msgspec.Struct, frozen=True):
    """A family of samples, and how to get them from the report of a job."""

    name: str
    """Without the suffix `_total` of a counter."""
    type: Literal["gauge", "counter"]
    unit: str
    """The last word of the name; empty for a number without a unit."""
    help: str
    samples: Callable[[Report], Iterable[tuple[Labels, float | int | None]]]


def _one(
    value: Callable[[Report], float | int | None],
) -> Callable[[Report], Iterable[tuple[Labels, float | int | None]]]:
    return lambda report: [({}, value(report))]


def _newest_save(report: Report) -> float | None:
    good = next((c for c in report.checkpoints if c.is_last_good), None)
    return None if good is None else good.created


def _states(report: Report) -> Iterator[tuple[Labels, int]]:
    for state in STATES:
        yield {"state": state}, int(report.state == state)


def _ends(report: Report) -> Iterator[tuple[Labels, int]]:
    for outcome in report.outcomes:
        if outcome.outcome != "running":
            yield {"outcome": outcome.outcome}, outcome.attempts


METRICS: tuple[Metric, ...] = (
    Metric("lastgood_job_state", "gauge", "", "1 for the state that the job is in, 0 for the others.", _states),
    Metric(
        "lastgood_job_time_seconds",
        "gauge",
        "seconds",
        "Where the time of the job went, by kind; together all of it. It is no counter: work that counted as useful is "
        "lost when it has to be done again.",
        lambda report: (({"kind": share.kind}, share.seconds) for share in report.shares),
    ),
    Metric(
        "lastgood_job_ettr_ratio",
        "gauge",
        "ratio",
        "Effective training time ratio: useful time by all time since the first start.",
        _one(lambda report: None if report.ettr is None else report.ettr.share),
    ),
    Metric(
        "lastgood_job_step",
        "gauge",
        "",
        "Highest step that is known to have been done.",
        _one(lambda report: report.reached_step),
    ),
    Metric(
        "lastgood_job_steps", "gauge", "", "Steps in all, where that is known.", _one(lambda report: report.total_steps)
    ),
    Metric(
        "lastgood_job_last_good_step",
        "gauge",
        "",
        "Step of the newest good checkpoint.",
        _one(lambda report: report.last_good_step),
    ),
    Metric(
        "lastgood_job_last_good_timestamp_seconds",
        "gauge",
        "seconds",
        "When the newest good checkpoint was committed, in seconds since 1970.",
        _one(_newest_save),
    ),
    Metric(
        "lastgood_job_save_interval_promised_seconds",
        "gauge",
        "seconds",
        "Seconds between two saves, as the program promises them.",
        _one(lambda report: report.interval.said[-1].interval_s if report.interval.said else None),
    ),
    Metric(
        "lastgood_job_save_interval_planned_seconds",
        "gauge",
        "seconds",
        "Seconds between two saves by the plan.",
        _one(lambda report: report.interval.planned_s),
    ),
    Metric(
        "lastgood_job_save_write_seconds",
        "gauge",
        "seconds",
        "From the safe point to the commit: the newest save.",
        _one(lambda report: report.saves[-1].write_s if report.saves else None),
    ),
    Metric(
        "lastgood_job_checkpoint_bytes",
        "gauge",
        "bytes",
        "Size of the newest checkpoint.",
        _one(lambda report: report.save_figures.bytes),
    ),
    Metric(
        "lastgood_job_saves", "counter", "", "Checkpoints committed.", _one(lambda report: report.save_figures.saves)
    ),
    Metric(
        "lastgood_job_failed_saves",
        "counter",
        "",
        "Saves that did not work.",
        _one(lambda report: report.save_figures.failed),
    ),
    Metric("lastgood_job_attempts", "counter", "", "Attempts begun.", _one(lambda report: len(report.attempts))),
    Metric("lastgood_job_ended_attempts", "counter", "", "Attempts ended, by how they ended.", _ends),
    Metric(
        "lastgood_job_lost_steps",
        "gauge",
        "",
        "Steps that were or will be done again, as far as is known.",
        _one(lambda report: report.lost_steps),
    ),
    Metric(
        "lastgood_job_report_timestamp_seconds",
        "gauge",
        "seconds",
        "When these figures were taken, in seconds since 1970: they are stale where that is long ago.",
        _one(lambda report: report.made_at),
    ),
)


def openmetrics_of(fleet: FleetReport) -> str:
    """One text for all jobs; each sample says which job it is of."""
    lines: list[str] = []
    for metric in METRICS:
        samples = [
            _sample(metric, {"job_dir": report.job, "job_id": report.id, **labels}, value)
            for report in fleet.jobs
            for labels, value in metric.samples(report)
            if value is not None and math.isfinite(value)
        ]
        if samples:
            lines.append(f"# TYPE {metric.name} {metric.type}")
            if metric.unit:
                lines.append(f"# UNIT {metric.name} {metric.unit}")
            lines.append(f"# HELP {metric.name} {_escaped_help(metric.help)}")
            lines += samples
    return "\n".join([*lines, "# EOF"]) + "\n"


def _sample(metric: Metric, labels: Labels, value: float) -> str:
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    told = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{told}}} {value!r}"


def _escaped_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _escaped(text: str) -> str:
    """A label's value. Any character may stand in it but for three.

    >>> print(_escaped('a"b\\\\c'))
    a\\"b\\\\c
    """
    text = text.encode(errors="backslashreplace").decode()
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
