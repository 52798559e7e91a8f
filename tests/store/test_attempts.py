"""Attempts: each number is claimed by one; older ones may not commit; journals outlive torn lines."""

import os
import threading

import pytest

from lastgood.core import layout
from lastgood.core.errors import DamagedError, FencedError
from lastgood.store.attempts import (
    Journal,
    attempt_numbers,
    check_fence,
    check_launcher,
    claim_attempt,
    read_attempt,
    read_events,
)
from lastgood.store.jobdir import create_job


@pytest.fixture
def fresh_job(tmp_path):
    return create_job(tmp_path / "fresh")


def test_numbers_rise_from_one(fresh_job):
    assert attempt_numbers(fresh_job) == []
    assert [claim_attempt(fresh_job, "a").attempt for _ in range(3)] == [1, 2, 3]
    assert attempt_numbers(fresh_job) == [1, 2, 3]


def test_no_number_is_claimed_twice(fresh_job):
    claimed = []
    start = threading.Barrier(8)

    def claim():
        start.wait(100)
        claimed.append(claim_attempt(fresh_job, "a").attempt)

    threads = [threading.Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert sorted(claimed) == list(range(1, 9))


def test_a_claim_says_who(fresh_job):
    claimed = claim_attempt(fresh_job, "token", fresh=True, restarts={"SLURM_RESTART_COUNT": 2})
    again = read_attempt(fresh_job, 1)
    assert again == claimed
    assert (again.job, again.launch, again.fresh, again.pid) == (fresh_job.id, "token", True, os.getpid())
    assert again.restarts == {"SLURM_RESTART_COUNT": 2}
    assert read_attempt(fresh_job, 2) is None


def test_numbers_are_compared_as_numbers(fresh_job):
    for number in (9, 10, 9999, 10000):
        (fresh_job.attempts / layout.attempt_file(number)).write_bytes(b"")
    (fresh_job.attempts / "99999.json.part").write_bytes(b"")
    assert attempt_numbers(fresh_job) == [9, 10, 9999, 10000]
    assert claim_attempt(fresh_job, "a").attempt == 10001


def test_a_launcher_is_fenced_by_another_and_not_by_what_was_begun_in_its_name(fresh_job):
    claim_attempt(fresh_job, "a")
    check_launcher(fresh_job, 1, "a")
    claim_attempt(fresh_job, "a")
    check_launcher(fresh_job, 1, "a")
    claim_attempt(fresh_job, "b")
    check_launcher(fresh_job, 3, "b")
    with pytest.raises(FencedError):
        check_launcher(fresh_job, 1, "a")


def test_an_empty_claim_counts_but_says_nothing(fresh_job):
    (fresh_job.attempts / layout.attempt_file(1)).write_bytes(b"")
    assert read_attempt(fresh_job, 1) is None
    assert claim_attempt(fresh_job, "a").attempt == 2
    (fresh_job.attempts / layout.attempt_file(1)).write_bytes(b"{}")
    with pytest.raises(DamagedError):
        read_attempt(fresh_job, 1)


def test_the_fence(fresh_job):
    claim_attempt(fresh_job, "a")
    check_fence(fresh_job, 1)
    claim_attempt(fresh_job, "b")
    check_fence(fresh_job, 2)
    with pytest.raises(FencedError, match=r"attempt 2 .* this is attempt 1"):
        check_fence(fresh_job, 1)


def test_a_directory_that_cannot_be_listed_is_no_empty_one(fresh_job):
    fresh_job.attempts.rmdir()
    with pytest.raises(OSError):
        check_fence(fresh_job, 1)


def test_the_journal_is_read_back(job):
    journal = Journal(job, 1)
    journal.write("started", how="fresh", step=0)
    other = Journal(job, 1)
    other.write("ended", outcome="killed")
    journal.write("committed", step=5)
    journal.close()
    other.close()
    assert [(e.kind, e.data) for e in read_events(job, 1)] == [
        ("started", {"how": "fresh", "step": 0}),
        ("ended", {"outcome": "killed"}),
        ("committed", {"step": 5}),
    ]
    assert read_events(job, 2) == []


def test_a_torn_line_is_passed_over(job):
    path = job.attempts / layout.events_file(1)
    path.write_bytes(b'{"kind":"started","at":1.0}\n{"kind":"commit')
    assert [e.kind for e in read_events(job, 1)] == ["started"]


def test_a_journal_that_cannot_be_written_stops_nobody(job):
    (job.attempts / layout.events_file(1)).mkdir()
    journal = Journal(job, 1)
    journal.write("started")
    assert isinstance(journal.failure, OSError)
    journal.close()
    assert read_events(job, 1) == []
