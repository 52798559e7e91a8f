"""Journals that are torn, of other versions, or not there: the rest is used, and it is said."""

import json
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.core import events, layout
from lastgood.core.errors import StorageError
from lastgood.report.collect import fleet_of, report_on
from lastgood.report.model import Report
from lastgood.report.openmetrics import openmetrics_of
from lastgood.report.tables import csv_of
from lastgood.report.terminal import page_of
from lastgood.report.textual import Screen
from lastgood.report.timeline import gaps
from lastgood.store.jobdir import JobDirectory, create_job

from .built import BEGAN, job_of, record, told_attempt, write_attempt


@pytest.fixture
def two(tmp_path: Path) -> JobDirectory:
    return job_of(
        tmp_path / "job",
        told_attempt(1, 0, commits=((100, 50),), reached=80, ended=160),
        told_attempt(2, 165, from_step=50, commits=((300, 200),), reached=200, ended=310, outcome="finished"),
    )


def journal(job: JobDirectory, number: int) -> Path:
    return job.attempts / layout.events_file(number)


def problems(job: JobDirectory) -> list[tuple[str, str]]:
    return [(problem.where, problem.what) for problem in report_on(job).problems]


def test_a_job_without_attempts_is_reported_as_such(tmp_path: Path) -> None:
    report = report_on(create_job(tmp_path / "job"))
    assert (report.state, report.attempts, report.spans, report.ettr) == ("not started yet", [], [], None)
    assert any("no attempt has been made" in note for note in report.notes)


def test_a_torn_line_is_passed_over_and_named(two: JobDirectory) -> None:
    before = report_on(two)
    lines = journal(two, 1).read_bytes().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if b'"decided"' in line)
    journal(two, 1).write_bytes(b"".join(lines[:at]) + lines[at][:20] + b"\n" + b"".join(lines[at + 1 :]))
    assert problems(two) == [
        (f"attempts/0001.events.jsonl, line {at + 1}", "is torn, and passed over: the rest is used")
    ]
    assert report_on(two).spans == before.spans


def test_a_last_line_without_its_end_is_torn_too(two: JobDirectory) -> None:
    with journal(two, 2).open("ab") as file:
        file.write(b'{"kind":"committed","at":179')
    (where, _), *others = problems(two)
    assert not others and where.startswith("attempts/0002.events.jsonl, line ")


def test_many_torn_lines_are_counted(two: JobDirectory) -> None:
    journal(two, 2).write_bytes(b"{\n" * 40)
    where, what = problems(two)[0]
    assert where == "attempts/0002.events.jsonl, lines 1, 2, 3, 4, 5 and 35 more"
    assert what.startswith("are torn")


def test_an_impossible_time_cannot_make_a_job_of_centuries(two: JobDirectory) -> None:
    with journal(two, 1).open("ab") as file:
        file.write(events.encode(events.Event("committed", 9e15, {"step": 60, "name": "x"})))
        file.write(events.encode(events.Event("late", 3.0, {})))
    before = report_on(two)
    assert before.seconds == 310.0
    assert problems(two) == [
        ("attempts/0001.events.jsonl", "2 lines with an impossible time or step, passed over: the rest is used")
    ]


def test_lines_of_a_newer_version_are_named_by_kind(two: JobDirectory) -> None:
    with journal(two, 1).open("ab") as file:
        file.write(events.encode(events.Event("teleported", BEGAN + 160, {"to": "mars"})))
    (_, what), *others = problems(two)
    assert not others and "'teleported'" in what and "the rest is used" in what
    assert report_on(two).seconds == 310.0


def test_a_claim_of_a_newer_version_is_used_as_far_as_it_is_understood(two: JobDirectory) -> None:
    write_attempt(two, told_attempt(3, 400, from_step=200, reached=210, ended=500), version=7)
    (where, what), *others = problems(two)
    assert not others
    assert where == "attempts/0003.json" and "format 7" in what and "this version knows 1" in what
    assert report_on(two).attempts[-1].attempt == 3


def test_a_damaged_claim_leaves_the_journal(two: JobDirectory) -> None:
    (two.attempts / layout.attempt_file(1)).write_bytes(b"{}")
    (where, what), *others = problems(two)
    assert not others and where == "attempts/0001.json" and "what its journal says is used" in what
    # The journal begins with the launch, a second after the claim.
    assert report_on(two).began == BEGAN + 1


