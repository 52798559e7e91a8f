"""From a job's directory to its report, held against the journals and the store by other means."""

import json
import os
import shutil
import time
from pathlib import Path

import msgspec
import pytest

from lastgood.core import layout
from lastgood.launch.standing import standing_of
from lastgood.report import shelf
from lastgood.report.collect import fleet_of, report_on
from lastgood.report.model import FleetReport
from lastgood.report.saving import Planned
from lastgood.store.catalogue import set_mark
from lastgood.store.jobdir import JobDirectory
from lastgood.store.lock import lock_job
from lastgood.store.writer import CheckpointWriter

from .built import BEGAN, event, job_of, record, told_attempt, write_attempt


def committed(job: JobDirectory, step: int, attempt: int, *, world_size: int = 1, began: float | None = None) -> Path:
    """A real checkpoint, written now. Its directory."""
    writer = CheckpointWriter(job, step, attempt, fence=lambda: None)
    for rank in range(world_size):
        writer.write_part(rank, [], {"state": rank})
    writer.commit(world_size, began=time.time() if began is None else began)
    return writer.directory


@pytest.fixture
def two_attempts(tmp_path: Path) -> JobDirectory:
    """Killed at step 80 with step 50 saved, and resumed from there to the end at step 200."""
    job = job_of(
        tmp_path / "job",
        told_attempt(1, 0, commits=((60, 20), (100, 50)), reached=80, ended=160),
        told_attempt(
            2, 165, from_step=50, commits=((220, 120), (300, 200)), reached=200, ended=310, outcome="finished",
            more=(event("finished", 300.5, step=200),),
        ),
    )  # fmt: skip
    committed(job, 50, 1)
    committed(job, 200, 2)
    job.mark_finished(200, 2)
    return job


def test_it_says_what_status_says(two_attempts: JobDirectory) -> None:
    report, standing = report_on(two_attempts), standing_of(two_attempts)
    assert (report.job, report.id, report.state, report.why) == (
        standing.job,
        standing.id,
        standing.state.value,
        standing.why,
    )
    assert (report.lost_steps, report.lost_s) == (standing.lost_steps, standing.lost_s) == (30, 60.0)
    for line, account in zip(report.attempts, standing.attempts, strict=True):
        for name in ("outcome", "reason", "from_step", "reached_step", "saved_step", "lost_steps", "lost_s", "how"):
            assert getattr(line, name) == getattr(account, name), name
    assert (report.reached_step, report.last_good_step, report.total_steps) == (200, 200, 200)
    assert report.command == "python train.py"


def test_a_job_that_waits_for_a_restart_has_nothing_unsaved(tmp_path: Path) -> None:
    runs = told_attempt(1, 0, commits=((100, 50),))
    job = job_of(tmp_path / "job", runs)
    with lock_job(job):
        report = report_on(job, now=BEGAN + 130)
        assert (report.state, report.unsaved_s, report.seconds) == ("running", 30.0, 130.0)
        assert report.ettr is not None and "not saved yet" in report.ettr.doubts[-1]
        write_attempt(job, told_attempt(1, 0, commits=((100, 50),), reached=80, ended=160))
        report = report_on(job, now=BEGAN + 200)
    assert (report.state, report.unsaved_s, report.seconds) == ("running", None, 200.0)
    assert report.ettr is not None and report.ettr.doubts == []


def test_the_saves_and_intervals_are_those_of_the_journals(two_attempts: JobDirectory) -> None:
    report = report_on(two_attempts, Planned(60.0, "plan.json", 0.9))
    lines = [
        json.loads(line) | {"number": number}
        for number in (1, 2)
        for line in (two_attempts.attempts / layout.events_file(number)).read_text().splitlines()
    ]
    commits = [line for line in lines if line["kind"] == "committed"]
    assert [(save.step, save.at, save.bytes, save.write_s, save.attempt) for save in report.saves] == [
        (line["data"]["step"], line["at"], line["data"]["bytes"], line["data"]["write_s"], line["number"])
        for line in commits
    ]
    assert [save.stall_s for save in report.saves] == [0.5] * 4
    # Each write took 2 s: from the first step (13 s) to the save that began at 58 s, and so on.
    assert [round(one.interval_s, 6) for one in report.interval.used] == [45.0, 40.0, 40.0, 80.0]
    assert [one.steps for one in report.interval.used] == [20, 30, 70, 80]
    assert (report.interval.planned_s, report.interval.planned_by, report.interval.planned_ettr) == (
        60.0,
        "plan.json",
        0.9,
    )
    assert report.interval.median_used_s == 45.0
    assert report.save_figures.saves == 4 and report.save_figures.bytes_in_all == 4000


