"""A job's directory: one identity, made once; what is no job is said, never made into one."""

import os
import threading

import pytest

from lastgood.core import layout
from lastgood.core.errors import DamagedError, FormatVersionError, NoSuchJobError, StartRefusedError, StorageError
from lastgood.store.jobdir import create_job, open_job, read_document


def test_made_once_and_found_again(tmp_path):
    job = create_job(tmp_path / "a" / "b")
    assert create_job(tmp_path / "a" / "b").id == job.id == open_job(tmp_path / "a" / "b").id
    assert sorted(os.listdir(job.path)) == ["attempts", "checkpoints", "job.json"]
    assert create_job(tmp_path / "c").id != job.id


def test_many_at_once_get_the_same_job(tmp_path):
    found = []
    start = threading.Barrier(8)

    def create():
        start.wait(100)
        found.append(create_job(tmp_path / "job").id)

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert len(found) == 8
    assert len(set(found)) == 1


def test_opening_never_creates(tmp_path):
    with pytest.raises(NoSuchJobError, match="does not exist"):
        open_job(tmp_path / "none")
    with pytest.raises(NoSuchJobError, match=r"no job\.json"):
        open_job(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(NoSuchJobError, match="is a file"):
        open_job(tmp_path / "file")
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_is_no_place_for_a_job(tmp_path):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StorageError):
            create_job(path)
    assert (tmp_path / "file").read_text() == "x"


def test_checkpoints_without_an_identity_are_not_taken_for_a_new_job(job, save_step):
    save_step(5)
    (job.path / layout.JOB_FILE).unlink()
    with pytest.raises(StartRefusedError, match="1 checkpoint"):
        create_job(job.path)
    assert not (job.path / layout.JOB_FILE).exists()


def test_a_damaged_identity_is_damage_with_a_way_out(job):
    (job.path / layout.JOB_FILE).write_bytes(b"garbage")
    for make in (open_job, create_job):
        with pytest.raises(DamagedError) as caught:
            make(job.path)
        assert "backup" in caught.value.remedy


def test_a_newer_format_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(layout, "FORMAT_VERSION", 9)
    create_job(tmp_path)
    monkeypatch.undo()
    for make in (open_job, create_job):
        with pytest.raises(FormatVersionError, match="format 9"):
            make(tmp_path)


def test_finished_is_marked_and_unmarked(job):
    assert job.finished() is None
    job.mark_finished(100, 2)
    assert (job.finished().step, job.finished().attempt, job.finished().job) == (100, 2, job.id)
    job.unmark_finished()
    assert job.finished() is None
    (job.path / layout.FINISHED_FILE).write_text("{}")
    with pytest.raises(DamagedError):
        job.finished()


def test_only_a_name_that_does_not_exist_is_nothing(tmp_path):
    assert read_document(tmp_path / "none") is None
    (tmp_path / "dir").mkdir()
    with pytest.raises(DamagedError):
        read_document(tmp_path / "dir")
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        read_document(tmp_path / "file" / "below")


def test_names_with_anything_in_them(tmp_path):
    path = tmp_path / "a b'c\"d\n$é" / os.fsdecode(b"\xff")
    assert open_job(create_job(path).path).path == path


def test_a_mark_that_a_newer_attempt_has_swept_is_not_made(job, monkeypatch):
    # The process was frozen right before the rename.
    def sweep(fd):
        left = [p for p in job.path.iterdir() if layout.is_left_by_start(p.name, 2)]
        assert len(left) == 1
        left[0].unlink()

    monkeypatch.setattr("os.fsync", sweep)
    with pytest.raises(FileNotFoundError):
        job.mark_finished(100, 1)
    assert job.finished() is None