def test_a_claim_with_an_impossible_time_leaves_its_launch_and_its_journal(two: JobDirectory) -> None:
    claimed = msgspec.structs.replace(
        told_attempt(2, 165, from_step=50, commits=((300, 200),), reached=200, ended=310, outcome="finished"), began=3.0
    )
    write_attempt(two, claimed)
    report = report_on(two)
    assert [(one.where, one.what) for one in report.problems] == [
        ("attempts/0002.json", "it has an impossible time; what its journal says is used")
    ]
    # The journal begins with the launch, a second after the claim.
    between = [(span.kind, span.begin, span.end) for span in report.spans if span.attempt is None]
    assert between == [("restarting", BEGAN + 160, BEGAN + 166)]
    journal(two, 2).unlink()
    assert [attempt.attempt for attempt in report_on(two).attempts] == [1]


def test_a_clock_that_was_set_back_is_named(two: JobDirectory) -> None:
    def committed(at: float) -> bytes:
        return events.encode(events.Event("committed", BEGAN + at, {"step": 60, "name": "x"}))

    before = journal(two, 1).read_bytes()
    journal(two, 1).write_bytes(committed(9) + before)
    assert problems(two) == []
    journal(two, 1).write_bytes(committed(121) + before)
    (where, what), *others = problems(two)
    assert not others and where == "attempts/0001.events.jsonl"
    assert what.startswith("a line is 2 min 0 s before the one that it follows")


def test_an_attempt_of_which_nothing_can_be_read_is_left_out(two: JobDirectory) -> None:
    (two.attempts / layout.attempt_file(1)).write_bytes(b"{}")
    journal(two, 1).unlink()
    report = report_on(two)
    assert [attempt.attempt for attempt in report.attempts] == [2]
    assert any("nothing can be read of this attempt" in problem.what for problem in report.problems)


def test_a_journal_that_is_no_file_or_cannot_be_read_is_named(
    two: JobDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal(two, 1).unlink()
    journal(two, 1).mkdir()
    assert "nothing of it is used" in problems(two)[0][1]
    journal(two, 1).rmdir()
    real = os.open

    def failing(path: object, *rest: object, **named: object) -> int:
        if str(path).endswith("0001.events.jsonl"):
            raise PermissionError(13, "Permission denied", path)
        return real(path, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", failing)
    where, what = problems(two)[0]
    assert where == "attempts/0001.events.jsonl" and "Permission denied" in what and "nothing of it is used" in what


def test_attempts_that_cannot_be_listed_are_an_error_that_names_the_place(two: JobDirectory) -> None:
    for file in two.attempts.iterdir():
        file.unlink()
    two.attempts.rmdir()
    with pytest.raises(StorageError, match="attempts"):
        report_on(two)


def test_checkpoints_that_cannot_be_listed_are_a_problem_and_no_end(two: JobDirectory) -> None:
    two.checkpoints.rmdir()
    report = report_on(two)
    assert [problem.where for problem in report.problems] == ["checkpoints"]
    assert report.seconds == 310.0


@pytest.mark.parametrize(
    "data",
    [
        {"step": "many", "name": 5, "bytes": "big", "write_s": -1},
        {"step": True, "name": None, "bytes": -5, "write_s": "1"},
        {"step": 10**30, "bytes": 1e300, "write_s": 1e300},
        {},
    ],
)
def test_members_of_the_wrong_type_are_not_believed(two: JobDirectory, data: dict[str, object]) -> None:
    with journal(two, 2).open("ab") as file:
        for kind in sorted(events.KINDS):
            line = {"kind": kind, "at": BEGAN + 305, "data": data}
            file.write(json.dumps(line).encode() + b"\n")
    report = report_on(two)
    assert not gaps(report.spans)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)  # fmt: skip
NAMES = st.sampled_from(
    "how step reason rejected is_from_memory command pid host nodes gpus job_id restart_count name bytes write_s stall_s "
    "silent_s interval_s outcome exit_code action cause error rank stage took_s is_wrapped problem since_s".split()
)


@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(events.KINDS)), st.floats(0, 1e4), st.dictionaries(NAMES, JSON, max_size=5)),
        max_size=8,
    )
)
def test_no_journal_makes_a_report_fail(
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[str, float, dict[str, object]]]
) -> None:
    job = job_of(tmp_path_factory.mktemp("job"), record(1, 0), told_attempt(2, 20000, reached=5, ended=20100))
    journal(job, 1).write_bytes(
        b"".join(
            json.dumps({"kind": kind, "at": BEGAN + at, "data": data}).encode() + b"\n" for kind, at, data in lines
        )
    )
    report = report_on(job)
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report
    fleet = fleet_of([report], [], 1.0)
    assert page_of(fleet, Screen()) and csv_of(fleet) and openmetrics_of(fleet)
    assert not gaps(report.spans)
    assert sum(share.seconds for share in report.shares) == pytest.approx(report.seconds)
