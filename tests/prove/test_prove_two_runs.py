"""Two runs that are there already, held against each other."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from lastgood.cli.answers import ANSWERS
from lastgood.cli.main import main
from lastgood.prove.difference import Comparison, not_comparable
from lastgood.prove.two_runs import _judged
from lastgood.prove.verdict import Answer

PROGRAM = """
import sys
import numpy as np
import lastgood

job, lr, steps, nudge = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
weights = np.zeros(3)
run = lastgood.Run({"weights": weights}, job=job, every=2, config={"lr": lr})
for step in run.steps(steps):
    weights += lr * step + (nudge if step == 4 else 0.0)
    run.log(total=float(weights.sum()))
"""


@pytest.fixture(scope="module")
def make_job(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    place = tmp_path_factory.mktemp("two-runs")
    (place / "program.py").write_text(PROGRAM)

    def make(name: str, lr: float = 0.5, steps: int = 6, nudge: float = 0.0) -> Path:
        job = place / name
        if not job.exists():
            words = [sys.executable, "program.py", name, str(lr), str(steps), str(nudge)]
            subprocess.run(words, cwd=place, check=True, timeout=120, capture_output=True)
        return job

    return make


def compared(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, Any]:
    code = main(["prove", "--json", "--compare", *map(str, words)])
    said = capsys.readouterr()
    return code, msgspec.json.decode(said.out.encode(), type=ANSWERS["prove --compare"], strict=True)


@pytest.mark.slow
def test_equal_jobs_are_identical_in_values_and_state(
    make_job: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    code, answer = compared(capsys, make_job("first"), make_job("again"))
    assert (code, answer.answer) == (0, "identical")
    assert {part.name: part.kind for part in answer.parts} == {
        "logged values": "identical",
        "values of saved state": "identical",
    }


@pytest.mark.slow
def test_the_first_difference_is_told_by_step_and_name(
    make_job: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    code, answer = compared(capsys, make_job("first"), make_job("nudged", nudge=1e-9))
    assert (code, answer.answer) == (1, "diverged")
    assert answer.reason.startswith("logged values: step 4, total:")
    code, answer = compared(capsys, make_job("first"), make_job("nudged", nudge=1e-9), "--rtol", "1e-6")
    assert (code, answer.answer) == (0, "within tolerance")


@pytest.mark.slow
def test_jobs_of_different_configurations_are_not_runs_of_the_same_work(
    make_job: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    code, answer = compared(capsys, make_job("first"), make_job("other", lr=0.25))
    assert (code, answer.answer) == (3, "unknown")
    assert "lr: 0.5 against 0.25" in answer.reason


@pytest.mark.slow
def test_where_one_has_no_checkpoint_it_is_said_that_configurations_are_not_compared(
    make_job: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(make_job("first"), tmp_path / "bare")
    shutil.rmtree(tmp_path / "bare" / "checkpoints")
    (tmp_path / "bare" / "checkpoints").mkdir()
    _, answer = compared(capsys, make_job("first"), tmp_path / "bare")
    assert any("configurations and environments are not compared" in note for note in answer.notes)


@pytest.mark.slow
def test_one_that_did_not_come_as_far_is_not_equal_although_all_that_it_has_is(
    make_job: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    code, answer = compared(capsys, make_job("first"), make_job("short", steps=4))
    assert (code, answer.answer) == (1, "diverged")
    assert answer.reason == "one logged until step 6, the other until step 4"


def test_files_are_compared_by_content(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "a.npy", np.arange(4.0))
    np.save(tmp_path / "same.npy", np.arange(4.0))
    np.save(tmp_path / "b.npy", np.array([0.0, 1.0, 2.0, 3.0 + 1e-12]))
    assert main(["prove", "--compare", str(tmp_path / "a.npy"), str(tmp_path / "same.npy")]) == 0
    assert "IDENTICAL: 4 values in final files equal bit for bit" in capsys.readouterr().out
    assert main(["prove", "--compare", str(tmp_path / "a.npy"), str(tmp_path / "b.npy")]) == 1
    assert "DIVERGED" in capsys.readouterr().out


def test_what_cannot_be_compared_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "a.npy", np.arange(4.0))
    (tmp_path / "results").mkdir()
    assert main(["prove", "--compare", str(tmp_path / "a.npy"), str(tmp_path / "results")]) == 3
    assert "cannot be compared" in capsys.readouterr().out


def test_nothing_compared_is_never_identical(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.npy", "b.npy"):
        np.save(tmp_path / name, np.zeros(0))
    assert main(["prove", "--compare", str(tmp_path / "a.npy"), str(tmp_path / "b.npy")]) == 3
    assert "UNKNOWN: values in final files cannot be compared" in capsys.readouterr().out


def test_directories_that_both_hold_an_empty_file_beside_others_are_compared_by_these(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for side in ("left", "right"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "err.log").touch()
        np.save(tmp_path / side / "a.npy", np.arange(4.0))
    assert main(["prove", "--compare", str(tmp_path / "left"), str(tmp_path / "right")]) == 0
    assert "IDENTICAL: 4 values in final files" in capsys.readouterr().out


def test_equal_values_do_not_answer_for_a_state_that_cannot_be_compared() -> None:
    equal, unknown = Comparison(kind="identical", compared=20), not_comparable("b has no committed checkpoint")
    two = _judged((("logged values", equal), ("values of saved state", unknown)), (), "")
    assert two.answer is Answer.UNKNOWN
    assert two.reason == "values of saved state cannot be compared: b has no committed checkpoint"


def test_one_and_the_same_is_no_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "--compare", str(tmp_path), f"{tmp_path}/."]) == 2
    assert "the same" in capsys.readouterr().err


def test_one_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "--compare", str(tmp_path), str(tmp_path / "gone")]) == 66
    assert f"{tmp_path / 'gone'} is not there" in capsys.readouterr().err


def test_a_command_beside_it_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "--compare", str(tmp_path), str(tmp_path), "--", "true"]) == 2
    assert "nothing is run" in capsys.readouterr().err
