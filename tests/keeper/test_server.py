"""The keeper as a process: what it holds for whom, what outlives whom, and when it goes."""

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from descriptors import open_descriptors
from keeper.conftest import StartKeeper, at_rest, descriptors_of
from keeper.rank_program import RankProcess
from keeper.ranks import LIMIT_S, Rank, until
from lastgood.core.retention import Keep
from lastgood.core.writing import Writing
from lastgood.keeper import protocol
from lastgood.keeper.client import Keeper, NoKeeperError, RefusedError
from lastgood.keeper.protocol import Committed, Written
from lastgood.store.attempts import claim_attempt
from lastgood.store.catalogue import list_checkpoints
from lastgood.store.jobdir import JobDirectory, open_job
from lastgood.store.reader import open_checkpoint

pytestmark = pytest.mark.slow

Process = subprocess.Popen[bytes]
NewRank = Callable[..., Rank]


def committed(job: JobDirectory) -> list[int]:
    """Steps, newest first, of checkpoints that are whole."""
    names = [c.name for c in list_checkpoints(job) if c.is_committed]
    assert all(open_checkpoint(job, name).verify() == [] for name in names)
    return [int(name.split("-")[0]) for name in names]


def memory_of(pid: int) -> int:
    """How many pieces of our shared memory a process has open; each map holds a descriptor of its own."""
    return sum("memfd:lastgood" in name for name in descriptors_of(pid)) // 2


def is_gone(job: JobDirectory) -> bool:
    try:
        Keeper(job, limit_s=LIMIT_S).close()
    except NoKeeperError:
        return True
    return False


def test_a_snapshot_becomes_a_checkpoint(job: JobDirectory, keeper: Process, new_rank: NewRank) -> None:
    rank = new_rank()
    rank.commit(3)
    rank.commit(5)
    assert committed(job) == [5, 3]
    assert all(keeper.pid == rank.keeper.pid == standing.pid for standing in [rank.keeper.standing()])


def test_ranks_of_a_node_make_a_checkpoint_together(job: JobDirectory, keeper: Process, new_rank: NewRank) -> None:
    ranks = [new_rank(number, world_size=3) for number in range(3)]
    for rank in reversed(ranks):
        rank.save(4)
    ranks[0].hear(Committed, 4)
    for rank in ranks[1:]:
        rank.hear(Written, 4)
    assert committed(job) == [4]


# What outlives whom ------------------------------------------------------------------------------------------


def test_an_order_is_done_although_who_gave_it_died_without_reading_its_news(
    job: JobDirectory, keeper: Process, new_rank: NewRank
) -> None:
    # A connection with unread news in it is reset, not closed: what else is in it must not be lost with that.
    rank = new_rank()
    rank.save(1)
    until(lambda: committed(job) == [1])
    os.kill(keeper.pid, signal.SIGSTOP)
    rank.save(2)
    rank.die()
    os.kill(keeper.pid, signal.SIGCONT)
    assert keeper.wait(LIMIT_S) == 0
    assert committed(job) == [2, 1]


def test_an_order_is_done_although_news_of_another_could_not_be_told(
    job: JobDirectory, start: StartKeeper, new_rank: NewRank
) -> None:
    start(linger_s=3600.0)
    # Whoever died cannot be told of its first order while its second is still to be read.
    for turn in range(20):
        rank = new_rank(attempt=1)
        rank.save(2 * turn + 1)
        rank.save(2 * turn + 2)
        rank.die()
        until(lambda turn=turn: committed(job)[:2] == [2 * turn + 2, 2 * turn + 1])


def test_an_order_is_done_although_its_rank_was_killed(job: JobDirectory, keeper: Process) -> None:
    with RankProcess(job) as rank:
        rank.do("save 1")
        rank.do("save 2")
        rank.kill()
        assert keeper.wait(LIMIT_S) == 0
    assert committed(job) == [2, 1]


