"""Loops: what counts as a step, when it is saved, what is the final state, what is logged."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lastgood
from lastgood.core.errors import LastgoodError, StateMismatchError, UnstorableError
from lastgood.store.jobdir import open_job
from lastgood.store.reader import open_checkpoint
from runtime.conftest import both_ways, names

pytestmark = both_ways

Start = Callable[..., lastgood.Run]


def steps_saved(path: Path) -> list[int]:
    return sorted(int(name.split("-")[0]) for name in names(path))


def test_steps_are_numbered_from_one_and_saved_as_asked(start: Start, path: Path) -> None:
    run = start(every=3, keep=lastgood.Keep(last=None))
    assert list(run.steps(10)) == list(range(1, 11))
    assert steps_saved(path) == [3, 6, 9, 10]
    assert open_job(path).finished() is not None


def test_more_steps_than_before_take_the_mark_away_while_they_run(start: Start, path: Path) -> None:
    run = start()
    list(run.steps(2))
    run.close()
    run = start()
    for step in run.steps(3):
        assert step == 3
        assert open_job(path).finished() is None
    finished = open_job(path).finished()
    assert finished is not None
    assert finished.step == 3


def test_more_epochs_than_before_take_the_mark_away_while_they_run(start: Start, path: Path) -> None:
    for total in (1, 2):
        run = start()
        for epoch in run.epochs(total):
            assert open_job(path).finished() is None, epoch
            list(run.batches(range(3)))
        run.close()
    assert run.step == 6


def test_a_second_loop_does_not_rewind_random_numbers(start: Start) -> None:
    run = start()
    np.random.seed(1)
    list(run.steps(2))
    run.close()
    run = start()
    drawn = []
    for total in (3, 4):
        drawn += [np.random.rand() for _ in run.steps(total)]
    assert drawn[0] != drawn[1]


def test_a_step_that_raised_is_done_again(start: Start) -> None:
    run = start()
    seen = []
    for _ in range(2):
        try:
            for step in run.steps(3):
                seen.append(step)
                if len(seen) == 2:
                    raise KeyError
        except KeyError:
            continue
    assert seen == [1, 2, 2, 3]


def test_samples_per_epoch_are_exact_over_three_epochs_with_saves_at_their_ends(start: Start, path: Path) -> None:
    seen: dict[int, list[int]] = {}

    def go(until: int) -> None:
        sampler = lastgood.ResumableSampler(23, batch_size=4, seed=2)
        run = start(every=1)
        for epoch in run.epochs(3):
            for batch in run.batches(sampler):
                seen.setdefault(epoch, []).extend(batch.tolist())
                if run.step + 1 == until:
                    run.safe_point("x", step_is_done=True)
                    run.close()
                    return
            assert len(sampler) == 6
        run.close()

    # Six batches per epoch: within one, at its last batch, and right after.
    for until in (3, 6, 7, 12, 14, 0):
        go(until)
    assert [sorted(seen[epoch]) for epoch in (1, 2, 3)] == [list(range(23))] * 3
    assert seen[1] != seen[2]


def test_a_loader_that_became_shorter_is_noticed(start: Start) -> None:
    run = start()
    for _ in run.epochs(1):
        for batch in run.batches(range(9)):
            if batch == 5:
                run.safe_point("x", step_is_done=True)
                run.close()
                break
        break
    run = start()
    with pytest.raises(StateMismatchError, match="ended after 3 batches, but 6 were done"):
        for _ in run.epochs(1):
            list(run.batches(range(3)))


def test_the_final_state_holds_what_the_last_epochs_body_did(start: Start, path: Path) -> None:
    # Each batch is a step to save at, and so is the last one, after which the body goes on.
    run = start(every=1)
    for epoch in run.epochs(2):
        list(run.batches(range(3)))
        run.values["evaluated"] = epoch
    entries = open_checkpoint(open_job(path), names(path)[0]).part(0).entries
    assert entries["lastgood.values"] == {"evaluated": 2}
    assert entries["lastgood.progress"]["position"]["epoch"] == 3


def test_an_attempt_that_only_finishes_the_last_epoch_saves_its_end(start: Start, path: Path) -> None:
    run = start(every=100)
    for _ in run.epochs(1):
        list(run.batches(range(3)))
        run.save()
        # A stop in the last evaluation saves what there is.
        run._session._signals.stop_signal = "SIGTERM"  # type: ignore[union-attr]
        with pytest.raises(SystemExit):
            run.safe_point("evaluation")
        break
    run.close()
    assert steps_saved(path) == [3]
    run = start(every=100)
    for _ in run.epochs(1):
        assert list(run.batches(range(3))) == []
        run.values["evaluated"] = True
    assert names(path) == ["000000000003-0002", "000000000003-0001"]
    assert open_job(path).finished() is not None


def test_values_of_every_storable_kind_come_back(start: Start) -> None:
    values = {
        "int": 2**100, "float": float("nan"), "inf": float("-inf"), "text": "x\ud800", "bytes": b"\0", "none": None,
        "tuple": (1, (2,)), "set": {1, 2}, "keys": {1: "a", (2, 3): "b"}, "numpy": np.float32(0.1),
        "array": np.arange(3), "$odd": 1, "complex": 1j,
    }  # fmt: skip
    run = start()
    run.values.update(values)
    list(run.steps(1))
    run.close()
    back = start().values
    assert repr(sorted(back.items(), key=str)) == repr(sorted(values.items(), key=str))


def test_a_value_that_cannot_be_stored_is_named(start: Start) -> None:
    run = start()
    run.values["best"] = {"f": [lambda: 0]}
    with pytest.raises(UnstorableError, match=r"run\.values\.best\.f\.0: cannot store"):
        list(run.steps(1))


def test_logged_values_belong_to_their_steps(start: Start, path: Path) -> None:
    run = start(every=2)
    run.log(before=0)
    for step in run.steps(4):
        run.log(loss=step)
        run.safe_point("evaluation", step_is_done=True)
        run.log(accuracy=step)
    run.log(final=1)
    run.close()
    log = lastgood.read_log(path)
    assert log == {0: {"before": 0}} | {s: {"loss": s, "accuracy": s} for s in (1, 2, 3)} | {
        4: {"loss": 4, "accuracy": 4, "final": 1}
    }


def test_a_resumed_attempt_takes_back_what_was_logged_beyond(start: Start, path: Path) -> None:
    run = start(every=3)
    with pytest.raises(KeyError):
        for step in run.steps(10):
            run.log(loss=step, only_then=1)
            if step == 8:
                raise KeyError
    run.close()
    assert set(lastgood.read_log(path)) == set(range(1, 8))
    run = start(every=3)
    run.log(note="resumed")
    for step in run.steps(10):
        if step == 8:
            break
        run.log(loss=-step)
    run.close()
    log = lastgood.read_log(path)
    assert set(log) == set(range(1, 8))
    assert log[6] == {"loss": 6, "only_then": 1, "note": "resumed"}
    assert log[7] == {"loss": -7}


@pytest.mark.parametrize("value", [np.zeros(2), object(), {"a": np.float32(1)}])
def test_what_cannot_be_logged_is_named(start: Start, value: Any) -> None:
    with pytest.raises(UnstorableError, match=r"run\.log\(loss=\.\.\.\)"):
        start().log(loss=value)


def test_two_runs_of_different_jobs_in_one_process(start: Start, tmp_path: Path) -> None:
    first, second = start(), start(job=tmp_path / "second")
    for _ in first.steps(2):
        list(second.steps(second.step + 1))
    assert (first.step, second.step) == (2, 2)


def test_a_step_number_has_a_limit(start: Start) -> None:
    run = start()
    run.step = 10**12 - 1
    with pytest.raises(LastgoodError, match="at most"):
        list(run.steps(10**12 + 5))
