"""Pressure on the machine: as much as was asked for, measured, and gone with the drill."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from lastgood.core.errors import UsageError
from lastgood.drill.load import Load, Pressure, parse_load

GIB = 2**30


def of_load(parent: int) -> set[int]:
    """Those below this process: another worker of pytest may be making load at the same time."""
    found = set()
    for process in psutil.Process(parent).children(recursive=True):
        try:
            if "lastgood.drill.load_worker" in process.cmdline():
                found.add(process.pid)
        except psutil.Error:
            continue
    return found


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(true: Callable[[], object], what: str) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def test_what_is_left_out_is_sized_by_the_machine() -> None:
    assert parse_load("cpu,memory,io", cores=6, available_bytes=8 * GIB) == Load(6, 2 * GIB, True)
    assert parse_load("io", cores=6, available_bytes=8 * GIB) == Load(0, 0, True)
    assert parse_load("memory=1GiB,cpu=2", cores=6, available_bytes=8 * GIB) == Load(2, GIB, False)


@pytest.mark.parametrize("text", ["", "disk", "cpu=0", "cpu=many", "cpu=", "cpu=1,cpu=2", "memory=lots", "io=1"])
def test_what_is_no_load_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_load(text, cores=2, available_bytes=GIB)


def test_more_memory_than_is_free_is_refused_and_says_how_much_is() -> None:
    with pytest.raises(UsageError, match=r"of this machine's memory 1\.07 GB are free"):
        parse_load("memory=1GiB", cores=2, available_bytes=GIB)


@pytest.mark.slow
def test_it_takes_what_was_asked_for_and_says_so(tmp_path: Path) -> None:
    with Pressure(Load(cpu=1, memory_bytes=50 * 2**20, io=True), tmp_path) as pressure:
        mine = of_load(os.getpid())
        assert len(mine) == 3
        assert {psutil.Process(pid).nice() for pid in mine} == {psutil.Process().nice()}, "at normal priority"
        wait_until(lambda: sum(psutil.Process(pid).cpu_times().user for pid in mine) > 0.2, "nothing is computed")
    assert pressure.done is not None
    assert pressure.done.cpu_s > 0.2
    assert pressure.done.memory_bytes >= 50 * 2**20
    assert pressure.done.written_bytes >= 2**20
    assert not [pid for pid in mine if psutil.pid_exists(pid)]
    assert list(tmp_path.iterdir()) == [], "its file is gone, too"


@pytest.mark.slow
def test_it_ends_with_a_drill_that_is_killed(tmp_path: Path) -> None:
    text = (
        "import time\nfrom pathlib import Path\nfrom lastgood.drill.load import *\n"
        f"with Pressure(Load(cpu=1, memory_bytes=2**20), Path({str(tmp_path)!r})):\n"
        "    print('pressed', flush=True)\n    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"pressed\n"
        mine = of_load(process.pid)
        assert len(mine) == 2
        process.send_signal(signal.SIGKILL)
    wait_until(lambda: not any(map(is_alive, mine)), "it makes load although nobody wants it any more")
