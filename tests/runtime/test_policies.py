"""What the loop does about saves: when they fail, which checkpoints stay, and what misuse is refused."""

import errno
import gc
import os
import re
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lastgood
from descriptors import open_descriptors
from lastgood.core import layout
from lastgood.core.errors import (
    FencedError,
    JobBusyError,
    PermissionDeniedError,
    StorageError,
    UnprotectedError,
    UsageError,
)
from lastgood.store import writer
from lastgood.store.attempts import attempt_numbers, claim_attempt, read_events
from lastgood.store.catalogue import list_checkpoints, set_mark
from lastgood.store.jobdir import open_job
from lastgood.store.rank_state import rank_state
from lastgood.store.reader import open_checkpoint

Start = Callable[..., lastgood.Run]
Said = pytest.CaptureFixture[str]


def steps_of(path: Path) -> list[int]:
    """Steps of the committed checkpoints, rising."""
    return sorted(c.step for c in list_checkpoints(open_job(path)) if c.is_committed)


def stored(path: Path, step: int, name: str) -> np.ndarray:
    """One array of the committed checkpoint of that step, as its file has it."""
    job = open_job(path)
    checkpoint = open_checkpoint(job, next(c.name for c in list_checkpoints(job) if c.step == step))
    return np.frombuffer(checkpoint.read(0, [name])[name])


def events(path: Path, kind: str) -> list[dict[str, Any]]:
    job = open_job(path)
    return [e.data for n in attempt_numbers(job) for e in read_events(job, n) if e.kind == kind]


