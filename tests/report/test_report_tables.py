"""CSV: a row for each attempt, with the columns that are documented."""

import csv
import io
import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastgood.core.accounting import Record
from lastgood.report.collect import fleet_of
from lastgood.report.figures import shares
from lastgood.report.lines import attempt_lines
from lastgood.report.model import KINDS, Report
from lastgood.report.tables import COLUMNS, csv_of

from .built import event, record, told_attempt
from .example import example_fleet, example_report
from .test_report_timeline import journals
from .test_report_timeline import told as timed

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "report.md"


def rows() -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_of(example_fleet()))))


def test_each_attempt_of_each_job_has_a_row_with_every_column() -> None:
    fleet = example_fleet()
    found = rows()
    assert [(row["job"], int(row["attempt"])) for row in found] == [
        (job.job, attempt.attempt) for job in fleet.jobs for attempt in job.attempts
    ]
    for row in found:
        assert list(row) == list(COLUMNS)
        assert None not in row.values()


def test_the_cells_say_what_the_report_says() -> None:
    report = example_report()
    mine = [row for row in rows() if row["job"] == report.job]
    for row, attempt in zip(mine, report.attempts, strict=True):
        assert row["outcome"] == attempt.outcome
        assert int(row["lost_steps"]) == attempt.lost_steps
        assert float(row["lost_s"]) == attempt.lost_s
        assert row["is_loss_known"] == ("yes" if attempt.is_loss_known else "no")
        assert row["exit_code"] == ("" if attempt.exit_code is None else str(attempt.exit_code))


def test_the_seconds_of_all_rows_of_a_job_are_its_whole_time() -> None:
    report = example_report()
    mine = [row for row in rows() if row["job"] == report.job]
    for kind in KINDS:
        share = report.share_of(kind)
        assert share is not None
        assert math.fsum(float(row[f"{kind}_time_s"]) for row in mine) == pytest.approx(share.seconds)


def seconds_of(report: Report) -> dict[int, float]:
    """By attempt, of all kinds together."""
    found = csv.DictReader(io.StringIO(csv_of(fleet_of([report], [], 1.0))))
    return {int(row["attempt"]): math.fsum(float(row[f"{kind}_time_s"]) for kind in KINDS) for row in found}


def report_of(records: list[Record], *, is_running: bool = False) -> Report:
    told, accounts = timed(*records, is_running=is_running, now=9000)
    attempts = attempt_lines(records, accounts, told.courses, {})
    return msgspec.structs.replace(example_report(), attempts=attempts, spans=told.spans, shares=shares(told.spans))


def test_time_before_an_attempt_that_took_none_is_in_its_row() -> None:
    claimed = [record(number, at, launch=str(number)) for number, at in ((2, 200.0), (3, 300.0))]
    report = report_of([told_attempt(1, 0, reached=5, ended=100), *claimed])
    assert seconds_of(report) == {1: 100.0, 2: 100.0, 3: 100.0}


@given(journals(), st.booleans())
@settings(max_examples=100, deadline=None)
def test_the_rows_of_any_journal_add_up_to_its_whole_time(records: list[Record], is_waiting: bool) -> None:
    if is_waiting:
        ended = event("ended", 8000, outcome="killed", reason="", step=None)
        decided = event("decided", 8000, action="restart", reason="", exit_code=0)
        records[-1] = msgspec.structs.replace(records[-1], events=[*records[-1].events, ended, decided])
    report = report_of(records, is_running=is_waiting)
    assert math.fsum(seconds_of(report).values()) == pytest.approx(report.seconds, abs=1e-3)


def test_every_column_is_in_the_guide() -> None:
    text = HOW_TO.read_text()
    for name, meaning in COLUMNS.items():
        if not name.endswith("_time_s"):
            assert f"| `{name}` | {meaning} |" in text
    for kind in KINDS:
        assert f"| `{kind}_time_s` |" in text
