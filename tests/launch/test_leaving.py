"""A job's lock that a start has which the scheduler gave up, and a launcher that is fenced."""

from pathlib import Path

import pytest

from lastgood.core.errors import FencedError, JobBusyError
from lastgood.launch.inbox import SignalInbox
from lastgood.launch.leaving import Leaving
from lastgood.launch.output import Console, JobLog
from lastgood.launch.ports import Left
from lastgood.launch.takeover import take_lock
from lastgood.schedulers.local import LocalScheduler
from lastgood.store.jobdir import JobDirectory
from lastgood.store.lock import lock_job


class Counting(LocalScheduler):
    """What it was asked to do with the queue."""

    def __init__(self) -> None:
        super().__init__({}, time_limit_s=None, started=0.0)
        self.ended: list[int] = []

    def end(self, exit_code: int) -> Left:
        self.ended.append(exit_code)
        return Left(exit_code)


@pytest.fixture
def console(job: JobDirectory) -> Console:
    return Console(JobLog(job.log))


def test_a_launcher_that_is_fenced_leaves_the_queue_alone(job: JobDirectory, console: Console) -> None:
    scheduler = Counting()
    leaving = Leaving(job, scheduler, console)
    assert leaving.end("not started again", FencedError.exit_code) == FencedError.exit_code
    assert scheduler.ended == []
    assert leaving.end("not started again", 1) == 1
    assert scheduler.ended == [1]


def test_a_start_that_was_given_up_does_not_keep_the_job_from_going_on(job: JobDirectory, console: Console) -> None:
    with lock_job(job) as held, SignalInbox() as inbox:
        with pytest.raises(JobBusyError):
            take_lock(job, 1.0, console, inbox)
        with take_lock(job, 1.0, console, inbox, lambda: True) as lock:
            assert held.is_held and not lock.is_held
    assert "going on; it can commit nothing any more" in Path(job.log).read_text()


def test_a_lock_that_nobody_has_is_taken_whatever_was_given_up(job: JobDirectory, console: Console) -> None:
    with SignalInbox() as inbox, take_lock(job, 1.0, console, inbox, lambda: True) as lock:
        assert lock.is_held