def test_a_checkpoint_that_was_resumed_from_was_verified_by_that_attempt(two_attempts: JobDirectory) -> None:
    report = report_on(two_attempts)
    assert report.attempts[1].from_checkpoint == "000000000050-0001"
    assert [(c.step, c.state, c.verified, c.is_last_good) for c in report.checkpoints] == [
        (200, "good", "no", True),
        (50, "good", "restored", False),
    ]
    assert report.checkpoints[1].verified_by == "attempt 2, which resumed from it"
    assert report.checkpoints[1].verified_at == BEGAN + 176


def test_one_that_came_from_memory_was_not_read_from_storage(tmp_path: Path) -> None:
    started = event("started", 175, how="resumed", step=50, rejected=[], is_from_memory=True)
    job = job_of(tmp_path / "job", told_attempt(1, 0, commits=((100, 50),), ended=160), record(2, 165, started))
    committed(job, 50, 1)
    report = report_on(job)
    assert report.attempts[1].is_from_memory
    assert [c.verified for c in report.checkpoints] == ["no"]
    assert any("no checkpoint was verified" in note for note in report.notes)


def test_a_rejected_one_is_named_with_who_rejected_it(two_attempts: JobDirectory) -> None:
    set_mark(two_attempts, "000000000050-0001", layout.REJECTED_FILE, "bytes 0 to 10 do not match", 2)
    job = two_attempts
    journal = job.attempts / layout.events_file(2)
    line = {"kind": "rejected", "at": BEGAN + 170, "data": {"name": "000000000050-0001", "problem": "bytes 0 to 10"}}
    journal.write_text(
        json.dumps(line) + "\n" + journal.read_text().replace('"resumed","step":50', '"resumed","step":0')
    )
    found = report_on(job).checkpoints[1]
    assert (found.state, found.verified, found.verified_by) == ("rejected", "failed", "attempt 2")
    assert "do not match" in found.problem


def test_verify_reads_all_of_it(two_attempts: JobDirectory) -> None:
    data = two_attempts.checkpoints / "000000000200-0002" / layout.data_file(0)
    content = bytearray(data.read_bytes())
    content[-1] ^= 1
    data.write_bytes(content)
    assert report_on(two_attempts).checkpoints[0].verified == "no"
    damaged, whole = report_on(two_attempts, is_verified=True).checkpoints
    assert (damaged.verified, damaged.verified_by) == ("failed", "this report")
    assert layout.data_file(0) in damaged.problem
    assert (whole.verified, whole.verified_by) == ("read", "this report")


