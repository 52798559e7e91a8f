"""The keeper under a launcher: it outlives programs, is replaced when it dies, and is gone with all else at the end,
whoever is killed."""

import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keeper.leftovers import keepers_of
from lastgood.keeper import client
from lastgood.launch import keeping
from lastgood.store.jobdir import create_job
from launch.conftest import Launcher, wait_for

pytestmark = pytest.mark.slow

PROGRAM = """
import os, signal, time
import numpy as np
import lastgood

x = np.zeros(50_000)
run = lastgood.Run({"x": x}, every=2)
for step in run.steps(60):
    x += step
    print(f"step {step} of process {os.getpid()}", flush=True)
    if step in DIES and step > run._session._began_at + 1:
        # Whoever dies here is done with the snapshot of the step before.
        os.kill(os.getpid(), signal.SIGKILL)
    while step in HOLDS and not os.path.exists("GO"):
        time.sleep(0.02)
    time.sleep(0.02)
print(f"done {int(x[0])}", flush=True)
"""
SUM = sum(range(1, 61))


@pytest.fixture
def program(script: Callable[[str, str], Path]) -> Callable[..., Path]:
    """It dies in the steps that are given; in the one that it holds at it waits for a file, see `let_go`."""

    def write(*dies: int, holds_at: int = 0) -> Path:
        return script("train.py", PROGRAM.replace("DIES", repr(dies)).replace("HOLDS", repr((holds_at,))))

    return write


@pytest.fixture(autouse=True)
def _at_once(launcher: Launcher) -> None:
    launcher.environment["LASTGOOD_KEEPER_LINGER"] = "5s"


def keeper_of(launcher: Launcher) -> int:
    wait_for(lambda: keepers_of(launcher.directory), "a keeper")
    return keepers_of(launcher.directory)[0].pid


def let_go(launcher: Launcher) -> None:
    (launcher.directory / "GO").touch()


def program_of(launcher: Launcher) -> int:
    found = re.findall(r"of process (\d+)", launcher.output())
    return int(found[-1])


def starts(launcher: Launcher) -> list[dict[str, Any]]:
    numbers = sorted(int(p.name[:4]) for p in (launcher.job / "attempts").glob("[0-9]*.json"))
    return [e["data"] for n in numbers for e in launcher.events(n) if e["kind"] == "started"]


def kinds(launcher: Launcher, attempt: int = 1) -> list[str]:
    return [e["kind"] for e in launcher.events(attempt)]


def committed(launcher: Launcher) -> int:
    """The newest step of the first attempt that is on storage."""
    return max((e["data"]["step"] for e in launcher.events(1) if e["kind"] == "committed"), default=0)


def await_nothing_left(launcher: Launcher) -> None:
    wait_for(lambda: not launcher.survivors(), "all to end")
    assert not keepers_of(launcher.directory)


def test_a_program_that_dies_again_and_again_goes_on_from_memory(
    launcher: Launcher, program: Callable[..., Path]
) -> None:
    process = launcher.start("--", sys.executable, program(11, 21, 31, holds_at=40))
    launcher.wait_for_output("step 1 ")
    keeper = keeper_of(launcher)
    launcher.wait_for_output("step 40 ")
    assert keeper_of(launcher) == keeper, "it is the same all the time"
    let_go(launcher)
    ended = launcher.end_of(process)
    assert ended.code == 0, ended.err
    assert f"done {SUM}" in ended.out
    found = starts(launcher)
    assert [start["step"] for start in found] == [0, 10, 20, 30]
    assert [start["is_from_memory"] for start in found] == [False, True, True, True]
    await_nothing_left(launcher)


