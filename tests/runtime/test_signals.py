"""Signals and time limits, in real processes: a flag, a safe point, a save, and the promised exit code."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import lastgood
from lastgood.store.attempts import read_events
from lastgood.store.jobdir import open_job
from runtime.conftest import both_ways, names
from runtime.zygote import Zygote

pytestmark = [pytest.mark.slow, both_ways]
HERE = "runtime.endings:"


def ask(programs: Zygote, program: str, path: Path, number: int, **arguments: object) -> tuple[int, str]:
    pid = programs.start(HERE + program, job=str(path), **arguments)
    programs.wait_for_output(pid, "ready")
    os.kill(pid, number)
    return programs.wait(pid), programs.output(pid)


def steps_saved(path: Path) -> list[int]:
    return sorted(int(name.split("-")[0]) for name in names(path))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 75), (signal.SIGUSR1, 75), (signal.SIGINT, 130)])
def test_a_stop_signal_saves_the_step_under_way_and_leaves(
    programs: Zygote, path: Path, number: signal.Signals, code: int
) -> None:
    ended, output = ask(programs, "asked_in_step", path, number)
    assert ended == code, output
    assert f"stopped after step 3 ({number.name}); saved step 3" in output
    assert steps_saved(path) == [3]
    stopping = [e.data for e in read_events(open_job(path), 1) if e.kind == "stopping"]
    assert [(s["cause"], s["step"]) for s in stopping] == [(number.name, 3)]


def test_usr2_saves_and_carries_on(programs: Zygote, path: Path) -> None:
    code, output = ask(programs, "asked_in_step", path, signal.SIGUSR2)
    assert (code, "done" in output, steps_saved(path)) == (0, True, [3, 6])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT])
def test_a_handler_that_was_there_before_is_called_too(programs: Zygote, path: Path, number: int) -> None:
    _, output = ask(programs, "asked_in_step", path, number, own_handler=True)
    assert f"own handler {int(number)}" in output
    assert 3 in steps_saved(path)


def test_a_signal_in_the_last_step_lets_the_job_finish(programs: Zygote, path: Path) -> None:
    code, output = ask(programs, "asked_in_step", path, signal.SIGTERM, ready_at=6)
    assert code in (0, 75), output
    assert steps_saved(path) == [6]
    pid = programs.start(HERE + "asked_in_step", job=str(path), ready_at=0)
    assert programs.wait(pid) == 0
    assert open_job(path).finished() is not None


def test_a_signal_during_a_save_is_looked_at_after_it(programs: Zygote, path: Path) -> None:
    code, output = ask(programs, "asked_while_saving", path, signal.SIGTERM)
    assert code == 75, output
    assert steps_saved(path) in ([2], [2, 3])


def test_an_evaluation_that_offers_safe_points_stops_there(programs: Zygote, path: Path) -> None:
    code, output = ask(programs, "asked_in_evaluation", path, signal.SIGTERM)
    assert code == 75, output
    assert "still here" not in output
    assert steps_saved(path) == [3]


def test_the_second_ctrl_c_does_not_wait(programs: Zygote, path: Path) -> None:
    pid = programs.start(HERE + "impatient", job=str(path))
    programs.wait_for_output(pid, "ready")
    os.kill(pid, signal.SIGINT)
    programs.wait_for_output(pid, "asked")
    os.kill(pid, signal.SIGINT)
    # Within the limit of any wait here, which is far less than it would sleep.
    assert programs.wait(pid) != 0
    assert "KeyboardInterrupt" in programs.output(pid)


@pytest.mark.parametrize("when", ["before", "after", "break", "exception"])
def test_outside_of_the_loop_a_signal_does_what_it_always_did(programs: Zygote, path: Path, when: str) -> None:
    code, output = ask(programs, "outside", path, signal.SIGTERM, when=when)
    assert code == -signal.SIGTERM, output


def test_a_loop_in_another_thread_saves_and_says_that_signals_are_not_seen(programs: Zygote, path: Path) -> None:
    pid = programs.start(HERE + "elsewhere", job=str(path))
    assert programs.wait(pid) == 0
    assert "not in the main thread" in programs.output(pid)
    assert steps_saved(path) == [2, 4]


@pytest.mark.parametrize("variable", ["LASTGOOD_DEADLINE", "SLURM_JOB_END_TIME"])
def test_a_time_limit_stops_before_it_comes(programs: Zygote, path: Path, variable: str) -> None:
    # Twice the slowest write, a step, and five seconds; thirty stand in for the write at first.
    pid = programs.start(HERE + "with_deadline", job=str(path), seconds=36.0, variable=variable)
    begun = time.monotonic()
    assert programs.wait(pid) == 75
    assert time.monotonic() - begun < 30
    assert "(time limit)" in programs.output(pid)


def fake_launcher() -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])


def test_a_program_whose_launcher_is_gone_saves_and_stops(programs: Zygote, path: Path, tmp_path: Path) -> None:
    with fake_launcher() as launcher:
        pid = programs.start(HERE + "launched", job=str(path), launcher_pid=launcher.pid, heartbeats=str(tmp_path))
        programs.wait_for_output(pid, "ready")
        launcher.kill()
        # Not reaped: a process that has ended and is still in the table is gone, too.
        assert programs.wait(pid) == 75
    assert "(launcher gone)" in programs.output(pid)


def test_a_launcher_on_another_node_cannot_be_missed(programs: Zygote, path: Path, tmp_path: Path) -> None:
    with fake_launcher() as launcher:
        launcher.kill()
        launcher.wait()
        # Its heartbeat directory is not here: that number was never a process of this machine.
        gone = str(tmp_path / "elsewhere")
        pid = programs.start(HERE + "launched", job=str(path), launcher_pid=launcher.pid, heartbeats=gone, total=400)
        assert programs.wait(pid) == 0, programs.output(pid)


def test_an_exception_of_the_program_is_shown_as_it_is_with_one_line_after_it(programs: Zygote, path: Path) -> None:
    pid = programs.start(HERE + "raises", job=str(path), what="user")
    assert programs.wait(pid) == 1
    lines = programs.output(pid).strip().split("\n")
    at = lines.index("KeyError: 'of the program'")
    assert any("endings.py" in line for line in lines[:at])
    assert lines[at + 1 :] == [
        "lastgood: the program raised KeyError after step 3; the last good step is 2; run again to continue from there"
    ]
    raised = [e.data for e in read_events(open_job(path), 1) if e.kind == "exception"]
    assert [(r["type"], r["step"]) for r in raised] == [("KeyError", 3)]


def test_an_error_of_ours_is_a_message_with_its_code(programs: Zygote, path: Path) -> None:
    pid = programs.start(HERE + "raises", job=str(path), what="ours")
    assert programs.wait(pid) == 68
    assert "Traceback" not in programs.output(pid)
    assert "run.log(bad=...)" in programs.output(pid)


def test_an_exit_of_the_programs_own_keeps_its_code(programs: Zygote, path: Path) -> None:
    assert programs.run(HERE + "raises", job=str(path), what="exit") == 9


def test_a_program_without_standard_error_runs(programs: Zygote, path: Path) -> None:
    assert programs.run(HERE + "without_stderr", job=str(path)) == 0
    assert steps_saved(path) == [2, 3]


@pytest.mark.parametrize(
    ("kind", "code"),
    [("process", -signal.SIGTERM), ("exits", 3), ("raises", 1), ("command", 4)],
)
def test_helpers_that_a_step_forks_end_as_they_would_anywhere(
    programs: Zygote, path: Path, kind: str, code: int
) -> None:
    pid = programs.start(HERE + "helpers", job=str(path), kind=kind)
    assert programs.wait(pid) == 0, programs.output(pid)
    output = programs.output(pid)
    assert f"helper {int(code)}" in output
    assert "the program raised" not in output
    assert steps_saved(path) == [1, 2, 3]
    assert not [e for e in read_events(open_job(path), 1) if e.kind == "exception"]


def test_a_child_that_outlives_a_killed_program_does_not_keep_its_job(programs: Zygote, path: Path) -> None:
    pid = programs.start(HERE + "helpers", job=str(path), kind="outlives")
    programs.wait_for_output(pid, "ready")
    programs.wait_for_output(pid, "child ")
    child = int(programs.output(pid).split("child ")[1].split()[0])
    try:
        os.kill(pid, signal.SIGKILL)
        programs.wait(pid)
        assert psutil.pid_exists(child)
        assert programs.run(HERE + "helpers", job=str(path), kind="none") == 0
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
@pytest.mark.parametrize("is_persistent", [False, True])
def test_a_signal_to_the_whole_group_saves_although_there_are_data_workers(
    programs: Zygote, path: Path, number: int, is_persistent: bool
) -> None:
    pid = programs.start(HERE + "with_workers", job=str(path), is_persistent=is_persistent)
    programs.wait_for_output(pid, "ready")
    workers = psutil.Process(pid).children(recursive=True)
    assert len(workers) == 4
    os.killpg(pid, number)
    assert programs.wait(pid) in (75, 130), programs.output(pid)
    assert len(steps_saved(path)) == 1, programs.output(pid)
    psutil.wait_procs(workers, timeout=180)
    assert not [w for w in workers if w.is_running()]


def test_the_log_of_a_stopped_job_is_whole(programs: Zygote, path: Path) -> None:
    pid = programs.start("runtime.training:sum_steps", job=str(path), total=100_000, every=100_000, pause_s=0.002)
    programs.wait_for_output(pid, "ready")
    os.kill(pid, signal.SIGTERM)
    assert programs.wait(pid) == 75
    saved = steps_saved(path)[0]
    assert list(lastgood.read_log(path)) == list(range(1, saved + 1))
