"""A job that stands still is noticed, shows where, and is ended."""

import sys
from pathlib import Path

import pytest

from .conftest import Launcher
from .programs import LOOP, STAND_STILL

pytestmark = pytest.mark.slow

LIMIT = "10s"
"""Longer than a busy machine keeps a process from running that is not to count as one that stands still."""


@pytest.fixture
def still(script) -> Path:
    return script("still.py", STAND_STILL)


def both_ranks(still: Path, *words: str) -> str:
    ranks = [f'"{sys.executable}" "{still}" {rank} both {word}' for rank, word in enumerate(words or ("", ""))]
    return f"{ranks[0]} & {ranks[1]}; wait"


def test_a_hang_leaves_every_ranks_stacks_in_the_log_before_it_is_ended(launcher: Launcher, still: Path) -> None:
    command = ["--hang-timeout", LIMIT, "--no-restart", "--", "bash", "-c", both_ranks(still)]
    ended = launcher.run(*command)
    assert ended.code != 0
    assert launcher.outcomes() == ["hang"]
    assert "rank 0 has stood still for" in ended.err
    assert 'after step 2 in phase "step" (limit 10 s)' in launcher.event(1, "ended")["reason"]
    assert launcher.log.count("in waits_for_a_rank_that_never_comes") == 2
    assert launcher.event(1, "hang")["ranks"] == [0, 1]


def test_one_silent_rank_is_enough_and_is_named(launcher: Launcher, still: Path) -> None:
    ended = launcher.run("--hang-timeout", LIMIT, "--no-restart", "--", "bash", "-c", both_ranks(still, "moving", ""))
    assert launcher.outcomes() == ["hang"]
    assert "rank 1 has stood still" in ended.err


def test_a_hang_without_progress_is_restarted_once_and_then_given_up(launcher: Launcher, script) -> None:
    program = script("loop.py", LOOP)
    ended = launcher.run(
        "--hang-timeout", LIMIT, "--", sys.executable, program, 30, "1:7:sleep", "2:8:sleep", "3:7:sleep"
    )
    assert ended.code == 82
    assert launcher.outcomes() == ["hang", "hang", "hang"]
    assert launcher.event(2, "started")["step"] == 5
    assert 'File "' in launcher.log
    assert "loop.py" in launcher.log


def test_what_a_program_does_after_its_last_step_is_no_hang(launcher: Launcher, still: Path) -> None:
    ended = launcher.run("--hang-timeout", LIMIT, "--", sys.executable, still, 0, "finished")
    assert (ended.code, launcher.outcomes()) == (0, ["finished"])


def test_hang_detection_can_be_switched_off(launcher: Launcher, still: Path) -> None:
    ended = launcher.run("--hang-timeout", "off", "--time-limit", "15s", "--", sys.executable, still, 0)
    assert (ended.code, launcher.outcomes()) == (75, ["time limit"])


def test_a_command_without_heartbeats_is_judged_by_its_output_if_a_limit_is_given(launcher: Launcher) -> None:
    ended = launcher.run("--hang-timeout", LIMIT, "--no-restart", "--", "bash", "-c", "echo begun; sleep 600")
    assert launcher.outcomes() == ["hang"]
    assert "no heartbeat, and no output for" in ended.err


def test_a_command_that_keeps_talking_does_not_hang(launcher: Launcher) -> None:
    talk = "for i in $(seq 12); do echo $i; sleep 1; done"
    assert launcher.run("--hang-timeout", LIMIT, "--", "bash", "-c", talk).code == 0