def test_a_snapshot_whose_copy_was_under_way_is_none(job: JobDirectory, start: StartKeeper) -> None:
    start(linger_s=LIMIT_S)
    with RankProcess(job) as rank:
        rank.do("commit 1")
        rank.do("commit 2")
        rank.do("copy 3 0")
        rank.kill()
    with Keeper_of(job) as other:
        assert other.lend(1, 1, 0) is None, "it was overwritten"
        assert other.lend(3, 1, 0) is None, "nobody said that it is whole"
        assert _closed(other.lend(2, 1, 0))


def test_memory_of_a_rank_that_died_is_held_for_a_while_and_then_nothing_is_left(
    job: JobDirectory, start: StartKeeper
) -> None:
    keeper = start(linger_s=12.0)
    with RankProcess(job) as rank:
        rank.do("commit 1")
        began = time.monotonic()
        rank.kill()
    assert memory_of(keeper.pid) == 2
    assert keeper.wait(LIMIT_S) == 0
    assert time.monotonic() - began >= 12.0
    assert is_gone(job)


def test_an_orderly_end_leaves_nothing_and_takes_no_time(job: JobDirectory, start: StartKeeper) -> None:
    keeper = start(linger_s=3600.0)
    with RankProcess(job) as rank:
        rank.do("commit 1")
        rank.do("bye")
        assert keeper.wait(LIMIT_S) == 0


def test_an_orderly_end_waits_for_what_is_still_to_be_written(
    job: JobDirectory, start: StartKeeper, new_rank: NewRank
) -> None:
    keeper = start(linger_s=3600.0)
    rank = new_rank(floats=300_000)
    rank.save(1)
    rank.save(2)
    rank.keeper.bye()
    assert keeper.wait(LIMIT_S) == 0
    assert committed(job) == [2, 1]


def test_one_rank_of_several_that_leaves_takes_nothing_from_the_others(
    job: JobDirectory, start: StartKeeper, new_rank: NewRank
) -> None:
    keeper = start(linger_s=3600.0)
    one, other = new_rank(0, world_size=2), new_rank(1, world_size=2)
    one.save(1)
    other.save(1)
    one.hear(Committed, 1)
    one.keeper.bye()
    until(lambda: memory_of(keeper.pid) == 2)
    assert _closed(other.keeper.lend(1, 1, 1))
    other.keeper.bye()
    assert keeper.wait(LIMIT_S) == 0


def test_who_connects_and_is_no_rank_keeps_it_alive(job: JobDirectory, start: StartKeeper) -> None:
    keeper = start(linger_s=0.0)
    launcher = Keeper(job)
    with RankProcess(job) as rank:
        rank.do("commit 1")
        rank.kill()
    time.sleep(1.0)
    assert keeper.poll() is None and memory_of(keeper.pid) == 2
    launcher.bye()
    assert keeper.wait(LIMIT_S) == 0


def test_a_stop_is_for_the_job_and_the_keeper_goes_with_the_last_who_is_connected(
    job: JobDirectory, start: StartKeeper, new_rank: NewRank
) -> None:
    keeper = start(linger_s=3600.0)
    rank = new_rank()
    rank.commit(1)
    keeper.terminate()
    rank.commit(2)
    rank.die()
    assert keeper.wait(LIMIT_S) == 0
    assert committed(job) == [2, 1]


def test_a_stop_while_nobody_is_connected_ends_it(job: JobDirectory, start: StartKeeper) -> None:
    keeper = start(linger_s=3600.0)
    with RankProcess(job) as rank:
        rank.do("commit 1")
    keeper.terminate()
    assert keeper.wait(LIMIT_S) == 0


@pytest.mark.parametrize("name", ["HUP", "INT", "QUIT", "USR1", "USR2", "ALRM", "XCPU", "TSTP", "TTIN", "TTOU"])
@pytest.mark.parametrize("when", ["while it starts", "later"])
def test_signals_to_all_processes_of_a_job_do_not_end_it(
    job: JobDirectory, start: StartKeeper, new_rank: NewRank, name: str, when: str
) -> None:
    keeper = start()
    if when == "later":
        new_rank().commit(1)
    keeper.send_signal(getattr(signal, f"SIG{name}"))
    rank = new_rank()
    rank.commit(2)
    assert keeper.poll() is None