def test_a_keeper_that_is_killed_is_replaced_by_the_launcher(launcher: Launcher, program: Callable[..., Path]) -> None:
    process = launcher.start("--", sys.executable, program(holds_at=40))
    launcher.wait_for_output("step 10 ")
    first = keeper_of(launcher)
    os.kill(first, signal.SIGKILL)
    launcher.wait_for_output("step 40 ")
    launcher.wait_for_output(f"the keeper (process {first}) has ended; starting another one", "err")
    second = keeper_of(launcher)
    assert second != first
    let_go(launcher)
    ended = launcher.end_of(process)
    assert ended.code == 0, ended.err
    assert f"done {SUM}" in ended.out
    assert f"the keeper (process {first}) is lost" in ended.err + ended.out
    assert kinds(launcher).count("keeper_lost") == 2, "by the launcher and by the program"
    assert "save_failed" not in kinds(launcher)
    await_nothing_left(launcher)


@pytest.mark.parametrize("also", ["", "keeper", "program", "keeper and program"])
def test_when_the_launcher_is_killed_all_is_saved_and_nothing_stays(
    launcher: Launcher, program: Callable[..., Path], also: str
) -> None:
    process = launcher.start("--", sys.executable, program(holds_at=20))
    launcher.wait_for_output("step 20 ")
    if also == "keeper and program":
        # Then nobody is left who could write the two snapshots that may still be on their way.
        wait_for(lambda: committed(launcher) >= 16, "a checkpoint that is not lost with them")
    os.kill(process.pid, signal.SIGKILL)
    if "keeper" in also:
        os.kill(keeper_of(launcher), signal.SIGKILL)
    if "program" in also:
        os.kill(program_of(launcher), signal.SIGKILL)
    process.wait()
    let_go(launcher)
    await_nothing_left(launcher)
    done = max(map(int, re.findall(r"step (\d+) of", launcher.output())))
    ended = launcher.run("--", sys.executable, program())
    assert ended.code == 0, ended.err
    assert f"done {SUM}" in ended.out
    resumed = starts(launcher)[-1]["step"]
    # It sees within a second that its launcher is gone, and saves; a keeper finishes the newest snapshot.
    assert resumed >= (done if not also else done - 4)
    await_nothing_left(launcher)
    assert not list(launcher.job.rglob("*.part")), "what was half written is swept by the next start"


def test_a_stop_of_the_launcher_stops_all_three_in_order(launcher: Launcher, program: Callable[..., Path]) -> None:
    process = launcher.start("--", sys.executable, program(holds_at=20))
    launcher.wait_for_output("step 20 ")
    process.send_signal(signal.SIGTERM)
    launcher.wait_for_output("SIGTERM", "err")
    let_go(launcher)
    ended = launcher.end_of(process)
    assert ended.code == 75, ended.err
    await_nothing_left(launcher)
    (stopping,) = (e["data"] for e in launcher.events(1) if e["kind"] == "stopping" and "step" in e["data"])
    assert stopping["step"] == stopping["saved_step"] >= 20
    assert launcher.run("--", sys.executable, program()).out.endswith(f"done {SUM}\n")


def test_a_keeper_that_is_frozen_is_not_waited_for_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    hold = keeping.KeeperHold(create_job(tmp_path / "job"), dict(os.environ), said.append)
    hold.start()
    hold.await_written(lambda: True)
    assert said == []
    for name, limit_s in (("_PATIENCE_S", 0.2), ("_LEAVE_S", 5.0), ("_CONNECT_S", 0.2)):
        monkeypatch.setattr(keeping, name, limit_s)
    monkeypatch.setattr(client, "ANSWER_LIMIT_S", 0.5)
    wait_for(lambda: keepers_of(tmp_path), "a keeper")
    (keeper,) = keepers_of(tmp_path)
    keeper.suspend()
    try:
        hold.await_written(lambda: True)
        hold.await_promoted(lambda: True)
        hold.close()
    finally:
        keeper.resume()
    assert said == [f"the keeper (process {keeper.pid}) does not answer; going on without it"]
    keeper.wait(180)
    assert hold._process is not None
    hold._process.wait(180)
