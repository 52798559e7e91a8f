"""What a program and its keeper do when something is short: an answer, the line between them, the device, memory,
descriptors, the very directory. Each is bounded, said, and followed by the same end."""

import ctypes
import errno
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from faults import groups, lossyfs
from faults.lossyfs import LossyFS
from faults.nursery import Nursery
from faults.practice import SIGKILLED, Practice
from keeper.ranks import LIMIT_S, until
from lastgood.core.errors import StorageError
from lastgood.keeper.memory import _RESERVE_BYTES
from lastgood.store.attempts import attempt_numbers, read_events
from lastgood.store.jobdir import open_job

pytestmark = pytest.mark.slow
needs_fuse = pytest.mark.skipif(not lossyfs.is_available(), reason="needs /dev/fuse and mfusepy")
needs_groups = pytest.mark.skipif(not groups.is_available(), reason="needs a memory cgroup of its own")

Count = Callable[[int, str], None]
FEW = {"total": 24, "every": 2, "pause_s": 0.02, "floats": 50_000}
HELD_AT = 12
"""The step in which one of these waits while something is done to it: late enough to have saved."""


@pytest.fixture(scope="module")
def expected(gym: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """What an undisturbed run with these settings learns."""
    known: dict[str, str] = {}

    def of(**settings: object) -> str:
        key = repr(sorted(settings.items()))
        if key not in known:
            practice = Practice(gym, tmp_path_factory.mktemp("undisturbed") / "it", **settings)
            assert practice.run() == 0
            known[key] = practice.result()
        return known[key]

    return of


@pytest.fixture(scope="module")
def fs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LossyFS]:
    with lossyfs.mounted(tmp_path_factory.mktemp("slow") / "mnt") as fs:
        yield fs


# A keeper that does not answer ---------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [2, "20ms"])
def test_a_keeper_that_is_frozen_holds_nobody_up_without_end(
    gym: Nursery, tmp_path: Path, expected: Callable[..., str], every: object
) -> None:
    practice = Practice(gym, tmp_path / "job", **FEW | {"every": every, "rank_limit": "2s"})
    practice.start(holds_at=HELD_AT)
    # Saves by time are put off while the keeper is busy: there may be one only.
    until(lambda: practice.newest() > 0)
    keeper = practice.keeper()
    os.kill(keeper, signal.SIGSTOP)
    until(lambda: psutil.Process(keeper).status() == psutil.STATUS_STOPPED)
    frozen = practice.newest()
    said = practice.said("is still being written after 2 s") + practice.said("was not written within 2 s")
    practice.let_go()
    try:
        assert practice.wait() == StorageError.exit_code
    finally:
        os.kill(keeper, signal.SIGCONT)
    assert practice.note().done >= FEW["total"] - 1, "the loop went on to its end"
    assert practice.said("is still being written after 2 s") + practice.said("was not written within 2 s") > said
    # What it had been given it writes when it wakes up.
    until(lambda: practice.newest() > frozen)
    # This time it is only slow.
    assert practice.run(rank_limit="100s") == 0
    assert practice.result() == expected(**FEW)
    practice.assert_nothing_is_left()


