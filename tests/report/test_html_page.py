"""The page says what the report says, stays small, and takes nothing from a journal for more than text."""

import re
import sys
from html.parser import HTMLParser

import msgspec
import pytest

from lastgood.report import charts
from lastgood.report.advice import advice_on
from lastgood.report.course import courses_of, thinned
from lastgood.report.drawing import STAND_IN, clock_ticks
from lastgood.report.fleet_page import worst_first
from lastgood.report.html import page_of
from lastgood.report.model import AttemptLine, FailedSave, Problem, Report
from lastgood.report.strips import boxes, is_in_columns
from lastgood.report.style import DARK, LIGHT, SHAPE_COLOURS, TEXT_COLOURS
from report.example import example_fleet, example_report, second_report
from report.made_reports import BEGIN, fleet_of, made_report

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202e\ud800 'a' \"b\" &lt;"


def page(report: Report) -> str:
    return page_of(fleet_of(report), has_plots=False)


def values(text: str, name: str) -> list[float]:
    return [float(found) for found in re.findall(rf'<data value="([^"]+)" data-is="{name}">', text)]


def test_what_it_says_is_what_the_report_says():
    report = example_report()
    text = page(report)
    assert values(text, "attempts") == [5]
    assert values(text, "attempt-lost-steps") == [line.lost_steps for line in report.attempts]
    assert values(text, "lost-steps") == [870]
    assert values(text, "lost-s") == [681.0]
    assert values(text, "saves") == [5]
    assert values(text, "ettr") == [report.ettr.share]
    assert values(text, "last-good-step") == [12000]
    assert values(text, "checkpoint-step") == [one.step for one in report.checkpoints]
    assert values(text, "interval-planned") == [540.0]
    for share in report.shares:
        assert values(text, f"seconds-{share.kind}") == ([share.seconds] if share.seconds else [])
    assert report.ettr.with_numbers in text
    assert "rank 1 has stood still for 5 min 5 s" in text
    assert "attempts/0003.events.jsonl, line 7" in text


def test_a_hang_is_one_interruption():
    assert values(page(example_report()), "faults") == [4]


def test_several_jobs_have_totals_and_each_its_own_part():
    text = page_of(example_fleet(), has_plots=False)
    assert values(text, "fleet-lost-steps") == [870]
    assert values(text, "fleet-attempts") == [6]
    assert values(text, "job-attempts") == [1, 5] or values(text, "job-attempts") == [5, 1]
    assert text.count("<section ") == 2
    assert "runs/typo" in text and "name a job directory" in text


