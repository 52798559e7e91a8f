"""A report as CSV: one row for each attempt. Pure."""

import csv
import io
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime

from lastgood.report.model import KINDS, AttemptLine, FleetReport, Report
from lastgood.report.textual import plain

COLUMNS: dict[str, str] = {
    "job": "path of the job directory",
    "job_id": "the job's id",
    "attempt": "number of the attempt, from 1",
    "began": "when it began, in UTC",
    "ended": "when it ended, or was last heard of; empty while it runs",
    "is_end_seen": "no: nobody saw when it ended",
    "how": "fresh or resumed; empty if the program never said",
    "from_checkpoint": "what it resumed from",
    "outcome": "how it ended; empty while it runs",
    "reason": "why that is thought",
    "exit_code": "of its command; empty if nobody saw it",
    "from_step": "step that it began after",
    "reached_step": "last step that it is known to have finished",
    "saved_step": "newest step that it committed",
    "saves": "checkpoints that it committed",
    "lost_steps": "steps that were or will be done again, as far as is known",
    "lost_s": "seconds from the commit that counts until the end",
    "is_loss_known": "no: more may be lost",
    "restart_s": "seconds until it did steps",
    "host": "where its launcher ran",
    "allocation": "of the scheduler",
    "nodes": "separated by spaces",
    "gpus": "of its allocation",
    **{f"{kind}_time_s": f"seconds that were {kind}" for kind in KINDS},
}
"""What is in each column. Time beside attempts (queued, down) is in the row of the attempt that follows it, or else of the last."""


def csv_of(fleet: FleetReport) -> str:
    """With a row of names. An empty cell is what nothing tells, or what is not there."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for report in fleet.jobs:
        writer.writerows(_rows(report))
    return text.getvalue()


def _rows(report: Report) -> Iterator[list[object]]:
    seconds: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for span in report.spans:
        seconds[report.row_of(span)][span.kind] += span.seconds
    for attempt in report.attempts:
        yield _row(report, attempt, seconds[attempt.attempt])


def _row(report: Report, a: AttemptLine, seconds: dict[str, float]) -> list[object]:
    cells: list[object] = [
        report.job,
        report.id,
        a.attempt,
        _when(a.began),
        None if a.ended is None else _when(a.ended),
        a.is_end_seen,
        a.how,
        a.from_checkpoint,
        a.outcome,
        a.reason,
        a.exit_code,
        a.from_step,
        a.reached_step,
        a.saved_step,
        a.saves,
        a.lost_steps,
        round(a.lost_s, 6),
        a.is_loss_known,
        None if a.restart_s is None else round(a.restart_s, 6),
        a.host,
        a.allocation,
        " ".join(a.nodes),
        a.gpus,
        *(round(seconds.get(kind, 0.0), 6) for kind in KINDS),
    ]
    return [_cell(cell) for cell in cells]


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return plain(value) if isinstance(value, str) else value


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
