"""What the launcher does after each kind of end, with real programs that use the library."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lastgood.store.record import Records, state_directory
from schedulers.fake_slurm import FakeSlurm

from .conftest import Launcher
from .programs import LOOP

pytestmark = pytest.mark.slow


def state(launcher: Launcher) -> tuple[str, int]:
    """What `lastgood status` says of the job, and its exit code."""
    command = [sys.executable, "-m", "lastgood", "status", "--json", str(launcher.job)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    return json.loads(said.stdout)["state"], said.returncode


@pytest.fixture
def loop(script) -> Path:
    return script("loop.py", LOOP)


def test_a_killed_program_is_restarted_and_resumes_where_it_saved(launcher: Launcher, loop: Path) -> None:
    ended = launcher.run(sys.executable, loop, 30, "1:13:kill", "2:22:kill")
    assert ended.code == 0
    assert f"sum {sum(range(1, 31))}" in ended.out
    assert launcher.outcomes() == ["killed", "killed", "finished"]
    assert [launcher.event(n, "started")["step"] for n in (1, 2, 3)] == [0, 10, 20]
    assert "last good: step 10" in ended.err
    assert "restarting now" in ended.err


def test_one_command_line_serves_the_first_run_the_resumed_one_and_the_finished_one(
    launcher: Launcher, loop: Path
) -> None:
    command = ["--no-restart", "--", sys.executable, loop, 20, "1:13:kill"]
    assert launcher.run(*command).code == 137
    assert launcher.run(*command).code == 0
    again = launcher.run(*command)
    assert again.code == 0
    assert launcher.outcomes() == ["killed", "finished", "finished"]
    assert [e["kind"] for e in launcher.events(3) if e["kind"] == "committed"] == []
    assert state(launcher) == ("finished", 0)


def test_a_finished_job_goes_on_when_its_script_asks_for_more(launcher: Launcher, script) -> None:
    script("loop.py", LOOP.replace("int(sys.argv[1])", "10"))
    command = [sys.executable, launcher.directory / "loop.py", "-"]
    assert launcher.run(*command).code == 0
    script("loop.py", LOOP.replace("int(sys.argv[1])", "20"))
    ended = launcher.run(*command)
    assert ended.code == 0
    assert f"sum {sum(range(1, 21))}" in ended.out
    assert launcher.event(2, "started")["step"] == 10


def test_a_finished_job_that_is_asked_for_fewer_steps_refuses_and_stays_finished(
    launcher: Launcher, loop: Path
) -> None:
    assert launcher.run(sys.executable, loop, 20).code == 0
    ended = launcher.run(sys.executable, loop, 10)
    assert ended.code == 2
    assert launcher.outcomes() == ["finished", "refused"]
    assert "steps(10) would go backwards" in launcher.event(2, "ended")["reason"]
    assert state(launcher) == ("finished", 0)


def test_a_new_start_takes_the_mark_of_the_end_away(launcher: Launcher, loop: Path) -> None:
    assert launcher.run(sys.executable, loop, 10).code == 0
    assert launcher.run("--fresh", "--no-restart", "--", sys.executable, loop, 10, "2:7:kill").code == 137
    assert not (launcher.job / "finished.json").exists()
    assert launcher.run(sys.executable, loop, 10).code == 0
    assert launcher.event(3, "started")["step"] == 5


def test_an_exit_code_of_another_program_is_not_taken_for_one_of_ours(launcher: Launcher) -> None:
    for code in (66, 74, 80, 86):
        ended = launcher.run("sh", "-c", f"exit {code}")
        assert ended.code == code
    assert launcher.outcomes() == ["program error"] * 4
    assert launcher.run("--checkpoints", "out/*", "--", "sh", "-c", "exit 80").code == 80
    assert launcher.outcomes()[-1] == "program error"


def test_a_good_end_is_said_once(launcher: Launcher, loop: Path) -> None:
    lines = launcher.run(sys.executable, loop, 10).err.splitlines()
    assert [line for line in lines if "finished" in line] == [lines[-1]]
    assert lines[-1].startswith("lastgood: attempt 1 finished after ")
    assert lines[-1].endswith(": all steps are done; last good: step 10")


def test_a_new_start_of_a_job_that_runs_is_turned_away_and_changes_nothing(launcher: Launcher, loop: Path) -> None:
    process = launcher.start("--grace", "2s", "--", sys.executable, loop, 30, "1:13:sleep")
    launcher.wait_for_output("sleeping")
    assert launcher.run("--fresh", "--grace", "1s", "--", sys.executable, loop, 30).code == 86
    assert Records(state_directory(launcher.environment)).read(launcher.job) is not None
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130


def test_a_finished_job_goes_on_with_a_changed_command(launcher: Launcher, loop: Path) -> None:
    assert launcher.run(sys.executable, loop, 10).code == 0
    ended = launcher.run(sys.executable, loop, 20)
    assert ended.code == 0
    assert launcher.event(2, "started")["step"] == 10
    assert f"sum {sum(range(1, 21))}" in ended.out


def test_fresh_starts_from_zero_once_and_then_resumes(launcher: Launcher, loop: Path) -> None:
    assert launcher.run("--no-restart", "--", sys.executable, loop, 30, "1:13:kill").code == 137
    ended = launcher.run("--fresh", "--", sys.executable, loop, 30, "2:8:kill")
    assert ended.code == 0
    assert [launcher.event(n, "started")["how"] for n in (2, 3)] == ["fresh", "resumed"]
    assert launcher.event(3, "started")["step"] == 5


def test_fresh_is_not_refused_after_it_died_before_its_first_save(launcher: Launcher, loop: Path) -> None:
    assert launcher.run("--no-restart", "--", sys.executable, loop, 30, "1:13:kill").code == 137
    ended = launcher.run("--fresh", "--", sys.executable, loop, 30, "2:3:kill")
    assert ended.code == 0
    assert launcher.event(3, "started")["step"] == 0


def test_a_program_error_is_shown_and_not_restarted(launcher: Launcher, loop: Path) -> None:
    ended = launcher.run(sys.executable, loop, 30, "1:13:raise")
    assert ended.code == 1
    assert launcher.outcomes() == ["program error"]
    assert "KeyError" in ended.err
    assert "not started again" in ended.err
    assert "no such key" in launcher.event(1, "ended")["reason"]


def test_a_program_error_is_restarted_if_its_code_is_listed(launcher: Launcher, loop: Path) -> None:
    assert launcher.run("--restart-on", "1", "--", sys.executable, loop, 30, "1:13:raise").code == 0
    assert launcher.outcomes() == ["program error", "finished"]


def test_two_attempts_without_a_newer_checkpoint_end_the_job(launcher: Launcher, loop: Path) -> None:
    ended = launcher.run(sys.executable, loop, 30, "1:12:kill", "2:13:kill", "3:14:kill", "4:14:kill")
    assert ended.code == 82
    assert launcher.outcomes() == ["killed"] * 3
    assert "2 attempts in a row ended without a newer checkpoint" in ended.err


def test_who_starts_it_again_after_that_gets_an_attempt(launcher: Launcher, loop: Path) -> None:
    command = [sys.executable, loop, 30, "1:3:kill", "2:3:kill"]
    assert launcher.run(*command).code == 82
    assert launcher.run(*command).code == 0


def test_the_restart_limit_counts_over_launches(launcher: Launcher, loop: Path) -> None:
    command = ["--max-restarts", "2", "--", sys.executable, loop, 40, *(f"{n}:{7 * n}:kill" for n in range(1, 6))]
    process = launcher.start(*command, "2:9:sleep")
    launcher.wait_for_output("sleeping")
    process.kill()
    process.wait()
    # It sleeps inside a step, where nothing reaches it.
    launcher.kill_survivors()
    ended = launcher.run(*command)
    assert ended.code == 83
    assert "the limit is 2 restarts" in ended.err


def test_out_of_memory_twice_at_the_same_step_ends_the_job(launcher: Launcher, loop: Path) -> None:
    ended = launcher.run(sys.executable, loop, 30, "1:7:oom", "2:7:oom", "3:7:oom")
    assert ended.code == 84
    assert launcher.outcomes() == ["out of memory"] * 2


def test_exit_0_before_the_last_step_is_not_done(launcher: Launcher, loop: Path) -> None:
    ended = launcher.run(sys.executable, loop, 30, "1:13:exit0")
    assert ended.code == 1
    assert "exit code 0 after step 12 of 30, and run.finish() was not called" in ended.err
    assert launcher.outcomes() == ["program error"]
    assert not (launcher.job / "finished.json").exists()


def test_a_sigterm_saves_and_the_next_launch_continues(launcher: Launcher, script) -> None:
    program = LOOP.replace("    x += step\n", "    x += step\n    print('step', step, flush=True); time.sleep(0.05)\n")
    command = [sys.executable, script("slow.py", program)]
    process = launcher.start(*command, 100_000)
    launcher.wait_for_output("step 7\n")
    process.send_signal(signal.SIGTERM)
    ended = launcher.end_of(process)
    assert ended.code == 75
    saved = max(e["data"]["step"] for e in launcher.events(1) if e["kind"] == "committed")
    assert saved >= 7
    ended = launcher.run(*command, saved + 10)
    assert ended.code == 0
    assert launcher.event(2, "started")["step"] == saved
    assert f"sum {sum(range(1, saved + 11))}" in ended.out


def test_a_launcher_that_is_killed_takes_its_program_with_it_and_the_next_one_says_so(
    launcher: Launcher, script
) -> None:
    program = LOOP.replace("    x += step\n", "    x += step\n    print('step', step, flush=True); time.sleep(0.05)\n")
    command = [sys.executable, script("slow.py", program)]
    process = launcher.start(*command, 100_000)
    launcher.wait_for_output("step 7\n")
    process.send_signal(signal.SIGKILL)
    process.wait()
    # Started at once, while the program may still be saving: it waits for that.
    # The last line may have been on its way when the launcher was killed.
    done = int(re.findall(r"step (\d+)\n", launcher.output())[-1])
    ended = launcher.run(*command, done + 60)
    assert ended.code == 0, ended.err
    assert "the last attempt ended without its launcher" in ended.err
    saved = max(e["data"]["step"] for e in launcher.events(1) if e["kind"] == "committed")
    assert saved >= 7
    assert launcher.event(2, "started")["step"] == saved


def test_a_command_that_outlives_its_launcher_and_does_not_end_keeps_others_out(launcher: Launcher, loop: Path) -> None:
    process = launcher.start("--grace", "2s", "--", sys.executable, loop, 30, "1:13:sleep")
    launcher.wait_for_output("sleeping")
    process.send_signal(signal.SIGKILL)
    process.wait()
    ended = launcher.run("--grace", "500ms", "--", sys.executable, loop, 30)
    assert ended.code == 86
    assert "the command that it started still runs" in ended.err
    launcher.kill_survivors()
    assert launcher.run(sys.executable, loop, 30).code == 0


def test_a_start_again_below_the_launcher_is_an_attempt_of_its_own_within_the_launchers(
    launcher: Launcher, loop: Path
) -> None:
    program = f'"{sys.executable}" "{loop}" 30'
    ended = launcher.run("bash", "-c", f"{program} 1:13:raise; {program}")
    assert ended.code == 0
    assert launcher.outcomes() == ["finished", ""]
    assert launcher.event(2, "started")["step"] == 10
    said = subprocess.run(
        [sys.executable, "-m", "lastgood", "status", str(launcher.job)], capture_output=True, text=True, check=True
    )
    assert "restarted inside" in said.stdout
    assert "2 steps" in said.stdout


def test_a_second_launcher_is_turned_away_and_the_first_does_not_notice(launcher: Launcher, loop: Path) -> None:
    process = launcher.start("bash", "-c", "echo ready; sleep 600")
    launcher.wait_for_output("ready")
    second = launcher.run(sys.executable, loop, 5)
    assert second.code == 86
    assert f"process {process.pid}" in second.err
    assert launcher.outcomes() == [""]
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 75


def test_a_command_without_checkpoints_is_restarted_from_zero_with_growing_delays(launcher: Launcher) -> None:
    ended = launcher.run("bash", "-c", "[ $LASTGOOD_ATTEMPT -ge 3 ] || kill -9 $$")
    assert ended.code == 0
    assert "restarting in 1 s" in ended.err
    assert "restarting in 2 s" in ended.err
    assert launcher.outcomes() == ["killed", "killed", "finished"]


def test_a_refused_start_is_not_retried_and_keeps_its_code(launcher: Launcher, loop: Path) -> None:
    assert launcher.run("--no-restart", "--", sys.executable, loop, 30, "1:13:kill").code == 137
    for checkpoint in (launcher.job / "checkpoints").iterdir():
        for file in checkpoint.iterdir():
            file.unlink()
        checkpoint.rmdir()
    ended = launcher.run(sys.executable, loop, 30)
    assert ended.code == 80
    assert launcher.outcomes() == ["killed", "refused"]
    assert "restarting" not in ended.err


def test_a_vanished_job_directory_is_refused_before_anything_is_made(launcher: Launcher, loop: Path) -> None:
    assert launcher.run("--no-restart", "--", sys.executable, loop, 30, "1:13:kill").code == 137
    launcher.job.rename(launcher.directory / "elsewhere")
    ended = launcher.run(sys.executable, loop, 30)
    assert ended.code == 80
    assert not launcher.job.exists()
    assert launcher.run("--fresh", "--", sys.executable, loop, 10).code == 0


def test_a_damaged_newest_checkpoint_costs_only_what_came_after_the_one_before(launcher: Launcher, loop: Path) -> None:
    assert launcher.run("--no-restart", "--", sys.executable, loop, 30, "1:13:kill").code == 137
    data = launcher.job / "checkpoints" / "000000000010-0001" / "rank-00000.safetensors"
    os.truncate(data, data.stat().st_size - 1)
    assert launcher.run(sys.executable, loop, 30).code == 0
    assert launcher.event(2, "started")["step"] == 5


def test_a_segment_whose_chain_has_begun_anew_is_not_begun_in_an_empty_directory(
    launcher: Launcher, loop: Path, tmp_path: Path
) -> None:
    """Each segment of a chain says --fresh again, and is a Slurm job of its own."""
    slurm = FakeSlurm(tmp_path / "slurm")
    launcher.environment |= {"PATH": f"{slurm.bin}:{os.environ['PATH']}", "LASTGOOD_CHAIN": "7"}
    words = ["--fresh", "--", sys.executable, loop, 10]
    launcher.environment["SLURM_JOB_ID"] = "7"
    assert launcher.run(*words).code == 0
    shutil.rmtree(launcher.job)
    launcher.environment["SLURM_JOB_ID"] = "8"
    ended = launcher.run(*words)
    assert ended.code == 80 and "a job in it saved step 10 before" in ended.err
    assert not launcher.job.exists()
    launcher.environment |= {"SLURM_JOB_ID": "9", "LASTGOOD_CHAIN": "9"}
    assert launcher.run(*words).code == 0
    assert launcher.event(1, "started")["how"] == "fresh"


def test_a_record_is_not_forgotten_where_the_new_start_was_made_before(
    launcher: Launcher, loop: Path, tmp_path: Path
) -> None:
    slurm = FakeSlurm(tmp_path / "slurm")
    launcher.environment |= {"PATH": f"{slurm.bin}:{os.environ['PATH']}", "LASTGOOD_CHAIN": "7", "SLURM_JOB_ID": "7"}
    assert launcher.run("--fresh", "--", sys.executable, loop, 10).code == 0
    records = Records(state_directory(launcher.environment))
    saved = records.read(launcher.job)
    records.note_new_start(launcher.job, "of another chain, meanwhile", "9 0")
    assert "going on" in launcher.run("--fresh", "--", "true").err
    assert saved is not None and records.read(launcher.job) == saved
