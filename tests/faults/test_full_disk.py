"""A real small file system that is full, or read-only: what is there stays, and the next save works."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from faults import states
from lastgood.core import heartbeat
from lastgood.core.errors import StorageError
from lastgood.core.layout import checkpoint_name
from lastgood.core.retention import Keep
from lastgood.store import attempts, jobdir, sweep
from lastgood.store.jobdir import JobDirectory

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")]

IMAGE_BYTES = 8 * 2**20


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=180)


@contextmanager
def _mounted(directory: Path, kind: str) -> Iterator[Path]:
    mountpoint = directory / "mnt"
    mountpoint.mkdir()
    if kind == "tmpfs":
        mount = ["mount", "-t", "tmpfs", "-o", f"size={IMAGE_BYTES}", "lastgood-test", str(mountpoint)]
    else:
        image = directory / "image"
        image.write_bytes(bytes(IMAGE_BYTES))
        _run("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", str(image))
        mount = ["mount", "-o", "loop", str(image), str(mountpoint)]
    try:
        _run(*mount)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"cannot mount {kind} here: {error}")
    try:
        yield mountpoint
    finally:
        subprocess.run(["umount", "-l", str(mountpoint)], check=False, capture_output=True)


@pytest.fixture(params=["ext4", "tmpfs"])
def mount(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    with _mounted(tmp_path, request.param) as mountpoint:
        yield mountpoint


@pytest.fixture
def job(mount: Path) -> JobDirectory:
    """A job that has saved step 10."""
    job = jobdir.create_job(mount / "job")
    attempts.claim_attempt(job, "")
    states.write(job, 10, 1)
    return job


def _fill(mount: Path, free_bytes: int) -> Path:
    """Leave about that much of the file system free."""
    filler = mount / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            os.fsync(file.fileno())
        file.truncate(max(0, file.tell() - free_bytes))
        os.fsync(file.fileno())
    return filler


def test_a_save_on_a_disk_with_any_amount_of_space_is_whole_or_refused(mount: Path, job: JobDirectory) -> None:
    outcomes = set()
    for free_bytes in range(0, 96 * 1024, 4096):
        number = attempts.claim_attempt(job, "").attempt
        sweep.sweep_incomplete(job, number)
        filler = _fill(mount, free_bytes)
        try:
            states.write(job, 20, number)
            outcomes.add("whole")
            assert states.newest_good(job) == 20
        except StorageError as error:
            outcomes.add("refused")
            assert error.exit_code == 74
            assert "No space left" in error.what and "free space" in error.remedy and error.safe
            assert states.newest_good(job) == 10
        filler.unlink()
        if states.newest_good(job) == 20:
            sweep.delete_checkpoint(job, checkpoint_name(20, number))
    assert outcomes == {"whole", "refused"}


def test_after_a_full_disk_the_next_save_works_and_leaves_nothing_behind(mount: Path, job: JobDirectory) -> None:
    filler = _fill(mount, 0)
    with pytest.raises(StorageError):
        states.write(job, 20, 1)
    filler.unlink()
    states.write(job, 20, 1)
    states.write(job, 30, 1)
    sweep.Retention(job, Keep(last=1), 1).apply()
    assert states.newest_good(job) == 30
    assert states.leftovers(job) == []


def test_retention_makes_room_on_a_full_disk(mount: Path, job: JobDirectory) -> None:
    states.write(job, 20, 1)
    filler = _fill(mount, 0)
    sweep.Retention(job, Keep(last=1), 1).apply()
    # What was deleted is enough for the next one.
    states.write(job, 30, 1)
    assert states.newest_good(job) == 30
    filler.unlink()


def test_a_start_on_a_full_disk_says_so(mount: Path, job: JobDirectory) -> None:
    filler = _fill(mount, 0)
    with pytest.raises(StorageError, match="No space left") as caught:
        # A file system with spare directory blocks takes some small files before it is full.
        for _ in range(100):
            attempts.claim_attempt(job, "")
    assert "nothing was changed" in caught.value.safe
    filler.unlink()
    attempts.claim_attempt(job, "")


def test_a_journal_on_a_full_disk_stops_nothing_and_loses_no_later_line(mount: Path, job: JobDirectory) -> None:
    journal = attempts.Journal(job, 1)
    journal.write("started", how="fresh")
    filler = _fill(mount, 0)
    for step in range(200):
        journal.write("save_failed", step=step, error="x" * 200)
    assert journal.failure is not None
    filler.unlink()
    journal.write("committed", step=1000)
    journal.close()
    kinds = [e.kind for e in attempts.read_events(job, 1)]
    assert kinds[0] == "started" and kinds[-1] == "committed"


def test_a_read_only_file_system_is_read_and_refuses_to_save(mount: Path, job: JobDirectory) -> None:
    _run("mount", "-o", "remount,ro", str(mount))
    assert states.newest_good(jobdir.open_job(job.path)) == 10
    for write in (
        lambda: states.write(job, 20, 1),
        lambda: attempts.claim_attempt(job, ""),
        lambda: jobdir.create_job(mount / "other"),
    ):
        with pytest.raises(StorageError, match="Read-only") as caught:
            write()
        assert "remount" in caught.value.remedy
    _run("mount", "-o", "remount,rw", str(mount))
    states.write(job, 20, 1)
    assert states.newest_good(job) == 20


BEATS = """
import sys
from lastgood.runtime.heartbeats import HeartbeatWriter
writer = HeartbeatWriter(sys.argv[1], 0)
writer.beat(1, "step")
writer.close()
print("went on")
"""


def test_a_program_whose_heartbeats_have_no_room_goes_on_without(mount: Path) -> None:
    beats = mount / "beats"
    beats.mkdir()
    (beats / heartbeat.heartbeat_file(0)).touch()
    _fill(mount, free_bytes=0)
    done = subprocess.run(
        [sys.executable, "-c", BEATS, str(beats)], capture_output=True, text=True, timeout=180, check=False
    )
    assert (done.returncode, done.stdout) == (0, "went on\n"), done.stderr
