"""`lastgood status`: a running, a finished, a stopped and a broken job; as text and as JSON."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lastgood.cli.answers import StatusAnswer
from lastgood.core.accounting import account
from lastgood.core.outcome import Outcome
from lastgood.launch.history import ending_of, read_records
from lastgood.store.attempts import Journal
from lastgood.store.jobdir import JobDirectory

from .conftest import Launcher, wait_for
from .programs import CHECKPOINTING, LOOP

pytestmark = pytest.mark.slow


def status(job: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "lastgood", "status", str(job), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)


def answer(job: Path) -> tuple[int, StatusAnswer]:
    """Checked against the documented shape: a member that is not documented fails."""
    said = status(job, "--json")
    return said.returncode, msgspec.json.decode(said.stdout, type=StatusAnswer, strict=True)


def check_text(said: "subprocess.CompletedProcess[str]") -> str:
    assert "Traceback" not in said.stderr
    assert all(len(line) <= 80 for line in said.stdout.splitlines()), said.stdout
    return said.stdout


@pytest.fixture
def loop(script) -> Path:
    return script("loop.py", LOOP)


def test_a_finished_job_tells_its_attempts_and_what_was_lost(launcher: Launcher, loop: Path) -> None:
    assert launcher.run(sys.executable, loop, 30, "1:13:kill").code == 0
    said = status(launcher.job)
    text = check_text(said)
    assert said.returncode == 0
    assert "finished: all steps are done, the last is 30" in text
    assert "2 steps," in text
    assert "killed: ended by SIGKILL" in text
    code, told = answer(launcher.job)
    assert (code, told.state, told.lost_steps, told.live) == (0, "finished", 2, None)
    one, two = told.attempts
    assert (one.outcome, one.from_step, one.reached_step, one.saved_step, one.lost_steps) == ("killed", 0, 12, 10, 2)
    assert (two.outcome, two.how, two.from_step, two.reached_step, two.steps_done) == (
        "finished",
        "resumed",
        10,
        30,
        20,
    )
    assert told.last_good is not None
    assert (told.last_good.step, told.last_good.name) == (30, "000000000030-0002")
    assert told.restarts_left == 99


def test_a_running_job_tells_its_step_from_the_heartbeats(launcher: Launcher, loop: Path) -> None:
    process = launcher.start("--grace", "2s", "--", sys.executable, loop, 30, "1:13:sleep")
    launcher.wait_for_output("sleeping")
    said = status(launcher.job)
    text = check_text(said)
    assert said.returncode == 0
    assert f"running: process {process.pid} on {os.uname().nodename}" in text
    assert "step 12/30" in text
    assert 'in phase "step"' in text
    code, told = answer(launcher.job)
    assert (code, told.state, told.pid) == (0, "running", process.pid)
    assert told.live is not None
    assert (told.live.step, told.live.total_steps) == (12, 30)
    assert (told.attempts[-1].outcome, told.attempts[-1].ended, told.lost_steps) == ("", None, 0)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    assert launcher.end_of(process).code == 130


LATE = """
import time, numpy as np, lastgood
w = np.zeros(1000)
with lastgood.Run({"w": w}, every=lastgood.Every(first="100ms", then="100ms")) as run:
    for step in run.steps(1000):
        w += 1
        time.sleep(0.02)
        if step == 30:
            run.safe_point("a long evaluation")
            print("sleeping", flush=True)
            time.sleep(600)
