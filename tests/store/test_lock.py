"""The lock: one runner per job, released by death, a courtesy where file systems have none."""

import errno
import fcntl
import os
import subprocess
import sys

import pytest

from lastgood.core import layout
from lastgood.core.errors import JobBusyError
from lastgood.store import lock as lock_module
from lastgood.store.lock import Holder, holder, lock_job
from lastgood.store.processes import birth_of


def test_the_second_is_told_who_holds_it(job, monkeypatch):
    with lock_job(job) as lock:
        assert lock.is_held
        monkeypatch.setattr(lock_module, "_myself", lambda: "another process on another host")
        with pytest.raises(JobBusyError, match=f"process {os.getpid()} on ") as caught:
            lock_job(job)
        assert "another --job" in caught.value.remedy
        assert "tick" not in caught.value.what
        assert holder(job) == Holder(os.getpid(), os.uname().nodename, birth_of(os.getpid()))
        assert not holder(job).is_dead
    assert holder(job) is None
    lock_job(job).close()


def test_a_program_that_meets_itself_is_told_so(job):
    with lock_job(job), pytest.raises(JobBusyError, match="this program has a Run for the job") as caught:
        lock_job(job)
    assert "close()" in caught.value.remedy


def test_nobody_holds_what_was_never_locked(job):
    assert holder(job) is None
    assert not (job.path / layout.LOCK_FILE).exists()


@pytest.mark.slow
def test_a_child_that_inherited_it_keeps_it(job):
    lock = lock_job(job)
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, pass_fds=[lock.fd]
    )
    lock.close()
    try:
        with pytest.raises(JobBusyError):
            lock_job(job)
    finally:
        child.kill()
        child.communicate(timeout=180)
    lock_job(job).close()


@pytest.mark.slow
def test_death_releases_it_and_nothing_is_left_to_clean_up(job):
    code = (
        "import sys, os, signal\n"
        "from lastgood.store.jobdir import open_job\n"
        "from lastgood.store.lock import lock_job\n"
        "lock = lock_job(open_job(sys.argv[1]))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    end = subprocess.run([sys.executable, "-c", code, str(job.path)], timeout=180, check=False)
    assert end.returncode == -9
    with lock_job(job):
        assert f"process {os.getpid()}" in (job.path / layout.LOCK_FILE).read_text()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS])
def test_where_there_are_no_locks_it_says_that_it_holds_nothing(job, monkeypatch, number):
    def no_locks(*_):
        raise OSError(number, "no locks")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with lock_job(job) as lock:
        assert not lock.is_held
    assert holder(job) is None


def test_a_full_disk_does_not_keep_anybody_from_it(job, monkeypatch):
    (job.path / layout.LOCK_FILE).touch()

    def full(*_):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "pwrite", full)
    with lock_job(job) as lock:
        assert lock.is_held
        with pytest.raises(JobBusyError, match="another process"):
            lock_job(job)


def test_a_link_is_not_followed(job, tmp_path):
    (tmp_path / "victim").write_text("precious")
    (job.path / layout.LOCK_FILE).symlink_to(tmp_path / "victim")
    with pytest.raises(Exception, match="cannot lock"):
        lock_job(job)
    assert (tmp_path / "victim").read_text() == "precious"
