"""Signals to the launcher reach every process of the command, whatever stands in between."""

import signal
import sys
import time
from pathlib import Path

import pytest

from .conftest import Launcher, wait_for

pytestmark = pytest.mark.slow

SAVER = """
import os, signal, sys, time
name = sys.argv[1]
if "setsid" in sys.argv:
    os.setsid()
def note(number, frame):
    print(f"{name} got {signal.Signals(number).name}", flush=True)
    if number != signal.SIGUSR2:
        time.sleep(0.3)  # a save takes a while
        print(f"{name} saved", flush=True)
        sys.exit(75)
for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT):
    signal.signal(number, note)
print(f"{name} ready", flush=True)
while True:
    time.sleep(0.05)
"""


@pytest.fixture
def saver(script) -> Path:
    return script("saver.py", SAVER)


def commands(saver: Path, directory: Path) -> dict[str, list[str]]:
    shell = directory / "job.sh"
    shell.write_text(f'#!/bin/sh\n"{sys.executable}" "{saver}" it\necho "the shell saw $?"\n')
    shell.chmod(0o755)
    program = f'"{sys.executable}" "{saver}" it'
    return {
        "directly": [sys.executable, str(saver), "it"],
        "behind bash -c": ["bash", "-c", f"{program}; true"],
        "behind a script without exec": [str(shell)],
        "in the background of a shell": ["bash", "-c", f"{program} & wait"],
        "in a session of its own": ["bash", "-c", f"{program} setsid; true"],
        "behind two shells": ["sh", "-c", f"bash -c '{program} setsid; true'; true"],
    }


@pytest.mark.parametrize(
    "where",
    [
        "directly",
        "behind bash -c",
        "behind a script without exec",
        "in the background of a shell",
        "in a session of its own",
        "behind two shells",
    ],
)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 75), (signal.SIGUSR1, 75), (signal.SIGINT, 130)])
def test_a_stop_signal_reaches_the_program_and_it_gets_time_to_save(
    launcher: Launcher, saver: Path, tmp_path: Path, where: str, number: int, code: int
) -> None:
    process = launcher.start(*commands(saver, tmp_path)[where])
    launcher.wait_for_output("it ready")
    process.send_signal(number)
    ended = launcher.end_of(process)
    assert "it got SIG" in ended.out
    assert "it saved" in ended.out
    assert ended.code == code
    assert launcher.outcomes() == ["cancelled" if number == signal.SIGINT else "preempted"]
    if number != signal.SIGINT:
        # A shell reacts to SIGINT only after its child has ended, and keeps that child's exit code to itself.
        assert "saved and stopped" in launcher.event(1, "ended")["reason"]


@pytest.mark.parametrize("where", ["directly", "behind bash -c", "in a session of its own"])
def test_sigusr2_asks_to_save_and_everything_carries_on(
    launcher: Launcher, saver: Path, tmp_path: Path, where: str
) -> None:
    process = launcher.start(*commands(saver, tmp_path)[where])
    launcher.wait_for_output("it ready")
    process.send_signal(signal.SIGUSR2)
    launcher.wait_for_output("it got SIGUSR2")
    assert process.poll() is None
    assert len(launcher.survivors()) >= 2
    process.send_signal(signal.SIGTERM)
    assert launcher.end_of(process).code == 75


def test_a_lost_terminal_asks_to_save_and_stop(launcher: Launcher, saver: Path) -> None:
    process = launcher.start(sys.executable, saver, "it")
    launcher.wait_for_output("it ready")
    process.send_signal(signal.SIGHUP)
    ended = launcher.end_of(process)
    assert "it got SIGTERM" in ended.out
    assert ended.code == 75


def test_under_nohup_a_lost_terminal_changes_nothing(launcher: Launcher, saver: Path) -> None:
    def ignore_hangups() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    process = launcher.start(sys.executable, saver, "it", preexec_fn=ignore_hangups)
    launcher.wait_for_output("it ready")
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGUSR2)
    launcher.wait_for_output("it got SIGUSR2")
    assert "SIGTERM" not in launcher.output()
    process.send_signal(signal.SIGTERM)
    assert launcher.end_of(process).code == 75


DEAF = """
import os, signal, subprocess, sys, time
for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN if "ignore" in sys.argv else lambda *_: None)
if "child" not in sys.argv:
    subprocess.Popen([sys.executable, __file__, "child"], start_new_session=True)
print("deaf", flush=True)
while True:
    time.sleep(0.05)
"""


def test_after_the_grace_time_everything_is_killed(launcher: Launcher, script) -> None:
    process = launcher.start("--grace", "500ms", "--", sys.executable, script("deaf.py", DEAF))
    wait_for(lambda: launcher.output().count("deaf") == 2)
    process.send_signal(signal.SIGTERM)
    ended = launcher.end_of(process)
    assert ended.code == 75
    assert "grace time is over" in ended.err
    assert "did not stop within the grace time" in launcher.event(1, "ended")["reason"]
    assert launcher.survivors() == []


def test_a_second_ctrl_c_ends_the_grace_time_and_says_so(launcher: Launcher, script) -> None:
    process = launcher.start("--grace", "10min", "--", sys.executable, script("deaf.py", DEAF), "ignore")
    wait_for(lambda: launcher.output().count("deaf") == 2)
    process.send_signal(signal.SIGINT)
    launcher.wait_for_output("Ctrl-C again", "err")
    process.send_signal(signal.SIGINT)
    ended = launcher.end_of(process)
    assert ended.code == 130
    assert "no more grace" in ended.err


def test_a_stop_between_two_attempts_starts_no_other(launcher: Launcher) -> None:
    process = launcher.start("bash", "-c", "kill -9 $$")
    # The fifth of the delays, which grow, leaves time to ask for a stop within it.
    launcher.wait_for_output("restarting in 16 s", "err")
    process.send_signal(signal.SIGTERM)
    assert launcher.end_of(process).code == 75
    assert len(launcher.outcomes()) == 5


TIME_LIMITED = "import time\nprint('ready', flush=True)\ntime.sleep(600)\n"


def test_a_time_limit_stops_the_command_before_it_and_asks_to_be_run_again(launcher: Launcher, script) -> None:
    ended = launcher.run("--time-limit", "15s", "--", sys.executable, script("sleep.py", TIME_LIMITED))
    assert ended.code == 75
    assert launcher.outcomes() == ["time limit"]


def test_the_end_of_a_slurm_allocation_is_known_from_the_environment(launcher: Launcher, script) -> None:
    launcher.environment["SLURM_JOB_END_TIME"] = str(int(time.time()) + 20)
    ended = launcher.run("--grace", "1s", "--", sys.executable, script("sleep.py", TIME_LIMITED))
    assert ended.code == 75
    assert launcher.outcomes() == ["time limit"]


def test_an_allocation_that_is_over_starts_nothing(launcher: Launcher) -> None:
    launcher.environment["SLURM_JOB_END_TIME"] = "1000000"
    ended = launcher.run("echo", "ran")
    assert (ended.code, ended.out) == (75, "")
    assert "no room for an attempt" in ended.err
    assert launcher.outcomes() == []
