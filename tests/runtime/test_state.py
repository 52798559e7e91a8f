"""What a loop binds anew inside of the state is saved as it is then, or refused by its place."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lastgood
from lastgood.core.errors import UnstorableError

Start = Callable[..., lastgood.Run]


def resumed(start: Start, state: Any) -> Any:
    assert start(state).step == 3
    return state


def run_three(start: Start, state: Any, change: Callable[[], None]) -> None:
    run = start(state)
    for _ in run.steps(3):
        change()
    run.close()


@pytest.mark.parametrize("make", [lambda x: {0: x}, lambda x: [x], lambda x: ({"inner": [x]},), lambda x: x])
def test_an_array_that_the_loop_binds_anew_is_saved_as_it_is(start: Start, make: Callable[[Any], Any]) -> None:
    def place(holder: Any) -> tuple[Any, Any]:
        key: Any = "w"
        while not isinstance(holder[key], np.ndarray):
            holder = holder[key]
            key = next(iter(holder)) if isinstance(holder, dict) else 0
        return holder, key

    state = {"w": make(np.zeros(2)), "other": np.zeros(1)}
    holder, key = place(state)

    def change() -> None:
        holder[key] = holder[key] + 1

    run_three(start, state, change)
    holder, key = place(resumed(start, {"w": make(np.zeros(2)), "other": np.zeros(1)}))
    assert holder[key].tolist() == [3, 3]


def test_a_tensor_and_a_generator_that_the_loop_binds_anew_are_saved_as_they_are(start: Start) -> None:
    torch = pytest.importorskip("torch")
    state = {"ema": {"w": torch.zeros(2)}, "rngs": [np.random.default_rng(1)]}

    def change() -> None:
        state["ema"]["w"] = 0.5 * state["ema"]["w"] + 1
        state["rngs"][0] = np.random.default_rng(7)

    run_three(start, state, change)
    again = resumed(start, {"ema": {"w": torch.zeros(2)}, "rngs": [np.random.default_rng(1)]})
    assert again["ema"]["w"].tolist() == [1.75, 1.75]
    assert again["rngs"][0].random() == np.random.default_rng(7).random()


def test_a_mapping_that_the_loop_binds_anew_is_saved_as_it_is(start: Start) -> None:
    state = {"layers": {"first": {"w": np.zeros(1)}}}

    def change() -> None:
        state["layers"]["first"] = {name: value + 1 for name, value in state["layers"]["first"].items()}

    run_three(start, state, change)
    assert resumed(start, {"layers": {"first": {"w": np.zeros(1)}}})["layers"]["first"]["w"].tolist() == [3]


def grow(state: Any) -> None:
    state["list"].append(np.zeros(1))


def shrink(state: Any) -> None:
    del state["list"][0]


def rename(state: Any) -> None:
    state["dict"]["new"] = state["dict"].pop("a")


def fill(state: Any) -> None:
    state["empty"].append(np.zeros(1))


def reshape(state: Any) -> None:
    state["dict"]["a"] = np.zeros(2)


def retype(state: Any) -> None:
    state["dict"]["a"] = state["dict"]["a"].astype(np.float32)


def bind_a_number(state: Any) -> None:
    state["dict"]["a"] = 1.5


def bind_a_group(state: Any) -> None:
    state["dict"]["a"] = [np.zeros(1)]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (grow, "list has grown to 2 members"),
        (shrink, "list.0 is not in the state any more"),
        (rename, "dict.a is not in the state any more"),
        (fill, "empty has grown to 1 members"),
        (reshape, "dict.a was bound to something of another kind, shape or type"),
        (retype, "dict.a was bound to something of another kind, shape or type"),
        (bind_a_number, "dict.a was bound to something else"),
        (bind_a_group, "dict.a was bound to something of another kind, shape or type"),
    ],
)
def test_what_a_program_like_this_could_not_load_again_is_refused_by_its_place(
    start: Start, change: Callable[[Any], None], text: str
) -> None:
    state = {"list": [np.zeros(1)], "dict": {"a": np.zeros(1)}, "empty": []}
    run = start(state)
    with pytest.raises(UnstorableError) as refused:
        for _ in run.steps(3):
            change(state)
    assert text in refused.value.what
    assert "after lastgood.Run was made" in refused.value.what
    assert "run.values" in refused.value.remedy
