"""What does not fit is refused before anything is loaded: other hyperparameters, other names, shapes and types."""

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lastgood
from lastgood.core.errors import ConfigChangedError, StateMismatchError
from lastgood.store.attempts import attempt_numbers, read_events
from lastgood.store.catalogue import list_checkpoints
from lastgood.store.jobdir import open_job

Start = Callable[..., lastgood.Run]


def save(start: Start, state: dict[str, Any], **settings: Any) -> None:
    with start(state, **settings) as run:
        for _ in run.steps(1):
            pass


def lines(error: ConfigChangedError | StateMismatchError) -> list[str]:
    return [line.strip() for line in error.what.split("\n")[1:]]


def refused(start: Start, state: dict[str, Any]) -> list[str]:
    """What is said about a state that does not fit, after the first line."""
    with pytest.raises(StateMismatchError) as caught:
        start(state)
    assert caught.value.exit_code == 67
    assert "nothing was loaded or changed" in caught.value.safe and caught.value.remedy
    return lines(caught.value)


# Config ------------------------------------------------------------------------------------------------------------

SAVED = {"lr": 0.1, "betas": (0.9, 0.999), "clip": math.nan, "limit": math.inf, "layers": [4, [2, 1]], "big": 2**70}


def test_the_same_config_is_accepted_whatever_is_in_it(start: Start) -> None:
    save(start, {}, config=SAVED)
    assert start({}, config={name: SAVED[name] for name in reversed(SAVED)}).step == 1


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"lr": 0.2}, "lr: 0.1 in the checkpoint, 0.2 now"),
        ({"lr": "0.1"}, "lr: 0.1 in the checkpoint, '0.1' now"),
        ({"lr": np.float64(0.1)}, f"lr: 0.1 in the checkpoint, {np.float64(0.1)!r} now"),
        ({"betas": (0.9, 0.99)}, "betas: (0.9, 0.999) in the checkpoint, (0.9, 0.99) now"),
        ({"betas": [0.9, 0.999]}, "betas: (0.9, 0.999) in the checkpoint, [0.9, 0.999] now"),
        ({"clip": 1.0}, "clip: nan in the checkpoint, 1.0 now"),
        ({"limit": -math.inf}, "limit: inf in the checkpoint, -inf now"),
        ({"layers": [4, [2, 2]]}, "layers: [4, [2, 1]] in the checkpoint, [4, [2, 2]] now"),
        ({"big": 2**70 + 1}, f"big: {2**70} in the checkpoint, {2**70 + 1} now"),
        ({"depth": 3}, "depth: absent in the checkpoint, 3 now"),
        ({"depth": None}, "depth: absent in the checkpoint, None now"),
    ],
)
def test_a_changed_value_is_refused_by_its_name_and_allowed_by_it(
    change: dict[str, Any], line: str, start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    save(start, {}, config=SAVED)
    (name,) = change
    with pytest.raises(ConfigChangedError) as caught:
        start({}, config={**SAVED, **change})
    assert caught.value.exit_code == 78
    assert lines(caught.value) == [line]
    assert f"allow_config_change=['{name}']" in caught.value.remedy
    assert start({}, config={**SAVED, **change}, allow_config_change=[name]).step == 1
    assert f"note: {line}" in capsys.readouterr().err


def test_a_name_that_is_gone_is_a_change(start: Start) -> None:
    save(start, {}, config=SAVED)
    less = {name: value for name, value in SAVED.items() if name != "betas"}
    with pytest.raises(ConfigChangedError) as caught:
        start({}, config=less)
    assert lines(caught.value) == ["betas: (0.9, 0.999) in the checkpoint, absent now"]
    assert start({}, config=less, allow_config_change=["betas"]).step == 1


def test_what_was_allowed_is_the_config_from_then_on(start: Start) -> None:
    save(start, {}, config={"lr": 0.1})
    with start({}, config={"lr": 0.2}, allow_config_change=["lr"]) as run:
        for _ in run.steps(2):
            pass
    with pytest.raises(ConfigChangedError, match=r"lr: 0.2 in the checkpoint, 0.1 now"):
        start({}, config={"lr": 0.1})
    assert start({}, config={"lr": 0.2}).step == 2


def test_a_hundred_changes_are_shown_as_twenty_and_a_number(start: Start) -> None:
    save(start, {}, config={f"p{i:03}": i for i in range(100)})
    with pytest.raises(ConfigChangedError) as caught:
        start({}, config={f"p{i:03}": i + 1 for i in range(100)})
    assert lines(caught.value) == [f"p{i:03}: {i} in the checkpoint, {i + 1} now" for i in range(20)] + [
        "... and 80 more"
    ]


def test_a_refused_config_loads_nothing_and_spoils_nothing(start: Start, path: Path) -> None:
    weights = np.ones(3)
    save(start, {"weights": weights}, config={"lr": 0.1})
    fresh = np.zeros(3)
    random.seed(7)
    before = random.getstate()
    with pytest.raises(ConfigChangedError):
        start({"weights": fresh}, config={"lr": 0.2})
    assert not fresh.any()
    assert random.getstate() == before
    job = open_job(path)
    assert [e.kind for e in read_events(job, 2)] == []
    assert not any(c.rejected for c in list_checkpoints(job))
    start({"weights": fresh}, config={"lr": 0.1})
    assert fresh.all()


# Names, shapes and types -----------------------------------------------------------------------------------------


def test_all_differences_of_arrays_are_listed_with_their_names(start: Start) -> None:
    save(
        start,
        {
            "same": np.zeros(2),
            "shape": np.zeros((2, 3)),
            "dtype": np.zeros(2, np.float32),
            "old": np.zeros(1),
            "kind": np.zeros(2),
            "rng": np.random.default_rng(1),
            "group": {"a": np.zeros(1), "b": [np.zeros(2), np.zeros(2)], "gone": np.zeros(1)},
            "scalar": np.zeros(()),
        },
    )
    assert refused(
        start,
        {
            "same": np.zeros(2),
            "shape": np.zeros((3, 2)),
            "dtype": np.zeros(2, np.float64),
            "new": np.zeros(1),
            "kind": np.random.default_rng(1),
            "rng": np.random.Generator(np.random.MT19937(1)),
            "group": {"a": np.zeros(1), "b": [np.zeros(2), np.zeros(3)], "added": np.zeros(1)},
            "scalar": np.zeros(1),
        },
    ) == [
        "new is missing in the checkpoint",
        "old is only in the checkpoint",
        "shape is float64[3, 2] here, but float64[2, 3] in the checkpoint",
        "dtype is float64[2] here, but float32[2] in the checkpoint",
        "kind is a PCG64 generator here, but something else in the checkpoint",
        "rng is a MT19937 generator here, but PCG64 in the checkpoint",
        "group.added is missing in the checkpoint",
        "group.gone is only in the checkpoint",
        "group.b.1 is float64[3] here, but float64[2] in the checkpoint",
        "scalar is float64[1] here, but float64[] in the checkpoint",
    ]


def test_nothing_is_changed_in_the_program_and_the_checkpoint_serves_the_one_that_fits(
    start: Start, path: Path
) -> None:
    generator = np.random.default_rng(1)
    generator.random(5)
    save(start, {"first": np.ones(3), "rng": generator, "last": np.ones(3)})
    state = {"first": np.zeros(3), "rng": np.random.default_rng(2), "last": np.zeros(4)}
    np.random.seed(3)
    random.seed(3)
    before = (state["rng"].bit_generator.state, random.getstate(), np.random.get_state()[1].tolist())
    assert refused(start, state) == ["last is float64[4] here, but float64[3] in the checkpoint"]
    assert not state["first"].any() and not state["last"].any()
    assert before == (state["rng"].bit_generator.state, random.getstate(), np.random.get_state()[1].tolist())

    job = open_job(path)
    assert attempt_numbers(job) == [1, 2]
    assert not any(c.rejected for c in list_checkpoints(job))
    state["last"] = np.zeros(3)
    assert start(state).step == 1
    assert state["first"].all() and state["last"].all()


def test_an_older_checkpoint_that_would_fit_is_not_taken_instead(start: Start) -> None:
    save(start, {"w": np.zeros(2)})
    with start({"w": np.zeros(2)}) as run:
        for _ in run.steps(2):
            pass
    assert refused(start, {"w": np.zeros(3)}) == ["w is float64[3] here, but float64[2] in the checkpoint"]


@pytest.mark.parametrize("extra", [0, 1, 10])
def test_twenty_differences_are_all_shown_and_of_more_their_number(start: Start, extra: int) -> None:
    save(start, {f"a{i}": np.zeros(1) for i in range(20 + extra)})
    said = refused(start, {f"a{i}": np.zeros(2) for i in range(20 + extra)})
    assert said[:20] == [f"a{i} is float64[2] here, but float64[1] in the checkpoint" for i in range(20)]
    assert said[20:] == ([f"... and {extra} more"] if extra else [])


def test_an_object_that_refuses_what_it_loads_says_that_it_may_be_half_loaded(start: Start) -> None:
    class Picky:
        def state_dict(self) -> dict[str, int]:
            return {"version": 1}

        def load_state_dict(self, state: dict[str, int]) -> None:
            raise ValueError("too old")

    save(start, {"picky": Picky()})
    with pytest.raises(StateMismatchError, match=r"picky of checkpoint .* ValueError: too old") as caught:
        start({"picky": Picky()})
    assert "partly loaded" in caught.value.safe


# PyTorch -----------------------------------------------------------------------------------------------------------


def test_all_differences_of_modules_are_listed_and_none_is_half_loaded(start: Start) -> None:
    torch = pytest.importorskip("torch")
    nn = torch.nn
    old = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2, bias=False), nn.BatchNorm1d(2))
    save(start, {"fits": nn.Linear(2, 2), "model": old, "tensor": torch.zeros(3, dtype=torch.int64)})
    fits = nn.Linear(2, 2)
    new = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2), nn.BatchNorm1d(2, affine=False))
    new[2].running_mean = new[2].running_mean.double()
    tensor = torch.ones(3)
    before = [value.clone() for module in (fits, new) for value in module.state_dict().values()]
    assert refused(start, {"fits": fits, "model": new, "tensor": tensor}) == [
        "model.1.bias is missing in the checkpoint",
        "model.2.weight is only in the checkpoint",
        "model.2.bias is only in the checkpoint",
        "model.0.weight is float32[5, 3] here, but float32[4, 3] in the checkpoint",
        "model.0.bias is float32[5] here, but float32[4] in the checkpoint",
        "model.1.weight is float32[2, 5] here, but float32[2, 4] in the checkpoint",
        "model.2.running_mean is float64[2] here, but float32[2] in the checkpoint",
        "tensor is float32[3] here, but int64[3] in the checkpoint",
    ]
    after = [value for module in (fits, new) for value in module.state_dict().values()]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert tensor.tolist() == [1, 1, 1]


