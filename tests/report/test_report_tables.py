"""CSV: a row for each attempt, with the columns that are documented."""

import csv
import io
import math
from pathlib import Path

import pytest

from lastgood.report.model import KINDS
from lastgood.report.tables import COLUMNS, csv_of

from .example import example_fleet, example_report

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
    for row, attempt in zip(rows(), report.attempts, strict=False):
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


def test_every_column_is_in_the_guide() -> None:
    text = HOW_TO.read_text()
    for name, meaning in COLUMNS.items():
        if not name.endswith("_time_s"):
            assert f"| `{name}` | {meaning} |" in text
    for kind in KINDS:
        assert f"| `{kind}_time_s` |" in text