class Reader(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.policy = ""
        self.links: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links |= {value or "" for name, value in attrs if name in ("href", "src")}
        if ("http-equiv", "Content-Security-Policy") in attrs:
            self.policy = dict(attrs)["content"] or ""


def test_the_row_of_a_job_says_whether_it_needs_somebody():
    jobs = [made_report("/runs/calm"), made_report("/runs/stuck", state="given up")]
    rows = (
        page_of(fleet_of(*jobs), has_plots=False).partition('data-of="jobs"')[2].partition("</table>")[0].split("<tr>")
    )
    assert ["to do" in row for row in rows if "/job" in row or "#job" in row] == [True, False]


def test_nothing_from_a_journal_is_more_than_text():
    report = made_report(
        f"/runs/{EVIL}",
        reason=EVIL,
        command=EVIL,
        problems=[Problem(where=EVIL, what=EVIL)],
        failed_saves=[FailedSave(attempt=1, step=None, at=BEGIN, rank=0, error=EVIL)],
    )
    report = msgspec.structs.replace(report, state=EVIL, why=EVIL, notes=[EVIL], id=EVIL)
    honest = Reader(page_of(fleet_of(made_report(), made_report(), example_report()), has_plots=False))
    for text in (page(report), page_of(fleet_of(report, report), has_plots=False)):
        found = Reader(text)
        assert found.tags <= honest.tags and found.attributes <= honest.attributes
        assert "&lt;script&gt;alert(1)" in text
        assert not {"\x1b", "\u202e", "\ud800"} & set(text)
        text.encode()


@pytest.mark.slow
def test_it_loads_and_runs_nothing():
    text = page_of(fleet_of(made_report()))
    found = Reader(text)
    assert "default-src 'none'" in found.policy
    assert not {"script", "iframe", "object", "embed", "form", "base"} & found.tags
    assert not re.findall(r"@import|url\((?!#)", text)
    assert {link for link in found.links if not link.startswith("#")} == {"data:,"}


def test_a_time_that_no_calendar_has_is_shown_as_a_number():
    report = made_report()
    late = [msgspec.structs.replace(mark, at=1e18) for mark in report.marks]
    assert "1e+18 s" in page(msgspec.structs.replace(report, marks=late))


@pytest.mark.parametrize("state", ["given up", "stopped, unfinished", "running without its launcher"])
def test_a_state_that_needs_somebody_is_said_first(state):
    text = page(made_report(state=state))
    assert 'data-is="to-do" data-count="0"' not in text
    assert advice_on(made_report(state=state))[0].urgency == "now"


def test_a_finished_job_needs_nobody():
    assert advice_on(made_report()) == []
    assert "Nothing to do." in page(made_report())


def test_a_running_job_whose_saves_fail_needs_somebody():
    error = "No space left on device"
    late = FailedSave(attempt=3, step=400, at=BEGIN + 5000, rank=0, error=error)
    report = msgspec.structs.replace(made_report(failed_saves=[late]), state="running", made_at=BEGIN + 700)
    assert any(error in one.text and one.urgency == "now" for one in advice_on(report))
    early = msgspec.structs.replace(report, failed_saves=[msgspec.structs.replace(late, at=BEGIN)])
    assert not any(error in one.text for one in advice_on(early)), "a save has worked since"


def test_a_save_that_is_overdue_is_said():
    report = made_report(state="running")
    newest = report.saves[-1].at
    assert any("late" in one.text for one in advice_on(msgspec.structs.replace(report, made_at=newest + 121)))
    assert not any("late" in one.text for one in advice_on(msgspec.structs.replace(report, made_at=newest + 119)))


def test_no_save_is_late_in_an_attempt_that_has_just_begun_or_that_has_ended():
    report = made_report(state="running")
    last = msgspec.structs.replace(report.attempts[-1], began=BEGIN + 90_000, first_step_at=BEGIN + 90_500)

    def is_late(last: AttemptLine, made_at: float) -> bool:
        waited = msgspec.structs.replace(report, attempts=[*report.attempts[:-1], last], made_at=made_at)
        return any("late" in one.text for one in advice_on(waited))

    assert not is_late(last, BEGIN + 90_619)
    assert is_late(last, BEGIN + 90_621)
    assert not is_late(msgspec.structs.replace(last, first_step_at=None), BEGIN + 90_119)
    assert not is_late(msgspec.structs.replace(last, ended=BEGIN + 90_600), BEGIN + 95_000)


def test_a_save_that_failed_on_all_ranks_is_one():
    def said(steps: tuple[int, ...]) -> str:
        failed = [
            FailedSave(attempt=3, step=s, at=BEGIN + 5000 + s, rank=r, error="full") for s in steps for r in range(8)
        ]
        report = msgspec.structs.replace(made_report(failed_saves=failed), state="stopped, unfinished")
        return " ".join(one.text for one in advice_on(report)) + page(report)

    assert "The last save failed: full" in said((400,)) and "1 failed save, alike ones" in said((400,))
    assert "The last 2 saves failed: full" in said((400, 410)) and "2 failed saves, alike ones" in said((400, 410))


def test_a_running_job_says_what_would_be_lost_now():
    report = msgspec.structs.replace(made_report(), state="running", unsaved_s=42.0)
    assert "If it failed now, 42 s of work would be lost." in page(report)
    assert "If it failed now" not in page(made_report())


def test_an_interval_far_from_the_plan_is_said_while_it_matters():
    def said(planned_s: float, state: str = "running") -> str:
        report = made_report(planned_s=planned_s, state=state)
        report = msgspec.structs.replace(report, made_at=report.saves[-1].at)
        return " ".join(one.text for one in advice_on(report))

    assert "less often than planned: every 61 s where the plan says 10 s" in said(10.0)
    assert "more often than planned" in said(600.0)
    assert said(60.0) == said(45.0) == ""
    assert said(600.0, "finished") == ""


@pytest.mark.parametrize("state", ["damaged", "unreadable", "rejected"])
def test_a_checkpoint_that_is_not_good_is_to_be_looked_at(state):
    report = made_report("/runs/my job")
    bad = msgspec.structs.replace(report.checkpoints[-1], state=state)
    report = msgspec.structs.replace(report, checkpoints=[*report.checkpoints[:-1], bad])
    (advice,) = advice_on(report)
    assert bad.name in advice.text and advice.command == "lastgood verify '/runs/my job'"


def test_a_job_without_a_good_checkpoint_is_in_danger():
    report = msgspec.structs.replace(made_report(), state="running", checkpoints=[], saves=[])
    assert "a failure now loses all" in advice_on(report)[0].text


def test_a_checkpoint_on_one_node_only_is_said():
    report = made_report()
    newest = msgspec.structs.replace(report.checkpoints[0], stage="/local/job")
    staged = msgspec.structs.replace(report, checkpoints=[newest, *report.checkpoints[1:]])
    assert "on one node only" in advice_on(staged)[0].text


def test_the_worst_job_comes_first():
    calm, lossy = made_report("/runs/calm", killed_after=[]), made_report("/runs/lossy")
    stuck = made_report("/runs/stuck", state="given up", killed_after=[])
    assert [job.job for job in worst_first([calm, lossy, stuck])] == ["/runs/stuck", "/runs/lossy", "/runs/calm"]


def test_a_job_that_has_not_started_has_a_page():
    new = msgspec.structs.replace(
        made_report(killed_after=[], last_steps=0),
        state="not started yet",
        attempts=[],
        spans=[],
        shares=[],
        ettr=None,
        marks=[],
        outcomes=[],
        ranks=[],
        reached_step=None,
        began=None,
        ended=None,
    )
    text = page(new)
    assert "It has not started yet." in text and "There is none." in text
    assert page_of(fleet_of(made_report(), new), has_plots=False)


def test_where_there_is_no_job_at_all_the_page_says_why():
    fleet = msgspec.structs.replace(example_fleet(), jobs=[], ettr=None, shares=[], outcomes=[])
    assert "there is no job in runs/typo" in page_of(fleet, has_plots=False)


def test_without_the_library_it_says_how_to_get_plots_and_draws_a_strip(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = page_of(fleet_of(made_report()))
    assert "pip install 'lastgood[plot]'" in text
    assert 'class="strip"' in text and 'class="chart' not in text


# The size of it.


def test_hundreds_of_attempts_stay_a_small_file_that_says_what_it_leaves_out():
    report = made_report(killed_after=[70 + i * 37 % 100 for i in range(600)], ranks=2048)
    text = page(report)
    assert len(text.encode()) < 300_000
    assert "200 of 601 attempts: the 100 that lost most time, and the newest" in text
    assert f"{len(report.spans):,} spans as 250 columns" in text
    assert "the 50 slowest of 2,048 ranks" in text
    assert values(text, "attempts") == [601]
    assert values(text, "lost-steps") == [sum(line.lost_steps for line in report.attempts)]


@pytest.mark.slow
def test_plots_of_a_large_job_stay_small():
    pytest.importorskip("matplotlib")
    report = made_report(killed_after=[70 + i * 37 % 100 for i in range(600)], ranks=2048)
    text = page_of(fleet_of(report), has_plots=True)
    assert len(text.encode()) < 700_000
    assert text.count('<svg class="chart') == 6


def test_of_many_jobs_the_worst_are_there_in_full():
    jobs = [made_report(f"/runs/{i}", killed_after=(70 + i % 50,)) for i in range(150)]
    text = page_of(fleet_of(*jobs), has_plots=False)
    assert len(text.encode()) < 900_000
    assert text.count("<section ") == 40 and "The 40 jobs that come first are here in full" in text
    assert len(values(text, "job-attempts")) == 150
    assert values(text, "fleet-lost-steps") == [sum(job.lost_steps for job in jobs)]


def test_columns_lose_nothing():
    report = made_report(killed_after=[70 + i * 37 % 100 for i in range(600)])
    assert is_in_columns(report.spans)
    begin, end = report.spans[0].begin, report.spans[-1].end
    drawn = {
        kind: sum(w * h for _, _, w, h in found) * (end - begin)
        for kind, found in boxes(report.spans, begin, end).items()
    }
    for share in report.shares:
        if share.seconds:
            assert drawn[share.kind] == pytest.approx(share.seconds, rel=0.02), share.kind


def test_few_spans_are_drawn_as_they_are():
    report = made_report()
    begin, end = report.spans[0].begin, report.spans[-1].end
    drawn = boxes(report.spans, begin, end)
    assert sum(len(found) for found in drawn.values()) == len(report.spans)
    assert drawn["lost"][0][2] * (end - begin) == pytest.approx(30)


# What the plots are made from.


def test_the_course_of_an_attempt_turns_where_its_loss_begins():
    first, second, last = courses_of(made_report(killed_after=(150, 100), last_steps=200))
    assert [step for _, step in first.kept] == [0, 60, 120]
    assert [step for _, step in first.lost] == [120, 150]
    assert second.kept[0][1] == 120 and second.lost[-1][1] == 220
    assert last.lost == [] and last.points[-1][1] == 380


def test_an_attempt_that_saved_nothing_has_lost_all_its_course():
    first, _ = courses_of(made_report(killed_after=(40,)))
    assert first.kept == [] and [step for _, step in first.lost] == [0, 40]


def test_thinning_keeps_the_extremes():
    points = [(float(i), 1000.0 if i == 777 else float(i % 7)) for i in range(5000)]
    kept = thinned(points, 0, 5000, 100)
    assert len(kept) <= 100 and (777.0, 1000.0) in kept and kept == sorted(kept)


@pytest.mark.parametrize("seconds", [0.5, 3, 42, 300, 4000, 90_000, 1e6, 4e7, 1e9])
@pytest.mark.parametrize("room_px", [250, 840])
def test_a_time_axis_has_as_many_times_as_there_is_room_for(seconds, room_px):
    ticks, labels, below = clock_ticks(BEGIN, BEGIN + seconds, room_px)
    assert len(ticks) == len(labels) == len(set(labels))
    assert sum(8 * len(label) + 10 for label in labels) <= room_px
    assert len(labels) >= room_px / 250
    assert below.startswith("UTC, 2026-09-21")


@pytest.mark.slow
def test_every_colour_of_a_plot_is_a_variable_of_the_page():
    pytest.importorskip("matplotlib")
    text = charts.saves_chart(made_report(), prefix="p")
    assert not re.findall(r"#[0-9a-fA-F]{6}", text)
    assert set(re.findall(r"var\(--(\w+)\)", text)) <= set(LIGHT)
    assert set(STAND_IN) <= set(LIGHT)


# Contrast, by the formula of WCAG 2.


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_shapes_have_the_contrast_of_wcag_aa(scheme):
    for name in TEXT_COLOURS:
        assert contrast(scheme[name], scheme["paper"]) >= 4.5, name
        assert contrast(scheme[name], scheme["panel"]) >= 4.5, name
    for name in SHAPE_COLOURS:
        assert contrast(scheme[name], scheme["paper"]) >= 3, name


def test_both_schemes_have_the_same_colours():
    assert list(LIGHT) == list(DARK)


def test_useful_and_lost_are_told_apart_in_grey():
    assert contrast(LIGHT["useful"], LIGHT["lost"]) >= 2


def test_a_job_in_a_fleet_is_told_from_another_of_the_same_name():
    text = page_of(fleet_of(made_report("/a/x/job"), made_report("/a/y/job")), has_plots=False)
    assert ">x/job<" in text and ">y/job<" in text


def test_markup_in_a_name_of_a_running_job_is_text():
    assert "example-2 &lt;b&gt;&amp;amp;" in page(second_report())
