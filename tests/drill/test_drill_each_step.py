"""Drills of a job that saves as often as it prints: whether it took the damaged checkpoint, or the one before."""

import sys
from pathlib import Path

import pytest

from drill.drills import drill

pytestmark = pytest.mark.slow

EACH_STEP = """
import pathlib, sys, time, waiting

is_trusting, out = "trusting" in sys.argv, pathlib.Path("out")
out.mkdir(exist_ok=True)

def is_whole(path):
    return path.read_text(errors="replace") == f"{int(path.stem[-4:])}:" * 50

whole = [path for path in sorted(out.glob("state-*.txt")) if is_trusting or is_whole(path)]
begin = int(whole[-1].stem[-4:]) if whole else 0
if begin and is_trusting:
    print("resuming from step", begin, flush=True)
for step in range(begin + 1, 121):
    time.sleep(0.02)
    print("step", step, flush=True)
    # Neither fault may find that the job is over, or that the other one was there before it.
    if step in (40, 100):
        waiting.until_struck(1 if step == 40 else 2)
    part = out / f"state-{step:04d}.part"
    with part.open("w") as file:
        file.write(f"{step}:" * 50)
        time.sleep(0.01)
    part.rename(part.with_suffix(".txt"))
"""


@pytest.mark.parametrize(("word", "answer"), [("wary", "pass"), ("trusting", "unknown")])
def test_a_job_that_saves_each_step_is_known_by_how_it_came_back_from_a_kill(
    word: str, answer: str, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(EACH_STEP)
    faults = ("--again", "--fault", "kill-group@step=20", "--fault", "flip-bit@step=60")
    reading = ("--step-pattern", r"step (\d+)", "--checkpoints", "out/*.txt", "--quick")
    done = drill(program, tmp_path, *reading, *faults, "--", sys.executable, program.name, word)
    assert [fault.verdict for fault in done.answer.faults] == ["pass", answer], done.answer
