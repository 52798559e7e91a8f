"""The keeper as a process: what it holds for whom, what outlives whom, and when it goes."""

import os
import signal
import subprocess
from collections.abc import Callable

import pytest

from keeper.conftest import StartKeeper
from keeper.ranks import Rank, until
from lastgood.store.catalogue import list_checkpoints
from lastgood.store.jobdir import JobDirectory
from lastgood.store.reader import open_checkpoint

pytestmark = pytest.mark.slow

Process = subprocess.Popen[bytes]
NewRank = Callable[..., Rank]


def committed(job: JobDirectory) -> list[int]:
    """Steps, newest first, of checkpoints that are whole."""
    names = [c.name for c in list_checkpoints(job) if c.is_committed]
    assert all(open_checkpoint(job, name).verify() == [] for name in names)
    return [int(name.split("-")[0]) for name in names]


def test_a_snapshot_becomes_a_checkpoint(job: JobDirectory, keeper: Process, new_rank: NewRank) -> None:
    rank = new_rank()
    rank.commit(3)
    rank.commit(5)
    assert committed(job) == [5, 3]
    assert [type(e).__name__ for e in rank.events if e.step == 3] == ["Written", "Committed", "Cleared"]


def test_an_order_is_done_although_who_gave_it_died_without_reading_its_news(
    job: JobDirectory, start: StartKeeper, new_rank: NewRank
) -> None:
    # A connection with unread news in it is reset, not closed: what else is in it must not be lost with that.
    process = start()
    rank = new_rank()
    rank.save(1)
    until(lambda: committed(job) == [1])
    os.kill(process.pid, signal.SIGSTOP)
    rank.save(2)
    rank.die()
    os.kill(process.pid, signal.SIGCONT)
    assert process.wait(30) == 0
    assert committed(job) == [2, 1]
