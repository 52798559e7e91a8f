"""Drills of programs that save by themselves: those that must fail, and those of which it cannot be told."""

import sys
from pathlib import Path

import pytest

from drill.drills import HERE, Drill, drill

pytestmark = pytest.mark.slow

PLAIN = HERE / "plain.py"
STEPS = ("--step-pattern", r"step (\d+)")
FILES = ("--checkpoints", "out/*.json")
KILL, FLIP, TERM = (
    ("--fault", "kill-rank@step=12"),
    ("--fault", "flip-bit,at=30@step=32"),
    ("--fault", "terminate,grace=60s@step=22"),
)


def plain(tmp_path: Path, mode: str, *options: object, steps: int = 80, held: str = "") -> Drill:
    """`held`: the steps at which it waits for the faults, in turn."""
    more = [0.02, held] if held else []
    return drill(PLAIN, tmp_path, "--seed", 2, *options, "--", sys.executable, PLAIN.name, mode, steps, *more)


def test_a_program_that_falls_back_passes_without_our_launcher(tmp_path: Path) -> None:
    done = plain(tmp_path, "good", "--again", *STEPS, *FILES, *KILL, *TERM, *FLIP, steps=150, held="12,22,32")
    assert (done.code, done.answer.verdict) == (0, "pass"), done.answer
    assert all(fault.blur_steps == 1 for fault in done.answer.faults)
    assert done.fault("terminate").lost_steps == 0
    assert done.answer.way == "started again"


def test_a_program_that_begins_from_zero_each_time_fails(tmp_path: Path) -> None:
    done = plain(tmp_path, "from-zero", "--again", *STEPS, *FILES, *KILL, held="12")
    assert (done.code, done.answer.verdict) == (1, "fail")
    assert "began from zero, although a checkpoint of step" in done.answer.reason
    assert done.answer.faults[0].resumed_from == "zero"


def test_it_fails_under_our_launcher_too_if_nobody_hands_it_a_checkpoint(tmp_path: Path) -> None:
    done = plain(tmp_path, "from-zero", "--quick", *STEPS, *KILL, "--until", "recovered", held="12")
    assert (done.code, done.answer.verdict) == (1, "fail")
    assert "--checkpoints" in done.answer.remedy


def test_a_program_that_takes_a_torn_file_fails(tmp_path: Path) -> None:
    done = plain(tmp_path, "trusting", "--again", *STEPS, *FILES, "--fault", "truncate@step=22", held="22")
    assert (done.code, done.answer.verdict) == (1, "fail")
    assert "it took out/state-" in done.answer.reason


def test_a_single_checkpoint_that_is_damaged_stops_the_job_and_that_is_said(tmp_path: Path) -> None:
    # No kill before: on a busy machine it may come in the middle of a save, which leaves a torn file, too.
    done = plain(tmp_path, "in-place", "--again", *STEPS, *FILES, "--fault", "truncate@step=22", held="22")
    assert done.fault("truncate").verdict == "pass", done.answer
    assert done.fault("truncate").remedy == "keep more than one checkpoint"
    assert done.answer.disturbed is not None
    assert done.answer.disturbed.exit_code == 1
    assert any("json" in line for line in done.answer.disturbed.last_words)


def test_a_save_of_a_millisecond_is_hit_if_there_are_enough_of_them(tmp_path: Path) -> None:
    done = plain(tmp_path, "good", "--again", *STEPS, *FILES, "--fault", "kill-group@phase=save", "--quick", steps=300)
    fault = done.answer.faults[0]
    if not fault.caught:
        # Not every machine is quick enough: then it is unknown, and says what hits it for sure.
        assert (done.code, "kill-at-every-operation" in fault.remedy) == (3, True)
        return
    assert "open to write" in fault.caught
    assert done.answer.verdict == "pass", done.answer


def test_a_program_with_our_library_needs_no_pattern_without_our_launcher(tmp_path: Path) -> None:
    program = HERE / "counting.py"
    faults = ("--fault", "kill-rank@step=70", "--fault", "exit@step=130")
    done = drill(program, tmp_path, "--again", "--seed", 4, *faults, "--", sys.executable, program.name, 200)
    assert done.answer.verdict == "pass", done.answer
    assert [fault.blur_steps for fault in done.answer.faults] == [0, 0]


def test_where_nothing_tells_the_steps_that_is_said_before_the_faults(tmp_path: Path) -> None:
    done = plain(tmp_path, "silent", "--again", *FILES, *KILL)
    assert (done.code, done.answer.verdict, done.answer.disturbed) == (3, "unknown", None)
    assert "--step-pattern" in done.answer.remedy


def test_a_command_that_never_checkpoints_fails_before_the_faults(tmp_path: Path) -> None:
    done = plain(tmp_path, "good", "--again", *STEPS, "--checkpoints", "elsewhere/*.pt", *KILL, steps=20)
    assert (done.code, done.answer.verdict, done.answer.disturbed) == (1, "fail", None)
    assert "never checkpoints" in done.answer.reason


def test_a_job_that_is_over_before_the_fault_is_unknown_and_says_what_to_change(tmp_path: Path) -> None:
    done = plain(tmp_path, "good", "--again", *STEPS, *FILES, "--fault", "kill-rank@step=999", steps=20)
    assert (done.code, done.answer.verdict) == (3, "unknown")
    assert "earlier moment than step=999" in done.answer.remedy
    assert done.answer.faults[0].at is None


def test_a_victim_that_does_not_exist_is_unknown(tmp_path: Path) -> None:
    done = plain(tmp_path, "good", "--again", *STEPS, *FILES, "--fault", "kill-rank,which=7@step=12", steps=40)
    assert (done.code, done.answer.verdict) == (3, "unknown")


def test_a_command_that_fails_undisturbed_is_unknown_with_its_last_words(tmp_path: Path) -> None:
    program = tmp_path / "broken.py"
    program.write_text("print('before', flush=True); raise SystemExit('out of luck')")
    done = drill(program, tmp_path, "--again", *STEPS, "--", sys.executable, program.name)
    assert (done.code, done.answer.verdict) == (3, "unknown")
    assert done.answer.undisturbed is not None
    assert done.answer.undisturbed.last_words == ["before", "out of luck"]


def test_a_job_that_another_end_shows_to_have_gone_wrong_fails(tmp_path: Path) -> None:
    program = tmp_path / "counts_starts.py"
    # It resumes, and then ends a step early, as one whose total counts what it did before.
    program.write_text(
        "import os, pathlib, time, waiting\nstate = pathlib.Path('state-1.txt')\n"
        "begin = int(state.read_text()) if state.exists() else 0\n"
        "for step in range(begin + 1, 40 if begin else 41):\n"
        "    time.sleep(0.02); pathlib.Path('new').write_text(str(step)); os.replace('new', state)\n"
        "    print('step', step, flush=True)\n"
        "    if step == 9: waiting.until_struck()\n"
    )
    done = drill(
        program, tmp_path, "--again", *STEPS, "--fault", "kill-rank@step=9", "--", sys.executable, program.name
    )
    assert (done.code, done.answer.verdict) == (1, "fail")
    assert done.answer.reason == "it ended at step 39; undisturbed it ends at step 40"