class Disk:
    """The checkpoints' file system, full or failing when told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error = 0
        for name in ("write", "pwrite", "pwritev"):
            monkeypatch.setattr(os, name, self._guard(getattr(os, name)))

    def _guard(self, real: Callable[..., int]) -> Callable[..., int]:
        def guarded(fd: int, *rest: Any) -> int:
            if self.error and f"/{layout.CHECKPOINTS_DIR}/" in os.readlink(f"/proc/self/fd/{fd}"):
                raise OSError(self.error, os.strerror(self.error))
            return real(fd, *rest)

        return guarded


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


# A save that fails --------------------------------------------------------------------------------------------


def test_training_carries_on_loudly_while_saves_fail_and_the_next_one_that_can_works(
    start: Start, path: Path, disk: Disk, capsys: Said
) -> None:
    x = np.zeros(4)
    run = start({"x": x})
    for step in run.steps(8):
        x += 1
        disk.error = errno.ENOSPC if 3 <= step <= 5 else 0
    said = capsys.readouterr().err
    assert steps_of(path) == [6, 7, 8]
    assert stored(path, 8, "x").tolist() == [8.0] * 4
    for step in (3, 4, 5):
        assert f"SAVE FAILED at step {step}; carrying on from the last good one, step 2" in said
    assert "No space left on device" in said
    assert "free space there" in said
    assert [e["step"] for e in events(path, "save_failed")] == [3, 4, 5]


def test_a_save_that_failed_leaves_the_older_ones_and_nothing_of_its_own(start: Start, path: Path, disk: Disk) -> None:
    x = np.zeros(300_000)
    run = start({"x": x}, keep=lastgood.Keep(last=1))
    for step in run.steps(5):
        x += 1
        disk.error = errno.EIO if step == 2 else 0
        if step == 3:
            assert steps_of(path) == [1]
            assert len(list((path / "checkpoints").iterdir())) == 1
            assert (stored(path, 1, "x") == 1).all()
    assert steps_of(path) == [5]


def test_the_first_save_that_cannot_work_leaves_a_job_that_starts_from_zero_again(
    start: Start, path: Path, disk: Disk, capsys: Said
) -> None:
    x = np.zeros(4)
    run = start({"x": x})
    loop = run.steps(3)
    disk.error = errno.ENOSPC
    next(loop), next(loop)
    run.close()
    assert "SAVE FAILED at step 1; carrying on from the last good one, step 0" in capsys.readouterr().err
    assert start({"x": x}).step == 0
    assert "starts from zero" in capsys.readouterr().err


def test_stop_at_the_first_save_that_fails(start: Start, path: Path, disk: Disk) -> None:
    run = start({"x": np.zeros(4)}, on_save_error="stop")
    with pytest.raises(StorageError, match="No space left on device") as caught:
        for step in run.steps(8):
            disk.error = errno.ENOSPC if step == 3 else 0
    assert caught.value.exit_code == 74
    assert "earlier checkpoints are untouched" in str(caught.value)
    assert (run.step, steps_of(path)) == (3, [1, 2])
    disk.error = 0
    run.close()
    assert start({"x": np.zeros(4)}).step == 2


def test_no_permission_has_its_own_code(start: Start, disk: Disk) -> None:
    run = start({"x": np.zeros(4)}, on_save_error="stop")
    disk.error = errno.EACCES
    with pytest.raises(PermissionDeniedError):
        list(run.steps(2))


def test_carrying_on_ends_when_no_checkpoint_is_younger_than_the_limit(start: Start, path: Path, disk: Disk) -> None:
    run = start({"x": np.zeros(4)}, unprotected_limit="0s")
    with pytest.raises(UnprotectedError, match="the limit is 0 s") as caught:
        for step in run.steps(8):
            disk.error = errno.ENOSPC if step == 3 else 0
    assert caught.value.exit_code == 85
    assert "No space left on device" in str(caught.value)
    assert "free space" in str(caught.value)
    assert steps_of(path) == [1, 2]


def test_the_last_save_cannot_be_made_up_for_and_is_an_error_even_if_saves_may_fail(
    start: Start, path: Path, disk: Disk
) -> None:
    run = start({"x": np.zeros(4)}, every=100)
    disk.error = errno.ENOSPC
    with pytest.raises(StorageError):
        list(run.steps(3))
    assert open_job(path).finished() is None
    disk.error = 0
    run.finish()
    finished = open_job(path).finished()
    assert finished is not None
    assert finished.step == 3


def test_a_state_that_becomes_unstorable_stops_whatever_the_policy(start: Start, path: Path) -> None:
    class Odd:
        value: object = 1

        def state_dict(self) -> dict[str, object]:
            return {"value": self.value}

        def load_state_dict(self, state: dict[str, object]) -> None:
            self.value = state["value"]

    odd = Odd()
    run = start({"odd": odd})
    with pytest.raises(lastgood.LastgoodError, match=r"odd\.value: cannot store a value of type function") as caught:
        for step in run.steps(4):
            if step == 3:
                odd.value = lambda: None
    assert caught.value.exit_code == 68
    assert steps_of(path) == [1, 2]


def test_a_policy_that_is_none_is_refused(path: Path) -> None:
    with pytest.raises(UsageError, match="'warn' or 'stop'"):
        lastgood.Run({}, job=path, on_save_error="ignore")  # type: ignore[arg-type]
    assert not path.exists()


# Retention during the loop -------------------------------------------------------------------------------------


def train(run: lastgood.Run, steps: int, values: dict[int, float] | None = None) -> None:
    for step in run.steps(steps):
        if values is not None and step in values:
            run.log(score=values[step])


def test_the_last_ones_stay(start: Start, path: Path) -> None:
    train(start(keep=lastgood.Keep(last=2)), 7)
    assert steps_of(path) == [6, 7]


def test_all_stay_if_that_is_wanted(start: Start, path: Path) -> None:
    train(start(keep=lastgood.Keep(last=None)), 6)
    assert steps_of(path) == [1, 2, 3, 4, 5, 6]


def test_every_nth_stays(start: Start, path: Path) -> None:
    train(start(keep=lastgood.Keep(last=1, every=3)), 8)
    assert steps_of(path) == [3, 6, 8]


SCORES = {1: 0.5, 2: 0.9, 3: float("nan"), 4: 0.1, 5: 0.7, 6: float("inf"), 7: 0.6, 8: 0.4}


@pytest.mark.parametrize(("mode", "expected"), [("max", [2, 5, 8]), ("min", [4, 8])])
def test_the_best_stay_and_neither_nan_nor_infinity_is_one(
    start: Start, path: Path, mode: Any, expected: list[int]
) -> None:
    train(start(keep=lastgood.Keep(last=1, best=2, metric="score", mode=mode)), 8, SCORES)
    assert steps_of(path) == expected


def test_a_metric_that_nobody_logs_keeps_nothing_beyond_the_last(start: Start, path: Path) -> None:
    train(start(keep=lastgood.Keep(last=1, best=2, metric="score")), 5)
    assert steps_of(path) == [5]


def test_the_best_is_the_one_that_was_measured_and_not_a_later_one_that_carries_its_value(
    start: Start, path: Path
) -> None:
    train(start(keep=lastgood.Keep(last=1, best=1, metric="score")), 8, {2: 0.9, 6: 0.5})
    assert steps_of(path) == [2, 8]


def train_epochs(run: lastgood.Run, scores: list[float]) -> None:
    """Four steps an epoch; what its body logs after them is its score."""
    for epoch in run.epochs(len(scores)):
        for _ in run.batches(range(4)):
            pass
        run.safe_point("evaluation")
        run.log(score=scores[epoch - 1])


@pytest.mark.parametrize("every", [1, 3, 4, 100])
def test_the_best_epoch_is_kept_with_its_own_value_wherever_saves_are_due(start: Start, path: Path, every: int) -> None:
    train_epochs(start(every=every, keep=lastgood.Keep(last=1, best=1, metric="score")), [0.1, 0.9, 0.2, 0.3])
    job = open_job(path)
    metrics = {c.step: open_checkpoint(job, c.name).manifest.metrics for c in list_checkpoints(job)}
    assert metrics == {8: {"score": 0.9}, 16: {"score": 0.3}}


def test_no_epochs_end_is_saved_for_a_metric_that_nothing_is_kept_by(start: Start, path: Path) -> None:
    train_epochs(start(every=3, keep=lastgood.Keep(last=None)), [0.1, 0.9])
    assert steps_of(path) == [3, 6, 8]


def test_the_best_stay_across_attempts(start: Start, path: Path) -> None:
    keep = lastgood.Keep(last=1, best=1, metric="score")
    run = start(keep=keep)
    train(run, 3, {1: 0.1, 2: 0.9, 3: 0.2})
    run.close()
    train(start(keep=keep), 6, {4: 0.3, 5: 0.8, 6: 0.4})
    assert steps_of(path) == [2, 6]


def test_pinned_ones_stay(start: Start, path: Path) -> None:
    run = start(keep=lastgood.Keep(last=1))
    for step in run.steps(6):
        if step == 3:
            job = open_job(path)
            set_mark(job, layout.checkpoint_name(2, 1), layout.PINNED_FILE, "for a paper")
    assert steps_of(path) == [2, 6]


def test_nothing_is_deleted_unless_the_new_one_reads_back_whole(start: Start, path: Path) -> None:
    """The newest is damaged on the disk right after its commit: the one before it stays as well."""
    run = start({"x": np.zeros(4)}, keep=lastgood.Keep(last=1), every=2)
    real = writer.CheckpointWriter.commit

    def commit_and_damage(self: writer.CheckpointWriter, *args: Any, **settings: Any) -> Any:
        manifest = real(self, *args, **settings)
        if self.step == 4:
            os.truncate(self.directory / layout.data_file(0), 3)
        return manifest

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer.CheckpointWriter, "commit", commit_and_damage)
        for step in run.steps(8):
            if step == 5:
                listed = {c.step: c.rejected for c in list_checkpoints(open_job(path))}
                assert set(listed) == {2, 4}
                assert listed[4]
                assert not listed[2]
    assert steps_of(path) == [8]


# Saving and ending on demand -------------------------------------------------------------------------------------


def test_a_save_that_is_asked_for_comes_at_the_next_safe_point_once(start: Start, path: Path) -> None:
    x = np.zeros(2)
    run = start({"x": x}, every=100, keep=lastgood.Keep(last=None))
    for step in run.steps(6):
        if step == 3:
            run.save()
            run.save()
        x += 1
        assert steps_of(path) == ([3] if step > 3 else [])
    assert steps_of(path) == [3, 6]
    assert stored(path, 3, "x").tolist() == [3.0, 3.0]


def test_a_safe_point_inside_a_step_saves_only_if_the_step_is_done(start: Start, path: Path) -> None:
    run = start(every=100, keep=lastgood.Keep(last=None))
    for step in run.steps(4):
        run.save()
        run.safe_point("half way")
        assert step not in steps_of(path)
        run.safe_point("evaluation", step_is_done=True)
        # The last step is committed once: at the end, with what its body still does.
        assert (step in steps_of(path)) == (step < 4)
    assert steps_of(path) == [1, 2, 3, 4]


def test_ending_early_counts_the_step_under_way_and_marks_the_job(start: Start, path: Path) -> None:
    x = np.zeros(2)
    run = start({"x": x}, every=100)
    for step in run.steps(100):
        x += 1
        if step == 3:
            run.finish()
            break
    finished = open_job(path).finished()
    assert finished is not None
    assert (finished.step, run.step, steps_of(path)) == (3, 3, [3])
    assert stored(path, 3, "x").tolist() == [3.0, 3.0]


def test_more_steps_than_were_finished_before_go_on_from_there(start: Start, path: Path) -> None:
    run = start()
    assert list(run.steps(3)) == [1, 2, 3]
    assert list(run.steps(5)) == [4, 5]
    run.close()
    again = start()
    assert again.step == 5
    assert list(again.steps(5)) == []
    seen = []
    for step in again.steps(7):
        assert open_job(path).finished() is None, "a job that goes on is not finished"
        seen.append(step)
    assert seen == [6, 7]
    finished = open_job(path).finished()
    assert finished is not None
    assert finished.step == 7


def test_fewer_steps_than_are_done_are_refused_and_nothing_changes(start: Start, path: Path) -> None:
    run = start()
    list(run.steps(5))
    before = {p: p.stat().st_mtime_ns for p in path.rglob("*")}
    with pytest.raises(UsageError, match=r"has done 5 steps already; steps\(3\) would go backwards") as caught:
        list(run.steps(3))
    assert "nothing was changed" in str(caught.value)
    assert {p: p.stat().st_mtime_ns for p in path.rglob("*")} == before
    finished = open_job(path).finished()
    assert finished is not None
    assert finished.step == 5


def test_no_steps_at_all_is_a_finished_job(start: Start, path: Path) -> None:
    assert list(start().steps(0)) == []
    finished = open_job(path).finished()
    assert finished is not None
    assert finished.step == 0


@pytest.mark.parametrize("total", [-1, 2.0, "3", None, True])
def test_a_number_of_steps_is_a_whole_number(start: Start, total: Any) -> None:
    run = start()
    for loop in (run.steps, run.epochs):
        with pytest.raises(UsageError, match="not a number of steps or epochs"):
            next(loop(total))


# Two at once -------------------------------------------------------------------------------------------------------


def test_a_second_run_on_the_job_in_one_process_is_refused_and_the_first_goes_on(start: Start, path: Path) -> None:
    first = start()
    loop = first.steps(4)
    next(loop), next(loop)
    with pytest.raises(JobBusyError, match=re.escape(str(path))):
        start()
    assert list(loop) == [3, 4]
    assert steps_of(path) == [2, 3, 4]


def test_a_run_that_a_newer_attempt_has_replaced_commits_nothing(start: Start, path: Path) -> None:
    run = start()
    loop = run.steps(9)
    for _ in range(3):
        next(loop)
    before = steps_of(path)
    claim_attempt(open_job(path), "another")
    with pytest.raises(FencedError) as caught:
        next(loop)
    assert caught.value.exit_code == 81
    assert steps_of(path) == before == [1, 2]


def test_after_one_is_closed_the_next_may_begin_in_the_same_process(start: Start) -> None:
    with start() as run:
        list(run.steps(2))
    with start() as run:
        assert run.step == 2
        assert list(run.steps(3)) == [3]


# Epochs and batches ------------------------------------------------------------------------------------------------


def test_batches_outside_of_epochs_are_refused(start: Start) -> None:
    with pytest.raises(UsageError, match="belongs inside"):
        next(iter(start().batches([1, 2])))


def test_fewer_epochs_than_are_done_are_refused(start: Start) -> None:
    run = start()
    for _ in run.epochs(3):
        list(run.batches([1, 2]))
    run.close()
    run = start()
    with pytest.raises(UsageError, match=r"has done 3 epochs already; epochs\(2\) would go backwards"):
        list(run.epochs(2))
    seen = [(epoch, batch) for epoch in run.epochs(4) for batch in run.batches(["a", "b"])]
    assert seen == [(4, "a"), (4, "b")]
    assert run.step == 8


Seen = list[tuple[int, str, int]]


def two_loaders(run: lastgood.Run, seen: Seen, stop_at: int | None = None) -> None:
    """Three batches of one loader, two of another, in each of three epochs; `stop_at` ends before that step."""
    for epoch in run.epochs(3):
        for name, count in (("train", 3), ("tune", 2)):
            for batch in run.batches(range(count)):
                if run.step + 1 == stop_at:
                    raise KeyboardInterrupt
                seen.append((epoch, name, batch))


@pytest.mark.parametrize("stop_at", range(1, 16))
def test_two_loaders_in_an_epoch_go_on_wherever_they_were_left(start: Start, path: Path, stop_at: int) -> None:
    expected = [(e, n, b) for e in (1, 2, 3) for n, count in (("train", 3), ("tune", 2)) for b in range(count)]
    seen: Seen = []
    with pytest.raises(KeyboardInterrupt), start() as run:
        two_loaders(run, seen, stop_at)
    with start() as run:
        # After the last known batch of the last epoch a save waits for one more safe point: the end may be next.
        assert run.step == (12 if stop_at == 14 else stop_at - 1)
        del seen[run.step :]
        two_loaders(run, seen)
    assert seen == expected


@pytest.mark.parametrize("stop_at", [None, 2, 3, 4, 5, 6])
def test_a_batch_that_is_left_with_break_is_done_and_the_last_of_its_epoch(start: Start, stop_at: int | None) -> None:
    seen: list[tuple[int, int]] = []

    def train(run: lastgood.Run, stop_at: int | None = None) -> None:
        for epoch in run.epochs(3):
            for batch in run.batches(range(10)):
                if run.step + 1 == stop_at:
                    raise KeyboardInterrupt
                seen.append((epoch, batch))
                if batch == 1:
                    break

    if stop_at is not None:
        with pytest.raises(KeyboardInterrupt), start() as run:
            train(run, stop_at)
    with start() as run:
        train(run)
        assert run.step == 6
    assert seen == [(epoch, batch) for epoch in (1, 2, 3) for batch in (0, 1)]


def test_an_epoch_that_is_left_with_break_does_not_finish_the_job(start: Start, path: Path) -> None:
    run = start()
    for epoch in run.epochs(5):
        list(run.batches([1, 2]))
        if epoch == 2:
            break
    assert open_job(path).finished() is None
    run.finish()
    finished = open_job(path).finished()
    assert finished is not None
    assert finished.step == 4


# What is captured --------------------------------------------------------------------------------------------------


def test_a_checkpoint_holds_the_state_of_its_safe_point_although_state_dict_gives_the_live_objects(
    start: Start, path: Path
) -> None:
    class Live:
        def __init__(self) -> None:
            self.content: dict[str, Any] = {"array": np.zeros(200_000), "seen": []}

        def state_dict(self) -> dict[str, Any]:
            return self.content

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.content = state

    live = Live()
    run = start({"live": live}, keep=lastgood.Keep(last=None))
    run.values["history"] = history = []
    for step in run.steps(4):
        live.content["array"] += 1
        live.content["seen"].append(step)
        history.append(step)
    live.content["array"][:] = -1
    job = open_job(path)
    checkpoints = list_checkpoints(job)
    assert len(checkpoints) == 4
    for listed in checkpoints:
        entries = rank_state(open_checkpoint(job, listed.name), 0).entries
        assert (stored(path, listed.step, "live.array") == listed.step).all()
        assert entries["live"]["seen"] == list(range(1, listed.step + 1))
        assert entries["lastgood.values"]["history"] == list(range(1, listed.step + 1))


# Three hundred saves -----------------------------------------------------------------------------------------------


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def watched(run: lastgood.Run, steps: int, after: int) -> Iterator[tuple[int, int, int]]:
    """Descriptors, objects and bytes in use, `after` steps from the beginning and at the end."""
    for step in run.steps(steps):
        if step in (after, steps):
            gc.collect()
            yield len(open_descriptors()), len(gc.get_objects()), resident()


@pytest.mark.slow
def test_three_hundred_saves_take_no_more_memory_or_descriptors_than_thirty(
    start: Start, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the state that is kept by each save would be 270 MB more; a hundred objects each, 27 000 more."""
    # Flushing is not what is watched here, and 2000 flushes take their time.
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    run = start({"x": np.ones(125_000)}, keep=lastgood.Keep(last=2))
    early, late = watched(run, 300, 30)
    assert run.step == 300
    assert steps_of(path) == [299, 300]
    assert late[0] <= early[0]
    assert late[1] - early[1] < 2_000
    assert late[2] - early[2] < 30e6