def test_with_nobody_who_ever_comes_it_goes(
    job: JobDirectory, start: StartKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lastgood.keeper import server

    assert server.FIRST_CONTACT_S <= 30
    # It is the same as after the last has left: who never was a rank leaves nothing to wait for.
    keeper = start(linger_s=3600.0)
    Keeper(job).bye()
    assert keeper.wait(LIMIT_S) == 0


# Attempts ----------------------------------------------------------------------------------------------------


def test_the_next_attempt_takes_over_the_memory_of_one_that_is_dead(job: JobDirectory, start: StartKeeper) -> None:
    keeper = start(linger_s=3600.0)
    with RankProcess(job) as rank:
        rank.do("commit 5")
        rank.do("commit 6")
        rank.kill()
    link = Keeper(job, 0)
    arenas, held = link.take()
    assert sorted((one.step, one.attempt) for one in held) == [(5, 1), (6, 1)]
    fd = link.lend(6, 1, 0)
    assert fd is not None
    assert os.pread(fd, held[0].file_bytes, 0) == bytes(arenas[1].view[: held[0].file_bytes])
    os.close(fd)
    link.offer(arenas)
    until(lambda: memory_of(keeper.pid) == 2)
    for arena in arenas:
        arena.close()
    link.bye()


def test_an_elder_attempt_that_still_lives_keeps_its_memory_and_loses_its_place(
    job: JobDirectory, start: StartKeeper, new_rank: NewRank
) -> None:
    start(linger_s=3600.0)
    with RankProcess(job, attempt=1) as elder:
        elder.do("commit 5")
        os.kill(elder.pid, signal.SIGSTOP)
        claim_attempt(job, "launch-2")
        rank = new_rank(attempt=2)
        assert rank.keeper.take()[0] == [], "it may still write into its own"
        rank.commit(7)
        os.kill(elder.pid, signal.SIGCONT)
        elder.do("fill 255")
        assert elder.do("save 9").startswith("failed: ")
        rank.commit(8)
        assert bytes(rank.arenas[0].view[:1]) != b"\xff"
    assert committed(job) == [8, 7, 5]


def test_an_elder_attempt_is_lent_from_although_it_lives(
    job: JobDirectory, start: StartKeeper, new_rank: NewRank
) -> None:
    start(linger_s=3600.0)
    with RankProcess(job, attempt=1) as elder:
        elder.do("commit 5")
        os.kill(elder.pid, signal.SIGSTOP)
        with Keeper_of(job) as newer:
            assert _closed(newer.lend(5, 1, 0))


def test_orders_of_an_elder_attempt_are_not_told_to_the_newer_one(
    job: JobDirectory, start: StartKeeper, new_rank: NewRank
) -> None:
    keeper = start(linger_s=3600.0)
    elder = new_rank(attempt=1)
    os.kill(keeper.pid, signal.SIGSTOP)
    elder.save(5)
    elder.keeper.close()
    claim_attempt(job, "launch-2")
    os.kill(keeper.pid, signal.SIGCONT)
    newer = new_rank(attempt=2)
    newer.commit(5)
    newer.hear(Committed, 5)
    assert not [e for e in newer.events if isinstance(e, protocol.Failed)]


def test_memory_of_ranks_that_a_later_attempt_has_not_is_given_back_when_it_saves(
    job: JobDirectory, start: StartKeeper, new_rank: NewRank
) -> None:
    keeper = start(linger_s=3600.0)
    launcher = Keeper(job)
    with RankProcess(job, 0) as one, RankProcess(job, 1) as other:
        one.do("commit 1")
        other.do("save 1")
    until(lambda: memory_of(keeper.pid) == 4)
    claim_attempt(job, "launch-2")
    rank = new_rank(attempt=2)
    assert rank.keeper.standing().pid == keeper.pid, "it has come as far as this question, and so past the new slots"
    assert memory_of(keeper.pid) == 4
    rank.commit(2)
    until(lambda: memory_of(keeper.pid) == 2)
    launcher.close()


def test_an_order_of_a_rank_that_died_is_read_although_another_saves_meanwhile(
    job: JobDirectory, start: StartKeeper, new_rank: NewRank
) -> None:
    keeper = start(linger_s=3600.0)
    rank = new_rank(0, world_size=2)
    with RankProcess(job, 1, world_size=2) as other:
        other.do("copy 0 0")
        os.kill(keeper.pid, signal.SIGSTOP)
        rank.save(1)
        other.do("save 1")
    os.kill(keeper.pid, signal.SIGCONT)
    rank.hear(Committed, 1)
    assert committed(job) == [1]


def test_a_version_that_it_does_not_speak_is_refused_when_all_is_written(
    job: JobDirectory, start: StartKeeper, new_rank: NewRank, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = start(linger_s=3600.0)
    rank = new_rank(floats=600_000)
    rank.save(1, writing=Writing(limit="1MB/s"))
    rank.die()
    monkeypatch.setattr("lastgood.__version__", "99.0")
    with pytest.raises(NoKeeperError, match=r"the keeper is of version .*, the program of version 99\.0") as refused:
        Keeper(job, 0, drain_s=LIMIT_S)
    assert str(keeper.pid) in str(refused.value)
    assert committed(job) == [1]


def test_a_copy_of_a_job_is_another_job(
    job: JobDirectory, start: StartKeeper, new_rank: NewRank, tmp_path: Path
) -> None:
    # Its id is the same, and so is the name of its keeper.
    start(linger_s=3600.0)
    rank = new_rank()
    rank.commit(1)
    shutil.copytree(job.path, tmp_path / "copy")
    with pytest.raises(RefusedError, match=f"serves the job in {job.path}"):
        Keeper(open_job(tmp_path / "copy"), 0)
    rank.commit(2)
    assert committed(open_job(tmp_path / "copy")) == [1]


def test_a_job_that_was_renamed_is_not_looked_for_in_its_old_place(
    job: JobDirectory, start: StartKeeper, tmp_path: Path
) -> None:
    keeper = start(linger_s=3600.0)
    with RankProcess(job) as rank:
        rank.do("commit 1")
    job.path.rename(tmp_path / "moved")
    with pytest.raises(RefusedError):
        Keeper(open_job(tmp_path / "moved"), 0)
    assert keeper.wait(LIMIT_S) == 0, "nobody has any use for it"


def test_a_job_may_be_called_by_several_names(
    job: JobDirectory, start: StartKeeper, tmp_path: Path, new_rank: NewRank
) -> None:
    start(linger_s=3600.0)
    (tmp_path / "other name").symlink_to(job.path)
    link = Keeper(open_job(tmp_path / "other name"), 0)
    link.bye()


def test_who_only_looks_does_not_end_what_refuses_it(job: JobDirectory, start: StartKeeper, tmp_path: Path) -> None:
    keeper = start(linger_s=3600.0)
    with RankProcess(job) as rank:
        rank.do("commit 1")
    shutil.copytree(job.path, tmp_path / "copy")
    with pytest.raises(RefusedError):
        Keeper(open_job(tmp_path / "copy"))
    with Keeper_of(job) as link:
        assert _closed(link.lend(1, 1, 0))
    assert keeper.poll() is None


# Waiting -----------------------------------------------------------------------------------------------------


def test_draining_waits_for_all_orders_also_of_who_died_with_them_unread(
    job: JobDirectory, start: StartKeeper, new_rank: NewRank
) -> None:
    keeper = start(linger_s=3600.0)
    rank = new_rank(floats=300_000)
    next_start = Keeper(job)
    os.kill(keeper.pid, signal.SIGSTOP)
    for step in (1, 2):
        rank.save(step)
    rank.die()
    drained = threading.Thread(target=next_start.drain, args=(LIMIT_S,))
    drained.start()
    time.sleep(0.2)
    os.kill(keeper.pid, signal.SIGCONT)
    drained.join(LIMIT_S)
    assert committed(job) == [2, 1]
    next_start.close()


def test_draining_has_a_limit_and_may_be_tried_again(job: JobDirectory, start: StartKeeper, new_rank: NewRank) -> None:
    start(linger_s=3600.0)
    rank = new_rank(world_size=2)
    rank.save(1)
    link = Keeper(job)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            link.drain(0.2)
    other = new_rank(1, world_size=2)
    other.save(1)
    link.drain(LIMIT_S)
    assert committed(job) == [1]
    link.close()


def test_who_waits_for_all_to_be_written_makes_it_hurry(
    job: JobDirectory, start: StartKeeper, new_rank: NewRank
) -> None:
    start(linger_s=3600.0)
    rank = new_rank(floats=8_000_000)
    rank.save(1, writing=Writing(limit="1MB/s"))
    link = Keeper(job)
    link.drain(LIMIT_S)
    assert committed(job) == [1]
    link.close()


# Resources ---------------------------------------------------------------------------------------------------


def test_hundreds_of_saves_take_no_more_descriptors_and_no_more_memory(
    job: JobDirectory, keeper: Process, new_rank: NewRank
) -> None:
    rank = new_rank(floats=20_000)
    process = psutil.Process(keeper.pid)

    def save(steps: range) -> None:
        for step in steps:
            rank.commit(step, keep=Keep(last=2))
            assert _closed(rank.keeper.lend(step, 1, 0))
            assert rank.keeper.lend(step, 1, 1) is None
            Keeper(job).close()
            rank.events.clear()

    save(range(1, 51))
    until(lambda: at_rest(keeper.pid).count("socket:") == 2)
    descriptors, memory, mine = at_rest(keeper.pid), process.memory_info().rss, open_descriptors()
    save(range(51, 351))
    until(lambda: at_rest(keeper.pid) == descriptors)
    assert process.memory_info().rss < memory + 4 * 2**20
    assert not open_descriptors() - mine


def test_a_rank_that_comes_back_again_and_again_takes_no_more(
    job: JobDirectory, start: StartKeeper, new_rank: NewRank
) -> None:
    keeper = start(linger_s=3600.0)
    rank = new_rank()
    rank.commit(1)
    before = at_rest(keeper.pid)
    for step in range(2, 30):
        rank.keeper.close()
        rank.connect(job)
        rank.commit(step)
    until(lambda: at_rest(keeper.pid) == before)


def test_writers_are_idle_for_the_kernel_and_the_rest_is_not(
    job: JobDirectory, keeper: Process, new_rank: NewRank
) -> None:
    rank = new_rank(floats=8_000_000)
    rank.save(1, writing=Writing(limit="1MB/s", threads=3))
    until(lambda: _priorities(keeper.pid).count("idle") == 3)
    # Who commits must not wait for whatever else the machine writes.
    assert len(_priorities(keeper.pid)) == 3 + 4, "the main thread, a writer, a committer, one who clears up"
    with Keeper_of(job, rank=None) as link:
        link.drain(LIMIT_S)


def _priorities(pid: int) -> list[str]:
    """The I/O priorities of all threads, as ionice shows them."""
    shown = [
        subprocess.run(["ionice", "-p", thread], capture_output=True, text=True, check=False).stdout.strip()
        for thread in os.listdir(f"/proc/{pid}/task")
    ]
    return [priority for priority in shown if priority]


class Keeper_of:
    """A connection, closed on leaving."""

    def __init__(self, job: JobDirectory, rank: int | None = 0) -> None:
        self._link = Keeper(job, rank)

    def __enter__(self) -> Keeper:
        return self._link

    def __exit__(self, *error: object) -> None:
        self._link.close()


def _closed(fd: int | None) -> bool:
    """True for a descriptor, which is closed."""
    if fd is not None:
        os.close(fd)
    return fd is not None
