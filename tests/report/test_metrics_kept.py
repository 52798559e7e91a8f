"""Metrics of a job that runs: written at each event and now and then, and never a reason for anything to stop."""

import os
import time
from pathlib import Path

import pytest

from lastgood.core import events, layout
from lastgood.report import fresh
from lastgood.report.fresh import EVERY_S, EventsSeen, keep_fresh
from lastgood.store.jobdir import JobDirectory

from .built import event, job_of, told_attempt, write_attempt


@pytest.fixture
def running(tmp_path: Path) -> JobDirectory:
    return job_of(tmp_path / "job", told_attempt(1, 0, commits=((100, 50),)))


class Turns:
    """Waits that do something instead: `turns[i]` in the i-th, which takes `took_s` of a clock that only they move."""

    def __init__(self, *turns: object, took_s: float = 1.0) -> None:
        self.turns = list(turns)
        self.took_s = took_s
        self.at = 0.0

    def clock(self) -> float:
        return self.at

    def wait(self, limit_s: float) -> bool:
        self.at += self.took_s
        if self.turns:
            turn = self.turns.pop(0)
            if callable(turn):
                turn()
        return not self.turns


def append(job: JobDirectory, number: int, kind: str, at: float, **data: object) -> None:
    with (job.attempts / layout.events_file(number)).open("ab") as file:
        file.write(events.encode(event(kind, at, **data)))


def count_writes(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    written: list[float] = []
    real = fresh.write_metrics

    def write(*args: object) -> None:
        written.append(time.monotonic())
        real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(fresh, "write_metrics", write)
    return written


def test_it_is_written_at_once_at_each_event_and_at_the_end(
    running: JobDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = count_writes(monkeypatch)
    file = tmp_path / "job.prom"
    seen: list[str] = []

    def save() -> None:
        append(running, 1, "committed", 200, step=70, name="x", bytes=5, write_s=1.0)

    def look() -> None:
        seen.append(file.read_text())

    turns = Turns(None, save, look, None, None)
    keep_fresh(running, file, turns.wait, pytest.fail, clock=turns.clock)
    assert "lastgood_job_saves_total" in seen[0] and seen[0].endswith("# EOF\n")
    # At once, after the save, and at the end.
    assert len(written) == 3
    assert 'lastgood_job_saves_total{job_dir="' in file.read_text()


def test_a_new_attempt_and_its_end_are_events(running: JobDirectory) -> None:
    seen = EventsSeen(running)
    stamps = [seen.stamp()]
    for change in (
        lambda: append(running, 1, "ended", 150, outcome="killed", reason="", exit_code=1, step=60),
        lambda: write_attempt(running, told_attempt(2, 160, from_step=50)),
        lambda: append(running, 2, "committed", 300, step=90, name="y", bytes=5, write_s=1.0),
        lambda: running.mark_finished(90, 2),
    ):
        change()
        stamps.append(seen.stamp())
        assert seen.stamp() == stamps[-1]
    assert len(set(stamps)) == 5


def test_without_events_it_is_written_often_enough_to_tell_how_old_it_is(
    running: JobDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = count_writes(monkeypatch)
    turns = Turns(*[None] * 61)
    keep_fresh(running, tmp_path / "job.prom", turns.wait, pytest.fail, clock=turns.clock)
    assert len(written) == 1 + int(60 // EVERY_S) + 1


def test_what_cannot_be_written_is_said_once_and_tried_again(running: JobDirectory, tmp_path: Path) -> None:
    place = tmp_path / "later"
    said: list[str] = []
    turns = Turns(*[None] * 40, place.mkdir, *[None] * 20)
    keep_fresh(running, place / "job.prom", turns.wait, said.append, clock=turns.clock)
    assert len(said) == 1
    assert "later/job.prom" in said[0] and "the job carries on" in said[0]
    assert (place / "job.prom").read_text().endswith("# EOF\n")


def test_a_job_that_cannot_be_read_for_a_while_is_no_end(running: JobDirectory, tmp_path: Path) -> None:
    said: list[str] = []
    away = running.attempts.with_name("away")
    turns = Turns(
        None,
        lambda: running.attempts.rename(away),
        *[None] * 20,
        lambda: away.rename(running.attempts),
        *[None] * 20,
    )
    file = tmp_path / "job.prom"
    keep_fresh(running, file, turns.wait, said.append, clock=turns.clock)
    assert len(said) == 1
    assert file.read_text().endswith("# EOF\n")


def test_a_journal_that_takes_long_to_read_is_read_less_often(
    running: JobDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[float] = []

    def slowly(*args: object) -> None:
        written.append(turns.at)
        turns.at += 0.5

    monkeypatch.setattr(fresh, "write_metrics", slowly)

    def save() -> None:
        append(running, 1, "committed", 200 + turns.at, step=70 + int(turns.at), name="x", bytes=5, write_s=1.0)

    turns = Turns(*[save] * 60)
    keep_fresh(running, tmp_path / "job.prom", turns.wait, pytest.fail, clock=turns.clock)
    # Half a second each, and at most a twentieth of the time.
    assert len(written) <= 1 + 60 / 10 + 1


def test_a_reader_never_sees_half_of_it(running: JobDirectory, tmp_path: Path) -> None:
    file = tmp_path / "job.prom"
    fresh.write_metrics(running, file)
    before = os.stat(file).st_ino
    held = file.open()
    append(running, 1, "committed", 200, step=70, name="x", bytes=5, write_s=1.0)
    fresh.write_metrics(running, file)
    assert os.stat(file).st_ino != before
    assert held.read().endswith("# EOF\n")
    held.close()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("job.prom")] == ["job.prom"]


def test_the_planned_interval_is_among_them(running: JobDirectory, tmp_path: Path) -> None:
    from lastgood.report.saving import Planned

    fresh.write_metrics(running, tmp_path / "job.prom", Planned(506.2, "batch.sh"))
    assert "lastgood_job_save_interval_planned_seconds" in (tmp_path / "job.prom").read_text()
