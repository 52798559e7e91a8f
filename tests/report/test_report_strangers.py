"""Reports on jobs to which something has happened that no program of ours does."""

from pathlib import Path

from lastgood.core import layout
from lastgood.report.collect import report_on
from lastgood.store.jobdir import JobDirectory

from .built import job_of, told_attempt


def finished_job(tmp_path: Path) -> JobDirectory:
    job = job_of(
        tmp_path / "job",
        told_attempt(1, 0, commits=((20, 10), (30, 20)), reached=24, ended=35),
        told_attempt(2, 40, from_step=20, commits=((60, 60),), reached=60, ended=65, outcome="finished"),
    )
    job.mark_finished(60, 2)
    return job


def test_a_job_that_is_finished_has_done_its_last_step_also_where_a_journal_was_emptied(tmp_path: Path) -> None:
    job = finished_job(tmp_path)
    (job.attempts / layout.events_file(2)).write_bytes(b"")
    report = report_on(job)
    assert (report.state, report.reached_step, report.total_steps) == ("finished", 60, 60)


def test_a_finished_job_whose_attempts_are_gone_is_not_told_that_it_made_none(tmp_path: Path) -> None:
    job = finished_job(tmp_path)
    for path in job.attempts.iterdir():
        path.unlink()
    report = report_on(job)
    assert report.reached_step == 60
    assert any("written down any more" in note for note in report.notes)
