"""The page of text: it fits, it is plain where it has to be, and what it shows is in the report."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.report.model import MEANINGS, FleetReport, Span
from lastgood.report.ruler import time_line
from lastgood.report.terminal import job_page, page_of
from lastgood.report.textual import Screen, plain, shorten, table, wrap

from .example import example_fleet, example_report, second_report

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("width", [60, 80, 100, 140])
@pytest.mark.parametrize("is_coloured", [True, False])
def test_no_line_is_wider_than_the_terminal(width: int, is_coloured: bool) -> None:
    text = page_of(example_fleet(), Screen(width, is_coloured))
    for line in text.splitlines():
        assert len(COLOUR.sub("", line)) <= width, line


def test_without_colours_there_is_no_control_character() -> None:
    text = page_of(example_fleet(), Screen())
    assert all(c.isprintable() or c == "\n" for c in text)


def test_colours_change_nothing_else() -> None:
    plain_text = page_of(example_fleet(), Screen(is_coloured=False))
    assert COLOUR.sub("", page_of(example_fleet(), Screen(is_coloured=True))) == plain_text


def test_in_ascii_there_is_nothing_else() -> None:
    assert page_of(example_fleet(), Screen(is_unicode=False)).isascii()


def test_what_it_shows_is_what_the_report_says() -> None:
    report = example_report()
    text = job_page(report, Screen(140))
    assert report.ettr is not None
    for said in (
        report.command,
        f"{report.ettr.share:.1%}",
        report.ettr.formula,
        report.ettr.with_numbers,
        "870 steps",
        "the one used is 11% longer",
        "5, and 1 that failed",
        "line 7: it is torn",
        "FAILED, attempt 2",
        "by attempt 4",
    ):
        assert said in text, said
    for attempt in report.attempts:
        assert attempt.outcome in text
    for share in report.shares:
        assert share.seconds == 0 or re.search(rf"^{share.kind} .*{share.share:.1%}", text, re.MULTILINE)


def test_a_hostile_name_cannot_play_tricks_with_a_terminal() -> None:
    evil = "\x1b[31mred\x07\n\u202egnp.exe"
    report = example_report()
    bad = msgspec.structs.replace(
        report,
        job=evil,
        why=evil,
        command=evil,
        attempts=[msgspec.structs.replace(one, reason=evil, nodes=[evil]) for one in report.attempts],
        marks=[msgspec.structs.replace(one, text=evil) for one in report.marks],
        checkpoints=[msgspec.structs.replace(one, problem=evil, stage=evil) for one in report.checkpoints],
        notes=[evil],
    )
    text = page_of(msgspec.structs.replace(example_fleet(), jobs=[bad, report]), Screen())
    assert "\x1b" not in text and "\x07" not in text and "\u202e" not in text


def test_a_job_without_attempts_has_a_page() -> None:
    empty = msgspec.structs.replace(
        second_report(), state="not started yet", began=None, spans=[], shares=[], ettr=None, attempts=[], outcomes=[],
        reached_step=None, unsaved_s=None, notes=["no attempt has been made"],
    )  # fmt: skip
    text = job_page(empty, Screen())
    assert "not started yet" in text and "no attempt has been made" in text and "TIME LINE" not in text


def test_several_jobs_have_a_table_and_those_not_read_are_named() -> None:
    text = page_of(example_fleet(), Screen(120))
    head = text.split("\n\n")[0]
    assert "ETTR" in head and "42.8%" in head and "99.6%" in head
    assert "not read: runs/typo: there is no job in runs/typo" in head


def test_long_lists_are_cut_unless_all_is_asked_for() -> None:
    report = example_report()
    attempts = [msgspec.structs.replace(report.attempts[0], attempt=n) for n in range(1, 101)]
    spans = [Span(kind="useful", begin=1e9 + n, end=1e9 + n + 1, attempt=n) for n in range(1, 101)]
    many = msgspec.structs.replace(report, attempts=attempts, spans=spans)
    assert "(70 earlier attempts: --all)" in job_page(many, Screen())
    assert "earlier attempts" not in job_page(many, Screen(), is_all=True)


@pytest.mark.parametrize("without", [77, 100])
def test_a_long_time_line_begins_at_the_first_span_that_there_is(without: int) -> None:
    """Attempt 77 is the first that is shown: it was claimed, and did nothing that takes time; or no attempt shown did."""
    report = example_report()
    attempts = [msgspec.structs.replace(report.attempts[0], attempt=n, began=1e9 + n) for n in range(1, 101)]
    spans = [Span(kind="useful", begin=1e9 + n, end=1e9 + n + 1, attempt=n) for n in range(1, 101)]
    told = [span for span in spans if not 77 <= (span.attempt or 0) <= without]
    rows = time_line(msgspec.structs.replace(report, attempts=attempts, spans=told), Screen(), is_all=False)
    assert len([row for row in rows if row.lstrip().startswith("#")]) == 24
    assert "(76 earlier attempts: --all)" in rows


def test_the_wait_for_a_next_attempt_is_in_the_row_of_the_last() -> None:
    report = example_report()
    end = report.spans[-1].end
    wait = Span(kind="down", begin=end, end=end + 1800, attempt=None)
    report = msgspec.structs.replace(report, spans=[*report.spans, wait])
    assert time_line(report, Screen(80), is_all=False)[5].endswith("___")


def test_the_time_line_has_a_row_for_each_attempt_with_the_time_before_it() -> None:
    rows = [line for line in time_line(example_report(), Screen(80), is_all=False) if line.startswith("#")]
    assert [row[:2] for row in rows] == ["#1", "#2", "#3", "#4", "#5"]
    assert "·" in rows[2] and "?" in rows[4] and "_" in rows[4]


@given(
    st.lists(st.tuples(st.sampled_from(list(MEANINGS)), st.floats(1e-3, 1e6)), min_size=1, max_size=30),
    st.integers(60, 140),
)
def test_any_time_line_fits(pieces: list[tuple[str, float]], width: int) -> None:
    spans, at = [], 1.7e9
    for kind, seconds in pieces:
        spans.append(Span(kind=kind, begin=at, end=at + seconds, attempt=1))  # type: ignore[arg-type]
        at += seconds
    report = msgspec.structs.replace(example_report(), spans=spans, attempts=example_report().attempts[:1])
    for line in time_line(report, Screen(width), is_all=False):
        assert len(line) <= width


@given(st.text(max_size=60), st.integers(8, 40))
def test_what_is_cut_fits_and_is_plain(text: str, width: int) -> None:
    assert len(shorten(text, width)) <= max(width, len(plain(text)) if len(plain(text)) <= width else width)
    assert plain(text).isprintable()


@given(st.lists(st.tuples(st.text(max_size=12), st.text(max_size=80)), max_size=5))
def test_a_table_keeps_to_its_width(rows: list[tuple[str, str]]) -> None:
    for line in table(["A", "B"], rows, Screen(60)):
        assert len(line) <= max(60, 2 + 16 + max((len(plain(a)) for a, _ in rows), default=0))


def test_wrapping_gives_at_least_one_line() -> None:
    assert wrap("", 20) == [""]


def test_a_fleet_without_time_has_a_page() -> None:
    fleet = FleetReport(made_at=1.0, jobs=[], not_read=example_fleet().not_read, ettr=None, shares=[], outcomes=[])
    assert isinstance(page_of(fleet, Screen()), str)