def test_a_keeper_that_is_frozen_when_an_attempt_begins_is_done_without(
    gym: Nursery, tmp_path: Path, expected: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    practice = Practice(gym, tmp_path / "job", **FEW)
    practice.start(holds_at=HELD_AT)
    until(lambda: practice.newest() >= 4)
    assert practice.kill()
    keeper = practice.keeper()
    os.kill(keeper, signal.SIGSTOP)
    try:
        assert practice.run(answer_s=1.0) == 0
        assert practice.said("no keeper (timed out): the loop stands still while a checkpoint is written") == 1
        assert practice.result() == expected(**FEW)
    finally:
        os.kill(keeper, signal.SIGKILL)
    practice.assert_nothing_is_left()


# The line between them -----------------------------------------------------------------------------------------


def cut_line(pid: int) -> bool:
    """Shut down the connection of a program to its keeper, as a third party; False if it has none now."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(pid)
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                if not os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
                    continue
            except FileNotFoundError:
                continue  # closed since
            fd = libc.syscall(438, process, int(name), 0)  # pidfd_getfd
            if fd < 0 and ctypes.get_errno() in (errno.EPERM, errno.ENOSYS):
                pytest.skip("sockets of others cannot be had here")
            if fd < 0:
                assert ctypes.get_errno() == errno.EBADF, os.strerror(ctypes.get_errno())
                continue
            with socket.socket(fileno=fd) as link:
                if b"lastgood-keeper" in (link.getpeername() or b""):
                    link.shutdown(socket.SHUT_RDWR)
                    return True
    finally:
        os.close(process)
    return False


def test_a_line_that_is_cut_is_made_again_and_nothing_is_lost(
    gym: Nursery, tmp_path: Path, expected: Callable[..., str], count_points: Count
) -> None:
    practice = Practice(gym, tmp_path / "job", **FEW | {"total": 100})
    # However late a cut comes, it is not past the next of these.
    holds = list(range(8, 88, 8))
    practice.start(holds_at=holds)
    until(lambda: practice.newest() >= 2)
    keeper = practice.keeper()
    cuts = enough = 0
    for hold in holds[:-1]:
        practice.let_go(hold)
        # It has met the cut before, and is connected again.
        until(lambda enough=enough: practice.note().done >= enough)
        cuts += cut_line(practice.pid)
        enough = practice.note().done + 4
    practice.let_go()
    assert practice.wait() == 0
    count_points(cuts, "connections cut")
    assert cuts > 5
    assert len(practice.events("keeper_lost")) == cuts
    assert practice.said(f"the keeper (process {keeper}) is lost") == practice.said("it is connected again") == cuts
    assert practice.events("save_failed") == []
    assert practice.result() == expected(**FEW | {"total": 100})
    practice.assert_nothing_is_left()


# The device ----------------------------------------------------------------------------------------------------


@needs_fuse
@pytest.mark.parametrize("every", [2, "20ms"])
def test_on_a_slow_device_saves_by_time_are_put_off_and_others_wait(
    gym: Nursery, tmp_path: Path, fs: LossyFS, expected: Callable[..., str], every: object
) -> None:
    fs.reset()
    settings = FEW | {"every": every, "floats": 500_000, "total": 30}
    practice = Practice(gym, tmp_path / "job", **settings)
    practice.job = fs.path / "job"
    # It becomes slow when there is a save, and is so until the end is near, whoever is slow besides.
    practice.start(holds_at=[6, 26])
    until(lambda: practice.newest() >= 1)
    fs.slow_down(0.03 if every == 2 else 0.2)
    practice.let_go(6)
    keeper, program = psutil.Process(practice.keeper()), psutil.Process(practice.pid)
    before = [(p.memory_info().rss, p.num_fds(), p.num_threads()) for p in (keeper, program)]
    most = [(0, 0, 0), (0, 0, 0)]
    while practice.note().done < 25:
        now = [(p.memory_info().rss, p.num_fds(), p.num_threads()) for p in (keeper, program)]
        most = [tuple(map(max, zip(a, b, strict=True))) for a, b in zip(most, now, strict=True)]  # type: ignore[misc]
        time.sleep(0.02)
    slow_at = practice.note()
    fs.slow_down(0)
    practice.let_go(26)
    assert practice.wait() == 0
    saves = [e.data["step"] for e in practice.events("committed")]
    if every == 2:
        assert saves == list(range(2, 31, 2)), "none was left out"
    else:
        assert len(saves) < 15, "they were put off"
    assert slow_at.taken - slow_at.committed <= 2 * (2 if every == 2 else 30)
    for (rss, fds, threads), (most_rss, most_fds, most_threads) in zip(before, most, strict=True):
        # Two snapshots, which a process that reads or writes them has mapped; files and threads of one write.
        assert most_rss < rss + 2 * 8 * 500_000 + 16 * 2**20
        assert most_fds <= fds + 6 and most_threads <= threads + 4
    assert practice.result() == expected(**FEW | {"floats": 500_000, "total": 30})
    practice.assert_nothing_is_left()


DIES_ONCE = """
import os, signal
import numpy as np
import lastgood

run = lastgood.Run({"x": np.zeros(2_000_000)}, every=2)
began_at = run.step
for step in run.steps(4):
    if step == 3 and began_at == 0:
        os.kill(os.getpid(), signal.SIGKILL)
"""


@needs_fuse
def test_what_starts_a_program_again_below_the_launcher_waits_for_its_newest_snapshot(
    tmp_path: Path, fs: LossyFS
) -> None:
    fs.reset()
    program = tmp_path / "train.py"
    program.write_text(DIES_ONCE)
    twice = ["sh", "-c", '"$0" "$1"; "$0" "$1"', sys.executable, str(program)]
    fs.slow_down(0.03)
    launched = [sys.executable, "-m", "lastgood", "run", "--job", str(fs.path / "job"), "--", *twice]
    done = subprocess.run(launched, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    fs.slow_down(0)
    assert done.returncode == 0, done.stderr
    job = open_job(fs.path / "job")
    events = [event for number in attempt_numbers(job) for event in read_events(job, number)]
    assert [event.data["step"] for event in events if event.kind == "started"] == [0, 2]
    assert [event.data["step"] for event in events if event.kind == "committed"] == [2, 4]


# Memory --------------------------------------------------------------------------------------------------------

LARGE = FEW | {"floats": 4_000_000, "total": 8, "every": 2}
FILE_BYTES = 8 * 4_000_000


@needs_groups
@pytest.mark.parametrize(
    ("share", "slots", "said"),
    [
        (2.6, 2, ""),
        (1.5, 1, "memory for one snapshot instead of two ("),
        (0.5, 0, "no memory for a snapshot ("),
    ],
)
def test_as_many_snapshots_are_held_as_a_group_has_memory_for(
    gym: Nursery, tmp_path: Path, expected: Callable[..., str], share: float, slots: int, said: str
) -> None:
    practice = Practice(gym, tmp_path / "job", **LARGE | {"pause_s": 0.5})
    with groups.limited() as group:
        # Its memory is measured when it has all of it but the snapshots, which it takes after its first step.
        practice.start(prepared=group.add, holds_at=1)
        group.limit(group.usage() + _RESERVE_BYTES + int(share * FILE_BYTES))
        practice.let_go()
        assert practice.wait() == 0
        until(lambda: practice.events("finished"))
        assert [e.data["slots"] for e in practice.events("snapshots")][:1] == [slots]
        assert practice.result() == expected(**LARGE)
        assert [e.data["step"] for e in practice.events("committed")] == [2, 4, 6, 8]
        practice.assert_nothing_is_left()
    if said:
        assert practice.said(said) >= 1
        (line,) = {line for line in practice.errors().splitlines() if said in line}
        assert "MB are free for this rank, a snapshot takes 32 MB" in line.replace("32.0", "32")


@needs_groups
def test_a_program_that_is_killed_for_its_memory_leaves_its_snapshot_to_the_next(
    gym: Nursery, tmp_path: Path, expected: Callable[..., str]
) -> None:
    practice = Practice(gym, tmp_path / "job", **LARGE | {"pause_s": 0.1})
    with groups.limited() as group:
        practice.start(prepared=group.add, eats_in=7, holds_at=7)
        until(lambda: practice.newest() >= 4)
        keeper = practice.keeper()
        group.limit(group.usage() + 300 * 2**20)
        practice.let_go()
        assert practice.wait() == SIGKILLED
        assert practice.note().done == 6
        assert practice.keeper() == keeper, "the keeper lives"
        practice.start()
        started = practice.events("started")[-1].data
        assert (started["step"], started["is_from_memory"]) == (6, True)
        assert practice.wait() == 0
        assert practice.result() == expected(**LARGE)
        practice.assert_nothing_is_left()


# Limits of the process -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"RLIMIT_NOFILE": 64}, ""),
        ({"RLIMIT_MEMLOCK": 0}, ""),
        ({"RLIMIT_CORE": 0, "RLIMIT_STACK": 2**20}, ""),
        ({"RLIMIT_FSIZE": 2**20}, "no shared memory of "),
    ],
    ids=str,
)
def test_limits_of_the_process_are_no_reason_to_lose_anything(
    gym: Nursery, tmp_path: Path, expected: Callable[..., str], limits: dict[str, int], said: str
) -> None:
    practice = Practice(gym, tmp_path / "job", **FEW)
    assert practice.run(limits=limits) == 0
    assert practice.result() == expected(**FEW)
    assert not said or practice.said(said) == 1
    practice.assert_nothing_is_left()


def test_address_space_that_is_too_small_for_snapshots_is_said(
    gym: Nursery, tmp_path: Path, expected: Callable[..., str]
) -> None:
    practice = Practice(gym, tmp_path / "job", **LARGE | {"pause_s": 0.5})
    practice.start(holds_at=1)
    now = psutil.Process(practice.pid).memory_info().vms
    resource.prlimit(practice.pid, resource.RLIMIT_AS, (now + FILE_BYTES + 2**24, now + FILE_BYTES + 2**24))
    practice.let_go()
    assert practice.wait() == 0
    assert practice.said("no shared memory of ") == 1
    assert practice.result() == expected(**LARGE)
    practice.assert_nothing_is_left()


# The directory -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["renamed", "removed"])
def test_a_directory_that_vanishes_is_not_made_again_by_the_keeper(gym: Nursery, tmp_path: Path, how: str) -> None:
    practice = Practice(gym, tmp_path / "job", **FEW)
    practice.start(holds_at=HELD_AT)
    until(lambda: practice.newest() >= 4)
    away = tmp_path / "away"
    practice.job.rename(away)
    if how == "removed":
        shutil.rmtree(away)
    practice.let_go()
    assert practice.wait() == StorageError.exit_code
    assert not practice.job.exists()
    if how == "renamed":
        practice.job = away
        assert practice.committed()[0] >= 4
        assert practice.run() == 0
    practice.assert_nothing_is_left()
