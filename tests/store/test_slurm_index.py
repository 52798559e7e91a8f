"""A number of Slurm finds the job's directory, and a directory that cannot hold records costs nothing."""

import os
import time

import pytest

from lastgood.store.slurm_index import KEEP_S, find_slurm_jobs, is_slurm_number, note_slurm_job, numbers_of


def found(directory, number):
    return [(job.cluster, job.number, job.path) for job in find_slurm_jobs(directory, number)]


def test_a_number_finds_its_job(tmp_path):
    assert note_slurm_job(tmp_path / "state", "alpha", ["7", "8"], tmp_path / "a job") is None
    assert found(tmp_path / "state", "8") == [("alpha", "8", str(tmp_path / "a job"))]
    assert found(tmp_path / "state", "78") == found(tmp_path / "nowhere", "7") == found(None, "7") == []


def test_numbers_of_two_clusters_are_told_apart_the_newest_first(tmp_path):
    for cluster in ("alpha", "be/ta", "alpha"):
        note_slurm_job(tmp_path, cluster, ["7"], tmp_path / cluster)
    assert [cluster for cluster, _, _ in found(tmp_path, "7")] == ["alpha", "be/ta"]


def test_the_number_of_an_array_finds_its_tasks(tmp_path):
    note_slurm_job(tmp_path, "alpha", ["7_1"], tmp_path / "x-1")
    note_slurm_job(tmp_path, "alpha", ["7_2"], tmp_path / "x-2")
    assert {path for _, _, path in found(tmp_path, "7")} == {str(tmp_path / "x-1"), str(tmp_path / "x-2")}
    assert [path for _, _, path in found(tmp_path, "7_2")] == [str(tmp_path / "x-2")]


def test_a_record_that_is_damaged_is_passed_over(tmp_path):
    note_slurm_job(tmp_path, "alpha", ["7"], tmp_path)
    (tmp_path / "slurm-alpha-7.json").write_text("{}")
    assert found(tmp_path, "7") == []


def test_old_records_go(tmp_path):
    note_slurm_job(tmp_path, "alpha", ["7"], tmp_path)
    (tmp_path / "other.json").write_text("")
    old = time.time() - KEEP_S - 60
    for name in os.listdir(tmp_path):
        os.utime(tmp_path / name, (old, old))
    note_slurm_job(tmp_path, "alpha", ["8"], tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["other.json", "slurm-alpha-8.json"]


def test_where_nothing_can_be_written_the_error_is_returned(tmp_path):
    (tmp_path / "file").write_text("")
    assert isinstance(note_slurm_job(tmp_path / "file" / "state", "alpha", ["7"], tmp_path), OSError)
    assert note_slurm_job(None, "alpha", ["7"], tmp_path) is None


@pytest.mark.parametrize(
    ("text", "is_one"), [("7", True), ("7_2", True), ("", False), ("7_", False), ("٧", False), ("7a", False)]
)
def test_what_is_a_number_of_slurm(text, is_one):
    assert is_slurm_number(text) is is_one


def test_the_task_that_has_the_number_of_its_array_does_not_take_it():
    last = {"SLURM_JOB_ID": "7", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}
    assert numbers_of(last, is_chained=False) == ["7_3"]
    assert set(numbers_of(last, is_chained=True)) == {"7", "7_3"}
    assert numbers_of({"SLURM_JOB_ID": "7"}, is_chained=False) == ["7"]