def optimizer_of(kind: str) -> Any:
    import torch

    model = torch.nn.Linear(3, 2)
    if kind == "two groups":
        return torch.optim.SGD([{"params": [model.weight]}, {"params": [model.bias], "lr": 0.5}], lr=0.1)
    if kind == "one parameter":
        return torch.optim.SGD([model.weight], lr=0.1)
    made = torch.optim.Adam(model.parameters()) if kind == "adam" else torch.optim.SGD(model.parameters(), lr=0.3)
    model(torch.ones(1, 3)).sum().backward()
    made.step()
    return made


@pytest.mark.parametrize(
    ("now", "line"),
    [
        ("two groups", "optimizer has parameter groups of [1, 1] here, but of [2] in the checkpoint"),
        ("one parameter", "optimizer has parameter groups of [1] here, but of [2] in the checkpoint"),
        ("adam", "optimizer is of another kind: it has "),
    ],
)
def test_an_optimizer_that_does_not_fit_is_refused_and_stays_as_it_is(start: Start, now: str, line: str) -> None:
    pytest.importorskip("torch")
    save(start, {"optimizer": optimizer_of("sgd")})
    optimizer = optimizer_of(now)
    before = repr(optimizer.state_dict())
    (said,) = refused(start, {"optimizer": optimizer})
    assert said.startswith(line)
    assert repr(optimizer.state_dict()) == before


def test_what_a_schedule_adds_to_an_optimizer_does_not_make_it_another(start: Start) -> None:
    torch = pytest.importorskip("torch")
    optimizer = optimizer_of("adam")
    torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=5)
    save(start, {"optimizer": optimizer})
    assert start({"optimizer": optimizer_of("adam")}).step == 1


def test_a_module_where_an_array_was_is_named(start: Start) -> None:
    torch = pytest.importorskip("torch")
    save(start, {"x": np.zeros(2), "y": torch.nn.Linear(1, 1), "z": np.zeros(2)})
    assert refused(start, {"x": torch.nn.Linear(1, 1), "y": np.zeros(2), "z": torch.zeros(2)}) == [
        "x is a module here, but not in the checkpoint",
        "y is an array here, but OrderedDict in the checkpoint",
        "z is a tensor here, but ndarray in the checkpoint",
    ]
