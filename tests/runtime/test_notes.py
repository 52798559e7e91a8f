"""What a run says of a mistake that would otherwise show only after the next kill."""

from pathlib import Path

import numpy as np
import pytest

import lastgood
from lastgood.core.errors import StorageError
from lastgood.store.attempts import read_events
from lastgood.store.jobdir import open_job
from lastgood.store.sweep import Retention


def steps(run: lastgood.Run, total: int, body) -> None:
    for step in run.steps(total):
        body(step)


def test_a_loop_that_rebinds_its_array_is_told_so_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    w = np.zeros(4)
    with lastgood.Run({"w": w}, job=tmp_path / "job", every=10) as run:
        for _ in run.steps(60):
            w = w + 1
    said = capsys.readouterr().err
    assert said.count("nothing in the state has changed from step 10 to step 30") == 1
    assert said.count("has changed") == 1
    assert "`w += ...`" in said


def test_a_loop_that_changes_its_array_in_place_hears_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    w = np.zeros(4)
    with lastgood.Run({"w": w}, job=tmp_path / "job", every=2) as run:
        steps(run, 60, lambda step: np.add(w, 1, out=w))
    assert "note:" not in capsys.readouterr().err


def test_plain_values_that_change_are_a_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with lastgood.Run({"w": np.zeros(4)}, job=tmp_path / "job", every=2) as run:
        steps(run, 60, lambda step: run.values.update(count=step))
    assert "note:" not in capsys.readouterr().err


def test_a_state_that_stands_still_for_a_few_steps_only_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    w = np.zeros(4)
    with lastgood.Run({"w": w}, job=tmp_path / "job", every=1) as run:
        steps(run, 40, lambda step: np.add(w, step % 8 == 0, out=w))
    assert "note:" not in capsys.readouterr().err


def test_a_run_that_holds_nothing_is_left_in_peace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with lastgood.Run({}, job=tmp_path / "job", every=1) as run:
        steps(run, 40, lambda step: None)
    assert "note:" not in capsys.readouterr().err


def test_a_run_without_a_loop_is_told_that_nothing_was_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with lastgood.Run({"w": np.zeros(4)}, job=tmp_path / "job"):
        pass
    assert "no loop ran, so nothing was saved" in capsys.readouterr().err
    assert "left" in [event.kind for event in read_events(open_job(tmp_path / "job"), 1)]


def test_a_loop_that_was_left_is_told_what_is_saved_and_how_to_save_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    w = np.zeros(4)
    with lastgood.Run({"w": w}, job=tmp_path / "job", every=3) as run:
        for step in run.steps(10):
            w += 1
            if step == 6:
                break
    said = capsys.readouterr().err
    assert "left after step 5 of 10, and step 3 is the last that was saved" in said
    assert "run.finish() before `break`" in said


@pytest.mark.parametrize("ending", ["finished", "finish() before break", "exception"])
def test_an_end_that_is_known_needs_no_note(tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str) -> None:
    w = np.zeros(4)

    def body(step: int) -> None:
        np.add(w, 1, out=w)
        if ending == "exception" and step == 5:
            raise ZeroDivisionError

    try:
        with lastgood.Run({"w": w}, job=tmp_path / "job", every=2) as run:
            for step in run.steps(10):
                body(step)
                if ending == "finish() before break" and step == 5:
                    run.finish()
                    break
    except ZeroDivisionError:
        assert ending == "exception"
    assert "note:" not in capsys.readouterr().err


def test_checkpoints_that_cannot_be_deleted_are_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def apply(self: Retention) -> list[object]:
        raise StorageError("cannot delete: no")

    monkeypatch.setattr(Retention, "apply", apply)
    w = np.zeros(4)
    with lastgood.Run({"w": w}, job=tmp_path / "job", every=2) as run:
        steps(run, 10, lambda step: np.add(w, 1, out=w))
    assert capsys.readouterr().err.count("older checkpoints could not be deleted") == 1
    assert [e.data["error"] for e in read_events(open_job(tmp_path / "job"), 1) if e.kind == "not_deleted"] == [
        "cannot delete: no"
    ]