def test_one_that_retention_deletes_while_it_is_read_is_left_out(
    two_attempts: JobDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shelf.open_checkpoint

    def open_too_late(job: JobDirectory, name: str) -> object:
        if name == "000000000050-0001":
            shutil.rmtree(job.checkpoints / name)
        return real(job, name)

    monkeypatch.setattr(shelf, "open_checkpoint", open_too_late)
    assert [(one.step, one.verified) for one in report_on(two_attempts, is_verified=True).checkpoints] == [
        (200, "read")
    ]


def test_ranks_are_timed_by_their_files_and_only_where_these_are_of_the_save(tmp_path: Path) -> None:
    job = job_of(tmp_path / "job", told_attempt(1, 0, commits=((100, 50),), ended=160))
    directory = committed(job, 50, 1, world_size=3, began=time.time() - 10)
    manifest = json.loads((directory / layout.MANIFEST_FILE).read_text())
    began = manifest["created"] - manifest["write_s"]
    for rank, took_s in ((0, 4.0), (1, 7.5), (2, 90.0)):
        os.utime(directory / layout.part_file(rank), (began + took_s, began + took_s))
    report = report_on(job)
    writes = report.checkpoints[0].ranks
    assert [None if w.write_s is None else round(w.write_s, 3) for w in writes] == [4.0, 7.5, None]
    assert [w.bytes for w in writes] == [part["bytes"] + part["data_bytes"] for part in manifest["parts"]]
    assert [(r.rank, round(r.median_write_s, 3)) for r in report.ranks] == [(0, 4.0), (1, 7.5)]


def test_gpu_hours_are_told_where_every_attempt_tells_its_gpus(tmp_path: Path) -> None:
    def attempt(number: int, at: float, gpus: int | None) -> object:
        told = event("allocation", at, scheduler="slurm", cluster="c", job_id="7", restart_count=number, gpus=gpus)
        return told_attempt(number, at, reached=10, ended=at + 3600, more=(told,), launch=str(number))

    known = report_on(job_of(tmp_path / "a", attempt(1, 0, 4), attempt(2, 4000, 2)))  # type: ignore[arg-type]
    hours = {share.kind: share.gpu_hours for share in known.shares}
    assert sum(hours.values()) == pytest.approx(6)  # type: ignore[arg-type]
    assert hours["queued"] == 0
    assert known.attempts[1].allocation == "slurm 7, restart 2"
    unknown = report_on(job_of(tmp_path / "b", attempt(1, 0, 4), attempt(2, 4000, None)))  # type: ignore[arg-type]
    assert all(share.gpu_hours is None for share in unknown.shares)


def test_an_applications_own_checkpoint_is_as_its_launcher_saw_it(tmp_path: Path) -> None:
    job = job_of(
        tmp_path / "job",
        record(
            1,
            0,
            event("started", 1, how="fresh", step=0, name="", is_wrapped=True),
            event("launched", 2, command=["gmx", "mdrun"], pid=1, host="n1"),
            event("committed", 100, step=5000, name="state.cpt", bytes=77),
            event("ended", 150, outcome="killed", reason="SIGKILL", exit_code=137, step=None),
        ),
    )
    report = report_on(job)
    assert [(c.name, c.step, c.state, c.bytes, c.verified) for c in report.checkpoints] == [
        ("state.cpt", 5000, "seen", 77, "no")
    ]
    assert report.command == "gmx mdrun"
    assert len(report.notes) == 1 and "looked for every 15 s" in report.notes[0]
    assert not report.attempts[0].is_loss_known


def test_a_fleet_is_the_sum_of_its_jobs(tmp_path: Path, two_attempts: JobDirectory) -> None:
    other = job_of(tmp_path / "other", told_attempt(1, 0, reached=5, ended=100))
    reports = [report_on(two_attempts), report_on(other)]
    fleet = fleet_of(reports, [], 1.0)
    for share in fleet.shares:
        assert share.seconds == pytest.approx(sum(one.share_of(share.kind).seconds for one in reports))  # type: ignore[union-attr]
    assert {one.outcome: (one.attempts, one.lost_steps) for one in fleet.outcomes} == {
        "killed": (2, 30 + 5),
        "finished": (1, 0),
    }
    assert fleet.ettr is not None
    useful = next(share.seconds for share in fleet.shares if share.kind == "useful")
    assert fleet.ettr.share == pytest.approx(useful / sum(one.seconds for one in reports))


def test_it_can_be_kept_and_read_again(two_attempts: JobDirectory) -> None:
    fleet = fleet_of([report_on(two_attempts)], [], 1.0)
    assert msgspec.json.decode(msgspec.json.encode(fleet), type=FleetReport) == fleet


def test_a_directory_whose_name_is_no_text_is_reported_on(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe"))
    report = report_on(job_of(path, told_attempt(1, 0, reached=5, ended=100)))
    assert report.job.endswith("/\\udcff\\udcfe")
    msgspec.json.encode(report)