"""


def test_a_last_good_that_is_older_than_was_promised_is_called_late(launcher: Launcher, script) -> None:
    process = launcher.start(sys.executable, script("late.py", LATE))
    launcher.wait_for_output("sleeping")
    wait_for(lambda: "LATE: a save is due every 0.1 s" in " ".join(check_text(status(launcher.job)).split()))
    _, told = answer(launcher.job)
    assert told.interval_s == pytest.approx(0.1)
    assert "of memory for 2 snapshots" in told.snapshots
    process.kill()
    process.wait()
    launcher.kill_survivors()


def test_looking_does_not_disturb_a_start(launcher: Launcher, loop: Path) -> None:
    assert launcher.run(sys.executable, loop, 5).code == 0
    looker = subprocess.Popen(
        ["bash", "-c", f'while :; do "{sys.executable}" -m lastgood status "{launcher.job}" >/dev/null; done']
    )
    try:
        for steps in (10, 15, 20):
            assert launcher.run(sys.executable, loop, steps).code == 0
    finally:
        looker.kill()
        looker.wait()


def test_a_stopped_job_is_to_be_run_again(launcher: Launcher, loop: Path) -> None:
    assert launcher.run("--time-limit", "15s", "--", sys.executable, loop, 30, "1:13:sleep").code == 75
    code, told = answer(launcher.job)
    assert (code, told.state) == (75, "stopped, unfinished")
    assert told.attempts[0].outcome == "time limit"
    assert "time limit" in check_text(status(launcher.job))


def test_a_job_that_ctrl_c_stopped_is_to_be_run_again(launcher: Launcher, loop: Path) -> None:
    process = launcher.start("--grace", "2s", "--", sys.executable, loop, 30, "1:13:sleep")
    launcher.wait_for_output("sleeping")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    assert launcher.end_of(process).code == 130
    code, told = answer(launcher.job)
    assert (code, told.state) == (75, "stopped, unfinished")
    assert told.why.startswith("cancelled: SIGINT")


def test_a_program_that_vanished_without_a_launcher_may_have_lost_steps_that_nobody_saw(
    launcher: Launcher, script
) -> None:
    loop = script("alone.py", LOOP.replace('os.environ["LASTGOOD_ATTEMPT"] == attempt', "True"))
    environment = {**os.environ, "LASTGOOD_JOB": str(launcher.job)}
    alone = subprocess.run([sys.executable, loop, "30", "1:13:kill"], env=environment, timeout=180, check=False)
    assert alone.returncode == -signal.SIGKILL
    _, told = answer(launcher.job)
    assert (told.attempts[0].lost_steps, told.attempts[0].is_loss_known) == (0, False)
    text = check_text(status(launcher.job))
    assert "lost       unknown how much by attempt 1 (?), whose last step nobody saw" in text
    assert "nothing" not in text


def test_a_long_outcome_takes_two_lines_and_is_whole_in_json(launcher: Launcher) -> None:
    what = "it went wrong in many words, " * 5 + "and that is all"
    assert launcher.run(sys.executable, "-c", f"raise RuntimeError('{what}')").code == 1
    _, told = answer(launcher.job)
    assert told.attempts[0].reason == f"exit code 1: RuntimeError: {what}"
    rows = check_text(status(launcher.job)).split("OUTCOME")[1].splitlines()[1:]
    assert len(rows) == 2
    assert rows[-1].endswith("...")


def test_what_was_raised_about_communication_is_no_error_of_the_program_without_a_launcher_either(
    job: JobDirectory,
) -> None:
    journal = Journal(job, 1)
    journal.write("started", how="fresh", step=0)
    text = "[/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer"
    journal.write("exception", type="RuntimeError", text=text, step=3, rank=1)
    journal.close()
    (record,) = read_records(job)
    alone = msgspec.structs.replace(record, launch="")
    assert ending_of(account([alone], None)[0], alone).outcome is Outcome.COMMUNICATION


def test_a_usage_error_of_ours_is_told_as_one(launcher: Launcher, loop: Path) -> None:
    assert launcher.run(sys.executable, loop, 20).code == 0
    (launcher.job / "finished.json").unlink()
    assert launcher.run(sys.executable, loop, 10).code == 2
    code, told = answer(launcher.job)
    assert (code, told.state) == (1, "given up")
    assert "steps(10) would go backwards" in check_text(status(launcher.job))


def test_a_job_that_was_given_up_says_why(launcher: Launcher, loop: Path) -> None:
    assert launcher.run(sys.executable, loop, 30, "1:13:raise").code == 1
    code, told = answer(launcher.job)
    assert (code, told.state) == (1, "given up")
    assert "no such key" in told.why


def test_a_lost_launcher_is_told_and_the_command_that_outlives_it(launcher: Launcher, loop: Path) -> None:
    process = launcher.start("--grace", "2s", "--", sys.executable, loop, 30, "1:13:sleep")
    launcher.wait_for_output("sleeping")
    process.send_signal(signal.SIGKILL)
    process.wait()
    code, told = answer(launcher.job)
    assert (code, told.state) == (0, "running without its launcher")
    launcher.kill_survivors()
    wait_for(lambda: answer(launcher.job)[1].state == "stopped, unfinished")
    code, told = answer(launcher.job)
    assert (code, told.attempts[0].outcome) == (75, "launcher lost")


def test_a_wrapped_command_shows_its_own_checkpoints(launcher: Launcher, script) -> None:
    program = script("train.py", CHECKPOINTING)
    options = ["--resume-arg", "--resume-from {checkpoint}", "--checkpoints", "out/*.json"]
    assert launcher.run(*options, "--", sys.executable, program, 12, "1:10").code == 0
    code, told = answer(launcher.job)
    assert (code, told.state) == (0, "finished")
    assert told.last_good is not None
    assert (told.last_good.name, told.last_good.step) == ("out/step_12.json", 12)
    assert [a.from_step for a in told.attempts] == [0, 10]


def test_no_job_is_66(tmp_path: Path) -> None:
    said = status(tmp_path / "nothing")
    assert said.returncode == 66
    assert "does not exist" in said.stderr


def test_a_new_job_has_no_attempts(job: Any) -> None:
    (job.attempts / "0001.json").unlink()
    said = status(job.path)
    assert said.returncode == 75
    assert "not started yet" in check_text(said)


TORN = [b"", b'{"kind":"launched","at":1.0,"da', b"\x00\xff\xfe" * 40, b"[]\n{}\nnull\n", b'{"kind":1,"at":"x"}\n' * 3]


@pytest.mark.parametrize("torn", TORN)
def test_torn_journals_and_records_never_make_a_traceback(launcher: Launcher, loop: Path, torn: bytes) -> None:
    assert launcher.run(sys.executable, loop, 30, "1:13:kill").code == 0
    attempts = launcher.job / "attempts"
    (attempts / "0001.events.jsonl").write_bytes(torn)
    (attempts / "0002.json").write_bytes(torn)
    (launcher.job / "finished.json").write_bytes(torn)
    (launcher.job / "lock").write_bytes(torn)
    said = status(launcher.job)
    assert said.returncode in (0, 75)
    assert "last good  step 30" in check_text(said)
    answer(launcher.job)


@pytest.mark.parametrize(
    "data",
    [
        '"outcome":7,"reason":[],"exit_code":"x","step":"y"',
        '"outcome":"\\u001b[31m","reason":"\\u001b]0;x\\u0007"',
        '"outcome":null,"reason":null,"step":-5',
    ],
)
def test_hostile_values_in_a_journal_are_shown_harmlessly(launcher: Launcher, loop: Path, data: str) -> None:
    assert launcher.run(sys.executable, loop, 30, "1:13:kill").code == 0
    with open(launcher.job / "attempts" / "0001.events.jsonl", "a") as journal:
        journal.write(f'{{"kind":"ended","at":1.0,"data":{{{data}}}}}\n')
        journal.write('{"kind":"launched","at":1.0,"data":{"command":7,"pid":"x","heartbeats":[],"host":7}}\n')
        journal.write('{"kind":"decided","at":1.0,"data":{"action":[],"restarts_left":"many"}}\n')
    said = status(launcher.job)
    assert said.returncode == 0
    assert "\x1b" not in check_text(said)
    answer(launcher.job)
