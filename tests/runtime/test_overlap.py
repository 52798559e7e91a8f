"""overlap=True: what is copied beside the loop is of the step that was saved, bit for bit, or is thrown away loudly."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lastgood
from lastgood.core.errors import TornSnapshotError
from lastgood.runtime import copying
from lastgood.store.attempts import attempt_numbers, read_events
from lastgood.store.catalogue import list_checkpoints
from lastgood.store.jobdir import open_job
from lastgood.store.rank_state import rank_state
from lastgood.store.reader import open_checkpoint
from lastgood.store.threads import Beside
from runtime.zygote import Zygote

torch = pytest.importorskip("torch")

from runtime.overlapping import OPTIMIZERS, Big, LastMoment, train  # noqa: E402 - needs torch

pytestmark = pytest.mark.slow
KILLED = -signal.SIGKILL


@pytest.fixture(autouse=True)
def _with_keeper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LASTGOOD_KEEPER", "on")


@pytest.fixture
def last_moment() -> Iterator[LastMoment]:
    with LastMoment() as moment:
        yield moment


@pytest.fixture(autouse=True)
def _usual_size(monkeypatch: pytest.MonkeyPatch) -> None:
    from lastgood.runtime import overlap

    # The models here are small, and are to be copied beside the loop all the same.
    monkeypatch.setattr(overlap, "LEAST_BYTES", 32 * 2**10)


def contents(path: Path) -> dict[int, tuple[dict[str, Any], dict[str, bytes]]]:
    """Skeletons and arrays of every checkpoint, by step."""
    job = open_job(path)
    found = {}
    for listed in list_checkpoints(job):
        checkpoint = open_checkpoint(job, listed.name)
        entries, arrays = {}, {}
        for rank in range(checkpoint.manifest.world_size):
            state = rank_state(checkpoint, rank)
            entries[f"rank {rank}"] = state.entries
            for name, held in state.arrays.items():
                arrays[f"rank {rank}: {name}"] = bytes(checkpoint.read(held.rank, [name])[name])
        found[checkpoint.manifest.step] = (entries, arrays)
    return found


def assert_equal(mine: Path, reference: Path, steps: set[int]) -> None:
    here, there = contents(mine), contents(reference)
    assert here.keys() == there.keys() == steps
    for step in steps:
        arrays, expected = here[step][1], there[step][1]
        assert [name for name in expected if arrays.get(name) != expected[name]] == [], f"step {step}"
        assert arrays.keys() == expected.keys()
        assert here[step][0] == there[step][0], f"step {step}"


# Equal, bit for bit ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_checkpoint_is_equal_to_one_that_was_copied_at_once(
    tmp_path: Path, last_moment: LastMoment, optimizer: str
) -> None:
    # Everything that an optimizer has is copied late, its counters of steps, too.
    train(str(tmp_path / "beside"), True, optimizer, least_bytes=1)
    assert last_moment.copied_late > 20
    assert last_moment.held == 5
    train(str(tmp_path / "at once"), False, optimizer)
    assert_equal(tmp_path / "beside", tmp_path / "at once", {1, 2, 3, 4, 5, 6})


def test_steps_that_only_accumulate_gradients(tmp_path: Path, last_moment: LastMoment) -> None:
    train(str(tmp_path / "beside"), True, accumulate=3, steps=9, least_bytes=1)
    train(str(tmp_path / "at once"), False, accumulate=3, steps=9)
    assert_equal(tmp_path / "beside", tmp_path / "at once", set(range(1, 10)))


def test_usual_sizes_and_copies_that_begin_at_once(tmp_path: Path) -> None:
    train(str(tmp_path / "beside"), True, big=True, steps=12)
    train(str(tmp_path / "at once"), False, big=True, steps=12)
    assert_equal(tmp_path / "beside", tmp_path / "at once", set(range(1, 13)))


def test_an_attempt_that_was_resumed_goes_on_equal(tmp_path: Path, last_moment: LastMoment) -> None:
    for steps in (3, 6):
        train(str(tmp_path / "beside"), True, steps=steps, big=True)
    train(str(tmp_path / "at once"), False, steps=3, big=True)
    train(str(tmp_path / "at once"), False, steps=6, big=True)
    assert_equal(tmp_path / "beside", tmp_path / "at once", set(range(1, 7)))


def test_one_slot_is_enough(tmp_path: Path, last_moment: LastMoment, monkeypatch: pytest.MonkeyPatch) -> None:
    from lastgood.runtime import slots

    monkeypatch.setattr(slots, "allot", lambda *sizes: slots.Allotment(1, "little memory"))
    train(str(tmp_path / "beside"), True, big=True)
    train(str(tmp_path / "at once"), False, big=True)
    assert_equal(tmp_path / "beside", tmp_path / "at once", {1, 2, 3, 4, 5, 6})


def test_without_a_keeper_it_is_as_if_it_were_not_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LASTGOOD_KEEPER", "off")
    train(str(tmp_path / "beside"), True)
    train(str(tmp_path / "at once"), False)
    assert_equal(tmp_path / "beside", tmp_path / "at once", {1, 2, 3, 4, 5, 6})


def test_two_ranks_each_copy_their_own_part_late(programs: Zygote, tmp_path: Path) -> None:
    for name, is_overlapped in (("beside", True), ("at once", False)):
        pids = programs.ranks(
            "runtime.overlapping:train_together", job=str(tmp_path / name), is_overlapped=is_overlapped
        )
        assert [programs.wait(pid) for pid in pids] == [0, 0]
        said = [programs.output(pid) for pid in pids]
        assert all(("copied late: 0\n" in text) is not is_overlapped for text in said)
    assert_equal(tmp_path / "beside", tmp_path / "at once", {1, 2, 3, 4, 5, 6})


# What waits for the copy -----------------------------------------------------------------------------------------


def late_names(run: lastgood.Run) -> list[str]:
    """What is on its way into a slot now."""
    copy = run._session._saver._background._copy  # type: ignore[union-attr]
    return sorted(late._array.spec.name for late in copy._late) if copy is not None else []


def test_parameters_and_moments_are_copied_late_and_nothing_else(tmp_path: Path, last_moment: LastMoment) -> None:
    seen: dict[int, list[str]] = {}
    runs: list[lastgood.Run] = []

    def note(model: Any, step: int) -> None:
        if runs:
            seen[step] = late_names(runs[0])

    train(str(tmp_path / "job"), True, big=True, in_forward=note, after=lambda run, step: runs.append(run))
    weights = ["model.into.weight", "model.out.weight"]
    moments = [f"nested.0.optimizer.state.{i}.{name}" for i in (0, 4) for name in ("exp_avg", "exp_avg_sq")]
    assert seen[3] == sorted(weights + moments)


def test_the_next_safe_point_waits(tmp_path: Path, last_moment: LastMoment) -> None:
    model, seen = Big(), {}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with lastgood.Run({"model": model, "optimizer": optimizer}, job=tmp_path / "job", every=2, overlap=True) as run:
        for step in run.steps(4):
            # No step of the optimizer ends it.
            seen[step] = bool(late_names(run))
    assert seen == {1: False, 2: False, 3: True, 4: False}


def test_loading_a_state_into_the_optimizer_waits(tmp_path: Path, last_moment: LastMoment) -> None:
    model, at_load = Big(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with lastgood.Run({"model": model, "optimizer": optimizer}, job=tmp_path / "job", every=1, overlap=True) as run:
        for _ in run.steps(4):
            if run.step == 2:
                assert late_names(run)
                optimizer.load_state_dict(optimizer.state_dict())
                at_load.append(late_names(run))
            model(torch.ones(2, 128)).sum().backward()
            optimizer.step()
    assert at_load == [[]]


def test_the_end_waits_and_leaves_no_hook_and_no_thread(tmp_path: Path, last_moment: LastMoment) -> None:
    state = train(str(tmp_path / "job"), True, big=True, steps=3)
    optimizer = state["nested"][0]["optimizer"]
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_load_state_dict_pre_hooks
    names = [thread.read_text().strip() for thread in Path("/proc/self/task").glob("*/comm")]
    assert "lastgood-copy" not in names


@pytest.mark.parametrize(("of", "name"), [(copying.Copy, "_copy"), (Beside, "start")])
def test_a_snapshot_that_a_signal_handler_has_interrupted_holds_no_step_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: type, name: str
) -> None:
    class Interrupted(Exception):
        pass

    def interrupt(*_: Any) -> None:
        raise Interrupted

    model = Big()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state = {"model": model, "optimizer": optimizer}
    with lastgood.Run(state, job=tmp_path / "job", every=1, overlap=True, rank_limit="20s") as run:
        for step in run.steps(4):
            model(torch.ones(2, 128)).sum().backward()
            optimizer.step()
            if step == 2:
                with monkeypatch.context() as patch, pytest.raises(Interrupted):
                    patch.setattr(of, name, interrupt)
                    run.safe_point("evaluation", step_is_done=True)
                # What waits for the copy here gives up with an error after the limit.
                optimizer.step()
    assert max(contents(tmp_path / "job")) == 4


def test_an_exception_in_the_loop_does_not_lose_the_snapshot(tmp_path: Path, last_moment: LastMoment) -> None:
    def fail(model: Any, step: int) -> None:
        if step == 4:
            raise KeyError("of the program")

    with pytest.raises(KeyError):
        train(str(tmp_path / "job"), True, big=True, in_forward=fail)
    assert max(contents(tmp_path / "job")) == 3


def test_processes_that_are_forked_during_the_copy_do_not_wait_for_it(tmp_path: Path, last_moment: LastMoment) -> None:
    codes = []

    def fork(model: Any, step: int) -> None:
        if step == 3:
            pid = os.fork()
            if pid == 0:
                signal.alarm(30)
                os._exit(0)
            codes.append(os.waitpid(pid, 0)[1])

    train(str(tmp_path / "beside"), True, big=True, in_forward=fork)
    train(str(tmp_path / "at once"), False, big=True)
    assert codes == [0]
    assert_equal(tmp_path / "beside", tmp_path / "at once", {1, 2, 3, 4, 5, 6})


# Changes that are no step of an optimizer ------------------------------------------------------------------------


def add_under_no_grad(model: Any) -> None:
    with torch.no_grad():
        model.into.weight.add_(1)


def change_one_element(model: Any) -> None:
    with torch.no_grad():
        model.into.weight[10, 0] += 1


def add_to_data(model: Any) -> None:
    # Torch does not count this one as a change.
    model.into.weight.data.add_(1)


@pytest.mark.parametrize("change", [add_under_no_grad, change_one_element, add_to_data], ids=lambda f: f.__name__)
def test_a_parameter_that_is_changed_in_the_forward_pass_costs_that_snapshot_loudly(
    tmp_path: Path, last_moment: LastMoment, capsys: pytest.CaptureFixture[str], change: Any
) -> None:
    def in_forward(model: Any, step: int) -> None:
        if step >= 3:
            change(model)

    train(str(tmp_path / "beside"), True, big=True, in_forward=in_forward)
    said = capsys.readouterr().err
    assert said.count("SAVE FAILED at step 2") == said.count("SAVE FAILED") == 1
    assert "model.into.weight changed while the snapshot of step 2 was copied" in said
    assert "overlap=False" in said
    # From then on it is copied at once, and what is saved is right.
    train(str(tmp_path / "at once"), False, big=True, in_forward=in_forward)
    expected = contents(tmp_path / "at once")
    assert expected.pop(2)
    found = contents(tmp_path / "beside")
    assert found == expected
    failed = [event for event in read_events(open_job(tmp_path / "beside"), 1) if event.kind == "save_failed"]
    assert [event.data["step"] for event in failed] == [2]


def test_a_torn_snapshot_stops_a_job_that_wants_to_be_stopped(tmp_path: Path, last_moment: LastMoment) -> None:
    with pytest.raises(TornSnapshotError, match=r"model\.into\.weight") as caught:
        train(
            str(tmp_path / "job"),
            True,
            big=True,
            in_forward=lambda model, step: add_under_no_grad(model) if step == 3 else None,
            on_save_error="stop",
        )
    assert caught.value.remedy
    assert sorted(contents(tmp_path / "job")) == [1]


def test_a_module_that_is_loaded_during_the_copy_is_seen(
    tmp_path: Path, last_moment: LastMoment, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(model: Any, step: int) -> None:
        if step == 3:
            model.load_state_dict({name: value + 1 for name, value in model.state_dict().items()})

    train(str(tmp_path / "job"), True, big=True, in_forward=load)
    assert "model.into.weight (and 1 more) changed" in capsys.readouterr().err
    assert sorted(contents(tmp_path / "job")) == [1, 3, 4, 5, 6]


def test_a_parameter_that_gets_other_memory_is_saved_as_it_was(tmp_path: Path, last_moment: LastMoment) -> None:
    def replace(model: Any, step: int) -> None:
        if step == 3:
            model.into.weight.data = model.into.weight.data + 1

    train(str(tmp_path / "beside"), True, big=True, in_forward=replace)
    train(str(tmp_path / "at once"), False, big=True, in_forward=replace)
    assert_equal(tmp_path / "beside", tmp_path / "at once", {1, 2, 3, 4, 5, 6})


# Deaths ----------------------------------------------------------------------------------------------------------


def test_killed_in_the_middle_of_the_copy_the_previous_snapshot_is_whole(programs: Zygote, tmp_path: Path) -> None:
    job = str(tmp_path / "job")
    pid = programs.start("runtime.overlapping:die_while_copying", job=job, at=4, when="in the middle")
    assert programs.wait(pid) == KILLED
    assert programs.run("runtime.overlapping:resume", job=job) == 0
    assert started(job) == [0, 3]
    whole = str(tmp_path / "whole")
    assert programs.run("runtime.overlapping:train", job=whole, is_overlapped=False, steps=10, big=True) == 0
    assert_equal(Path(job), Path(whole), {1, 2, 3, 4, 5, 6, 7, 8, 9, 10})


def test_killed_when_the_copy_is_over_the_snapshot_is_not_lost(programs: Zygote, tmp_path: Path) -> None:
    job = str(tmp_path / "job")
    pid = programs.start("runtime.overlapping:die_while_copying", job=job, at=4, when="before optimizer.step")
    assert programs.wait(pid) == KILLED
    assert programs.run("runtime.overlapping:resume", job=job) == 0
    assert started(job) == [0, 4]


def test_a_keeper_that_dies_during_the_copy_is_replaced(
    tmp_path: Path, last_moment: LastMoment, capsys: pytest.CaptureFixture[str]
) -> None:
    runs: list[lastgood.Run] = []

    def kill(model: Any, step: int) -> None:
        if step == 4:
            keeper = runs[0]._session._saver._background._line.keeper  # type: ignore[union-attr]
            os.kill(keeper.pid, signal.SIGKILL)

    train(str(tmp_path / "job"), True, big=True, in_forward=kill, after=lambda run, step: runs.append(run))
    assert "is lost" in capsys.readouterr().err
    train(str(tmp_path / "at once"), False, big=True)
    found, expected = contents(tmp_path / "job"), contents(tmp_path / "at once")
    assert {3, 4, 5, 6} <= found.keys()
    assert all(found[step] == expected[step] for step in found)


def started(job: str) -> list[int]:
    """At which step each attempt began."""
    opened = open_job(job)
    return [e.data["step"] for n in attempt_numbers(opened) for e in read_events(opened, n) if e.kind == "started"]


# States without what it is for -----------------------------------------------------------------------------------


def test_a_state_without_an_optimizer_is_told_that_there_is_nothing_to_gain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.zeros(100_000)
    with lastgood.Run({"x": x}, job=tmp_path / "job", every=1, overlap=True) as run:
        for _ in run.steps(3):
            x += 1
    assert "overlap=True changes nothing" in capsys.readouterr().err
    assert max(contents(tmp_path / "job")) == 3


def test_an_optimizer_that_cannot_say_when_it_steps_is_copied_at_once(tmp_path: Path, last_moment: LastMoment) -> None:
    class Wrapped(torch.optim.Optimizer):
        """As libraries wrap optimizers: it has no hooks of its own."""

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        @property
        def state(self) -> Any:
            return self.inner.state

        @property
        def param_groups(self) -> Any:
            return self.inner.param_groups

        def state_dict(self) -> Any:
            return self.inner.state_dict()

        def load_state_dict(self, state: Any) -> None:
            self.inner.load_state_dict(state)

        def step(self, closure: Any = None) -> None:
            self.inner.step()

    model = Big()
    optimizer = Wrapped(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    with lastgood.Run({"model": model, "optimizer": optimizer}, job=tmp_path / "job", every=1, overlap=True) as run:
        for _ in run.steps(3):
            model(torch.ones(2, 128)).sum().backward()
            optimizer.step()
    assert last_moment.copied_late == 0
    assert max(contents(tmp_path / "job")) == 3
