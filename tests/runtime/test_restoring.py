"""What is read goes straight to where the program keeps it, and never leaves a mixture behind that somebody could use."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lastgood
from lastgood.core import layout
from lastgood.core.errors import ConfigChangedError, StartRefusedError, StateMismatchError
from lastgood.frameworks.numpy_adapter import FRAMEWORK, InPlaceArray
from lastgood.runtime.loading import Program
from lastgood.runtime.ports import OneRank
from lastgood.runtime.resume import Resumer
from lastgood.store import writer
from lastgood.store.jobdir import open_job
from runtime.conftest import names

Start = Callable[..., lastgood.Run]
LENGTH = 40_000
"""Of eight bytes each: with the small blocks below an array lies in many."""


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "BLOCK_BYTES", 4096)
    monkeypatch.setenv("LASTGOOD_KEEPER", "off")


def filled(value: float) -> dict[str, np.ndarray]:
    return {name: np.full(LENGTH, float(value)) for name in ("first", "second")}


def save_these(start: Start, *contents: np.ndarray) -> None:
    """A checkpoint for each content of the entry `first`."""
    here = [contents[0]]
    run = start({"first": (lambda: here[0], print)}, every=1, keep=lastgood.Keep(last=9))
    for step in run.steps(len(contents)):
        here[0] = contents[step - 1]
    run.close()


def save_twice(start: Start, **settings: Any) -> None:
    """Checkpoints of steps 1 and 2, whose arrays are full of ones and of twos."""
    state = filled(0)
    run = start(state, every=1, keep=lastgood.Keep(last=5), **settings)
    for step in run.steps(2):
        for array in state.values():
            array[:] = step
    run.close()


def damage(path: Path, step: int, share: float = 0.75, rank: int = 0) -> None:
    """A flipped bit in the data of that step, that far into the file."""
    (name,) = [name for name in names(path) if layout.parse_checkpoint_name(name)[0] == step]  # type: ignore[index]
    file = path / "checkpoints" / name / layout.data_file(rank)
    content = bytearray(file.read_bytes())
    content[int(share * len(content))] ^= 1
    file.write_bytes(content)


def test_arrays_are_filled_where_they_are(start: Start) -> None:
    save_twice(start)
    state = filled(0)
    addresses = {name: array.ctypes.data for name, array in state.items()}
    assert start(state).step == 2
    assert all((array == 2).all() for array in state.values())
    assert {name: array.ctypes.data for name, array in state.items()} == addresses


@pytest.mark.parametrize("share", [0.1, 0.5, 0.999])
def test_of_a_damaged_checkpoint_nothing_is_left_when_an_older_one_is_restored(
    start: Start, path: Path, share: float
) -> None:
    save_twice(start)
    damage(path, 2, share)
    state = filled(0)
    assert start(state).step == 1
    assert all((array == 1).all() for array in state.values())


def test_a_state_that_a_damaged_checkpoint_was_read_into_is_called_so_if_no_other_follows(
    start: Start, path: Path
) -> None:
    save_twice(start)
    damage(path, 2)
    damage(path, 1)
    with pytest.raises(StartRefusedError) as refused:
        start(filled(0))
    assert "partly that of a damaged checkpoint and must not be used" in refused.value.safe
    with pytest.raises(StartRefusedError) as refused:
        start(filled(0))
    assert "must not be used" not in refused.value.safe, "both are marked by now, and nothing is read"


@pytest.mark.parametrize("error", ["shape", "config"])
def test_a_checkpoint_that_does_not_fit_changes_nothing(start: Start, error: str) -> None:
    save_twice(start, config={"lr": 1})
    state = filled(7)
    if error == "shape":
        state["second"] = np.full(LENGTH + 1, 7.0)
    with pytest.raises(StateMismatchError if error == "shape" else ConfigChangedError) as misfit:
        start(state, config={"lr": 1 if error == "shape" else 2})
    assert misfit.value.safe == "nothing was loaded or changed; the checkpoint is whole"
    assert all((array == 7).all() for array in state.values())


def test_a_checkpoint_that_does_not_fit_and_is_damaged_does_not_stand_in_the_way_of_one_that_fits(
    start: Start, path: Path
) -> None:
    save_these(start, np.full(LENGTH, 1.0), np.full(LENGTH + 1, 2.0))
    array = np.zeros(LENGTH)
    with pytest.raises(StateMismatchError, match="does not fit this program"):
        start({"first": array})
    damage(path, 2)
    assert start({"first": array}).step == 1
    assert (array == 1).all()


def test_after_damage_a_checkpoint_that_does_not_fit_is_not_said_to_have_changed_nothing(
    start: Start, path: Path
) -> None:
    save_these(start, np.full(3, 1.0), np.full(LENGTH, 2.0))
    damage(path, 2)
    with pytest.raises(StateMismatchError) as misfit:
        start({"first": np.zeros(LENGTH)})
    assert "partly that of a damaged checkpoint and must not be used" in misfit.value.safe


def test_arrays_that_are_no_block_of_memory_are_restored_too(start: Start) -> None:
    save_twice(start)
    wide = np.zeros((LENGTH, 2))
    state = {"first": wide[:, 0], "second": np.zeros(LENGTH)}
    assert start(state).step == 2
    assert (wide == [2, 0]).all()


def test_entries_that_share_memory_get_what_the_last_of_them_got_in_order(start: Start) -> None:
    save_twice(start)
    memory = np.zeros(LENGTH + 10)
    run = start({"first": np.full(LENGTH, 1.0), "second": np.full(LENGTH, 5.0)}, fresh=True)
    list(run.steps(1))
    run.close()
    # Against the order of the file.
    assert start({"second": memory[:-10], "first": memory[10:]}).step == 1
    assert memory.tolist() == [5.0] * 10 + [1.0] * LENGTH


def test_the_same_memory_twice_is_filled(start: Start) -> None:
    array = np.zeros(LENGTH)
    run = start({"first": array, "second": {"inner": [array]}})
    for _ in run.steps(1):
        array[:] = 3
    run.close()
    again = np.zeros(LENGTH)
    assert start({"first": again, "second": {"inner": [again]}}).step == 1
    assert (again == 3).all()


class TestFromMemory:
    @pytest.fixture
    def lend(self, path: Path) -> Callable[..., Any]:
        """`lend(change)`: a lender of what is stored, changed; and what it has got back."""

        def make(change: Callable[[bytearray], None] = lambda content: None) -> tuple[Any, list[int]]:
            returned: list[int] = []

            def lender(step: int, attempt: int, rank: int) -> Any:
                file = path / "checkpoints" / layout.checkpoint_name(step, attempt) / layout.data_file(rank)
                content = bytearray(file.read_bytes())
                change(content)
                fd = os.memfd_create("arena")
                os.write(fd, content)
                return fd, lambda: returned.append(rank)

            return lender, returned

        return make

    def restore(self, path: Path, state: dict[str, np.ndarray], lender: Any) -> Any:
        program = Program(
            {name: InPlaceArray(array) for name, array in state.items()},
            {},
            [FRAMEWORK],
            1,
            allow_config_change=set(),
            allow_world_size_change=False,
        )
        found = Resumer(open_job(path), 9, OneRank(), [FRAMEWORK], lender).find([], False, program)
        program.put(found.restored)
        return found.restored

    def test_memory_is_read_and_given_back_although_the_state_lives_on(
        self, start: Start, path: Path, lend: Callable[..., Any]
    ) -> None:
        save_twice(start)
        lender, returned = lend()
        state = filled(0)
        restored = self.restore(path, state, lender)
        assert (restored.is_from_memory, restored.memory_problems) == (True, [])
        assert all((array == 2).all() for array in state.values())
        assert returned == [0]
        assert restored.entries["lastgood.random"], "which is kept, and not in lent memory"

    def test_damaged_memory_is_passed_over_for_what_is_stored(
        self, start: Start, path: Path, lend: Callable[..., Any]
    ) -> None:
        save_twice(start)
        lender, returned = lend(lambda content: content.__setitem__(len(content) // 2, 0x55))
        state = filled(0)
        restored = self.restore(path, state, lender)
        assert not restored.is_from_memory
        assert "in memory: bytes" in restored.memory_problems[0]
        assert all((array == 2).all() for array in state.values())
        assert returned == [0]


@pytest.mark.slow
def test_a_restore_takes_no_memory_of_the_size_of_the_state(tmp_path: Path) -> None:
    program = """
import sys
import numpy as np, lastgood
from pathlib import Path
def peak():
    return int(next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")))
state = {str(i): np.ones(2**24, dtype=np.uint8) for i in range(12)}
before = peak()
with lastgood.Run(state, job=sys.argv[1]) as run:
    print(run.step, peak() - before)
    if run.step == 0:
        list(run.steps(1))
"""
    environment = {**os.environ, "LASTGOOD_KEEPER": "off"}
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "job")],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    step, kilobytes = map(int, outputs[1].split())
    assert step == 1
    assert kilobytes < 60_000, "of 200,000 that the state has"
