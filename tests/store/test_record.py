"""The record outside the job: that it once saved. A net, never a need."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lastgood.core.errors import StartRefusedError
from lastgood.store.record import Records, refuse_vanished, state_directory


@pytest.fixture
def records(tmp_path):
    return Records(tmp_path / "state" / "deep")


def test_what_is_noted_is_remembered_by_directory(records, tmp_path):
    assert records.read(tmp_path / "job") is None
    assert records.note_saved(tmp_path / "job", "id", 5) is None
    assert records.note_saved(tmp_path / "job", "id", 9) is None
    assert records.note_saved(tmp_path / "other", "id2", 1) is None
    assert (records.read(tmp_path / "job").step, records.read(tmp_path / "job").job) == (9, "id")
    records.forget(tmp_path / "job")
    assert records.read(tmp_path / "job") is None
    assert records.read(tmp_path / "other").step == 1


def test_another_way_to_the_same_directory_is_the_same(records, tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    records.note_saved(tmp_path / "real", "id", 5)
    monkeypatch.chdir(tmp_path)
    for way in (tmp_path / "link", Path("real"), tmp_path / "x" / ".." / "real"):
        assert records.read(way).step == 5


def test_a_damaged_record_is_no_evidence(records, tmp_path):
    records.note_saved(tmp_path / "job", "id", 5)
    (only,) = records.directory.iterdir()
    only.write_bytes(only.read_bytes()[:-5])
    assert records.read(tmp_path / "job") is None


def test_where_it_cannot_be_kept_the_reason_is_returned_not_raised(tmp_path):
    (tmp_path / "file").write_text("")
    records = Records(tmp_path / "file" / "below")
    assert isinstance(records.note_saved(tmp_path / "job", "id", 5), OSError)
    assert records.read(tmp_path / "job") is None
    records.forget(tmp_path / "job")


def test_without_a_place_nothing_is_kept(tmp_path):
    records = Records(None)
    assert records.note_saved(tmp_path, "id", 5) is None
    assert records.read(tmp_path) is None
    records.forget(tmp_path)


def test_names_that_are_no_text(records):
    path = Path(os.fsdecode(b"/somewhere/\xff\n"))
    assert records.note_saved(path, "id", 5) is None
    assert records.read(path).step == 5


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({"LASTGOOD_STATE_DIR": "/a", "XDG_STATE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"XDG_STATE_HOME": "/b", "HOME": "/c"}, "/b/lastgood"),
        ({"HOME": "/c"}, "/c/.local/state/lastgood"),
        ({"LASTGOOD_STATE_DIR": "", "HOME": "/c"}, "/c/.local/state/lastgood"),
    ],
)
def test_where_it_lives(environment, place):
    assert state_directory(environment) == Path(place)


def test_no_home_is_no_place():
    assert state_directory({}) is None


def test_a_job_that_vanished_is_not_begun_anew(records, job, tmp_path):
    refuse_vanished(job.path, records)
    refuse_vanished(tmp_path / "new", records)
    records.note_saved(job.path, job.id, 7)
    refuse_vanished(job.path, records)
    (job.path / "job.json").unlink()
    with pytest.raises(StartRefusedError, match="saved step 7"):
        refuse_vanished(job.path, records)


def test_a_chain_that_has_begun_anew_is_told_from_others_whatever_is_saved_or_forgotten_since(records, tmp_path):
    assert not records.has_begun_anew(tmp_path / "job", "7", "9 0")
    records.note_new_start(tmp_path / "job", "7", "7 0")
    records.note_saved(tmp_path / "job", "id", 5)
    records.forget(tmp_path / "job")
    assert records.has_begun_anew(tmp_path / "job", "7", "9 0")
    assert not records.has_begun_anew(tmp_path / "job", "8", "9 0") and not records.has_begun_anew(
        tmp_path / "other", "7", "9 0"
    )
    records.note_new_start(tmp_path / "job", "8", "7 0")
    assert not records.has_begun_anew(tmp_path / "job", "7", "9 0")


def test_the_start_that_has_begun_anew_may_do_so_again(records, tmp_path):
    # In an interactive allocation a person gives the command line twice; a requeue, or a segment, is another start.
    records.note_new_start(tmp_path / "job", "7", "7 0")
    assert not records.has_begun_anew(tmp_path / "job", "7", "7 0")
    assert records.has_begun_anew(tmp_path / "job", "7", "7 1") and records.has_begun_anew(tmp_path / "job", "7", "8 0")


@pytest.mark.parametrize("directory", [None, "file/below"])
def test_where_a_new_start_cannot_be_noted_nothing_is_known_of_it(directory, tmp_path):
    (tmp_path / "file").write_text("")
    records = Records(directory and tmp_path / directory)
    records.note_new_start(tmp_path / "job", "7", "7 0")
    assert not records.has_begun_anew(tmp_path / "job", "7", "9 0")


def test_outside_of_slurm_each_new_start_is_one(records, tmp_path):
    records.note_new_start(tmp_path / "job", "", "7 0")
    assert not records.has_begun_anew(tmp_path / "job", "", "9 0")


def test_who_has_said_fresh_is_not_told_to_say_it(records, job):
    records.note_saved(job.path, job.id, 7)
    (job.path / "job.json").unlink()
    with pytest.raises(StartRefusedError) as refused:
        refuse_vanished(job.path, records, is_fresh_spent=True)
    assert "submit it again" in refused.value.remedy and "run --fresh" not in refused.value.remedy


NOTING = """
import sys
from pathlib import Path
from lastgood.store.record import Records
records = Records(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for step in range(300):
    error = records.note_saved(Path(sys.argv[2]), "0" * 16, step)
    assert error is None, error
"""


@pytest.mark.slow
def test_several_processes_note_the_same_job_at_the_same_time(tmp_path: Path) -> None:
    """The keeper and a program that starts do."""
    words = [sys.executable, "-c", NOTING, str(tmp_path / "state"), str(tmp_path / "job")]
    noting = [
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for process in noting:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    ends = [process.communicate("go\n", timeout=180) for process in noting]
    assert [process.returncode for process in noting] == [0, 0, 0], [err for _, err in ends]
    record = Records(tmp_path / "state").read(tmp_path / "job")
    assert record is not None
    assert record.step == 299
    assert len(list((tmp_path / "state").iterdir())) == 1
