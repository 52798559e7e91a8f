"""Faults in the middle of a save that takes its time: each does what it does elsewhere, and what the save leaves is seen."""

import sys
from pathlib import Path

import pytest

from drill.drills import Drill, drill

pytestmark = pytest.mark.slow

NUMBERED = """
import pathlib, signal, sys, time, waiting

told, out = [], pathlib.Path("out")
out.mkdir(exist_ok=True)
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
files = sorted(out.glob("state-*.txt"))
step = int(files[-1].read_text()) if files else 0
# However late it was struck, the next start has steps to do.
last = max(step + 10, 40)
while step < last or not waiting.have_struck():
    step += 1
    time.sleep(0.02)
    print("step", step, flush=True)
    if step % 5 == 0 or told:
        part = out / f"state-{step:04d}.txt.tmp"
        with part.open("w") as file:
            file.write(str(step))
            time.sleep(0.2)
        part.rename(part.with_suffix(""))
    if told:
        sys.exit(143)
"""

OVERWRITING = """
import pathlib, time, waiting

path = pathlib.Path("out/state.txt")
path.parent.mkdir(exist_ok=True)
try:
    step = int(path.read_text())
except (OSError, ValueError):
    step = 0
while step < 40 or not waiting.have_struck():
    step += 1
    time.sleep(0.02)
    print("step", step, flush=True)
    if step == 8:
        # The first fault is to find a file that is whole.
        waiting.until_struck(1)
    if step % 5 == 0:
        with path.open("w") as file:
            time.sleep(0.2)
            file.write(str(step))
"""

LATEST = """
import os, time, waiting

def read(name):
    with open(name) as file:
        return int(file.read().partition(":")[0])

step = read("latest.pt") if os.path.exists("latest.pt") else 0
last = max(step + 20, 60)
while step < last or not waiting.have_struck():
    step += 1
    time.sleep(0.02)
    print("step", step, flush=True)
    if step % 15 == 0:
        with open("new", "w") as file:
            file.write(f"{step}:" + "x" * 1000)
        if os.path.exists("latest.pt"):
            os.replace("latest.pt", "prev.pt")
        os.replace("new", "latest.pt")
"""


def run(text: str, tmp_path: Path, *options: object) -> Drill:
    program = tmp_path / "program.py"
    program.write_text(text)
    pattern = ("--step-pattern", r"step (\d+)", "--quick")
    return drill(program, tmp_path, *pattern, *options, "--", sys.executable, program.name)


def test_a_job_that_is_told_to_stop_in_a_save_may_end_by_itself(tmp_path: Path) -> None:
    done = run(NUMBERED, tmp_path, "--again", "--checkpoints", "out/*.txt", "--fault", "terminate,grace=60s@phase=save")
    (fault,) = done.answer.faults
    assert "open to write" in fault.caught
    assert "with exit code 143" in fault.what
    assert done.answer.verdict == "pass", done.answer


def test_a_launcher_that_is_killed_in_a_save_leaves_a_command_that_ends_by_itself(tmp_path: Path) -> None:
    done = run(NUMBERED, tmp_path, "--checkpoints", "out/*.txt", "--fault", "kill-launcher@phase=save")
    (fault,) = done.answer.faults
    assert "open to write" in fault.caught
    (injected,) = [event for event in done.journal if event.kind == "injected"]
    assert injected.data["evidence"]["had_to_be_killed"] == []
    assert done.answer.verdict == "pass", done.answer


def test_a_rank_that_is_frozen_in_a_save_stays_so_until_it_is_found(tmp_path: Path) -> None:
    done = run(NUMBERED, tmp_path, "--checkpoints", "out/*.txt", "--fault", "freeze,limit=20s@phase=save")
    (fault,) = done.answer.faults
    assert "open to write" in fault.caught
    assert (fault.has_effect, fault.ended_as, fault.verdict) == (True, "hang", "pass"), done.answer


def test_a_job_that_loses_its_only_checkpoint_in_a_save_fails(tmp_path: Path) -> None:
    faults = ("--fault", "kill-rank@step=8", "--fault", "kill-group@phase=save")
    done = run(OVERWRITING, tmp_path, "--again", "--checkpoints", "out/*.txt", *faults)
    assert "open to write" in done.answer.faults[1].caught
    assert (done.code, done.answer.faults[1].verdict) == (1, "fail"), done.answer
    assert "was being overwritten" in done.answer.faults[1].reason


def test_a_damaged_checkpoint_whose_name_has_no_number_is_known_by_when_it_was_written(tmp_path: Path) -> None:
    # So late that a drill which was held up has seen some of the steps before it, by which the moment of a save is known.
    faults = ("--fault", "flip-bit,at=90@step=300")
    done = run(LATEST, tmp_path, "--again", "--checkpoints", "*.pt", *faults)
    (fault,) = done.answer.faults
    assert fault.reached_step is not None and fault.reached_step >= 300
    # The one before the newest, and that is the newest that was seen if it has saved once more until it was stopped.
    assert fault.checkpoint_step in range(fault.reached_step - 35, fault.reached_step)
    assert (done.code, done.answer.verdict) == (1, "fail"), done.answer
    assert "it took latest.pt" in done.answer.reason
