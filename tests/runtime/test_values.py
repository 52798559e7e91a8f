"""`run.values` and `run.log`: what goes in comes out again, to the last bit, after a save, a death and a resume."""

import json
import math
import struct
import tempfile
from collections import Counter, OrderedDict, deque, namedtuple
from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lastgood
from lastgood.core import layout
from lastgood.core.errors import NoSuchJobError, UnstorableError
from lastgood.store.attempts import claim_attempt
from lastgood.store.catalogue import list_checkpoints
from lastgood.store.jobdir import JobDirectory, open_job
from lastgood.store.reader import open_checkpoint

Start = Callable[..., lastgood.Run]


def bits(value: float) -> bytes:
    return struct.pack("<d", value)


def same(a: Any, b: Any) -> bool:
    """Equal in type, value, order and every bit."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, float):
        return bits(a) == bits(b)
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, dict):
        return len(a) == len(b) and all(same(x, y) and same(a[x], b[y]) for x, y in zip(a, b, strict=True))
    if isinstance(a, list | tuple | deque):
        is_alike = getattr(a, "maxlen", None) == getattr(b, "maxlen", None)
        return is_alike and len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


FLOATS = [0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 0.1, 1 / 3, math.inf, -math.inf]

STORABLE: dict[str, Any] = {
    "none": None,
    "bools": [True, False],
    "ints": [0, -1, 2**63 - 1, -(2**63), 2**63, -(2**63) - 1, 2**300],
    "floats": [*FLOATS, math.nan],
    "texts": ["", "é", "\0", "\ud800", "$array", "a.b\n"],
    "bytes": b"\0\xff",
    "bytearray": bytearray(b"ab"),
    "complex": [complex(0.0, -0.0), complex(math.nan, math.inf)],
    "tuple": (1, (), (2.0, [3])),
    "sets": [set(), {1, "a", (2, 3)}, frozenset({b"x"})],
    "keys": {1: "int", 1.5: "float", None: "none", (1, 2): "tuple", b"k": "bytes", "1": "text", "$x": "dollar"},
    "order": OrderedDict([("b", 1), ("a", 2)]),
    "counts": Counter("abca"),
    "queue": deque([1, 2], maxlen=5),
    "endless": deque([1]),
    "scalars": [np.float32(0.1), np.int64(-3), np.bool_(True), np.complex128(1j), np.float16(-0.0), np.str_("é")],
    "times": [np.datetime64("2024-02-29", "D"), np.timedelta64(5, "ms")],
    "dtype": np.dtype("<f4"),
    "array": np.arange(6.0).reshape(2, 3),
    "empty": np.empty((0, 3), dtype=np.int16),
}


@pytest.mark.parametrize("name", STORABLE)
def test_a_value_of_every_storable_type_comes_back(start: Start, name: str) -> None:
    run = start()
    run.values[name] = STORABLE[name]
    list(run.steps(1))
    run.close()
    assert same(start().values, {name: STORABLE[name]})


def test_tensors_come_back_with_their_type(start: Start) -> None:
    torch = pytest.importorskip("torch")
    run = start()
    saved = {
        "half": torch.tensor([1.5, -0.0], dtype=torch.bfloat16),
        "size": torch.Size([2, 3]),
        "dtype": torch.float8_e5m2,
        "device": torch.device("cuda:3"),
    }
    run.values.update(saved)
    list(run.steps(1))
    run.close()
    back = start().values
    half = back.pop("half")
    assert half.dtype is torch.bfloat16
    assert half.view(torch.int16).tolist() == saved["half"].view(torch.int16).tolist()
    assert back == {name: value for name, value in saved.items() if name != "half"}
    assert type(back["size"]) is torch.Size


text = st.text(st.characters(exclude_categories=[]))
plain = st.none() | st.booleans() | st.integers() | st.floats() | text | st.binary(max_size=4)
keys = (st.integers() | text | st.binary(max_size=4) | st.booleans()) | st.tuples(st.integers(), text)
trees = st.recursive(
    plain | st.complex_numbers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(keys, inner, max_size=3)
        | st.dictionaries(text, inner, max_size=3).map(OrderedDict)
    ),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=25)
@given(st.dictionaries(text, trees, max_size=5))
def test_any_tree_of_values_comes_back(values: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        with lastgood.Run({}, job=Path(directory, "job")) as run:
            run.values.update(values)
            list(run.steps(1))
        with lastgood.Run({}, job=Path(directory, "job")) as run:
            # Compared as text, in which a NaN is one whatever its bits.
            assert repr(run.values) == repr(values)


def test_values_that_are_rebound_and_changed_in_place_are_those_of_the_step(start: Start) -> None:
    run = start(every=2)
    run.values["best"], run.values["seen"] = 0.0, []
    for step in run.steps(5):
        run.values["best"] = step / 10
        run.values["seen"].append(step)
        if step == 4:
            run.values["later"] = True
        if step == 5:
            del run.values["best"]
            run.close()
            break
    assert start().values == {"seen": [1, 2, 3, 4], "best": 0.4, "later": True}


def test_a_value_set_before_the_loop_is_the_default_and_what_was_saved_wins(start: Start) -> None:
    with start() as run:
        run.values.setdefault("best", 0)
        for step in run.steps(2):
            run.values["best"] = step
    with start() as run:
        run.values.setdefault("best", 0)
        assert run.values["best"] == 2


class Level(IntEnum):
    HIGH = 1


class Text(str):
    pass


Pair = namedtuple("Pair", ["a", "b"])

UNSTORABLE: dict[str, Any] = {
    "function": len,
    "object": object(),
    "class": dict,
    "enum": Level.HIGH,
    "subclass": Text("x"),
    "namedtuple": Pair(1, 2),
    "decimal": Decimal("0.1"),
    "range": range(3),
    "path": Path("x"),
    "objects": np.array([None, 1], dtype=object),
    "masked": np.ma.masked_array([1, 2], mask=[True, False]),
    "record": np.zeros(2, dtype=[("a", "i4")]),
}


@pytest.mark.parametrize("name", UNSTORABLE)
def test_a_value_that_cannot_be_stored_is_named_at_the_safe_point_that_would_save_it(start: Start, name: str) -> None:
    run = start()
    with pytest.raises(UnstorableError, match=rf"values\.deep\.1\.{name}: cannot store") as caught:
        for step in run.steps(5):
            if step == 3:
                run.values["deep"] = [0, {name: UNSTORABLE[name]}]
    assert caught.value.exit_code == 68
    assert run.step == 3
    run.close()
    again = start()
    assert (again.step, again.values) == (2, {})


# run.log -----------------------------------------------------------------------------------------------------------


def logged(start: Start, path: Path, values: list[Any]) -> list[Any]:
    with start() as run:
        for step in run.steps(len(values)):
            run.log(x=values[step - 1])
    log = lastgood.read_log(path)
    assert list(log) == list(range(1, len(values) + 1))
    return [log[step]["x"] for step in log]


def test_floats_are_exact_to_the_bit(start: Start, path: Path) -> None:
    assert [bits(x) for x in logged(start, path, FLOATS)] == [bits(x) for x in FLOATS]
    assert all(type(x) is float for x in lastgood.read_log(path)[1].values())


@given(st.lists(st.floats(), min_size=1, max_size=50), st.integers())
@settings(max_examples=15)
def test_any_number_is_exact(floats: list[float], number: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        with lastgood.Run({}, job=Path(directory, "job")) as run:
            run.log(floats=floats, number=number, **{f"f{i}": value for i, value in enumerate(floats)})
        values = lastgood.read_log(Path(directory, "job"))[0]
    assert values["number"] == number
    assert [repr(values[f"f{i}"]) for i in range(len(floats))] == [repr(x) for x in floats]
    assert repr(values["floats"]) == repr(floats)


def test_integers_beyond_64_bit_texts_and_nothing(start: Start, path: Path) -> None:
    values = [2**64, -(2**200), True, None, "é\n\ud800", [1, (2, 3.5)], {"a": {"b": 1}}]
    assert same(logged(start, path, values), values)


def test_single_elements_of_numpy_and_torch_are_their_numbers(start: Start, path: Path) -> None:
    torch = pytest.importorskip("torch")
    values = [
        np.float32(0.1),
        np.float64(-0.0),
        np.int64(-(2**63)),
        np.uint64(2**64 - 1),
        np.bool_(True),
        np.array(2.5),
        torch.tensor(0.1),
        torch.tensor(0.1, dtype=torch.float64, requires_grad=True),
        torch.tensor(-0.0, dtype=torch.bfloat16),
        torch.tensor(2**62),
        torch.tensor(True),
    ]
    expected = [float(np.float32(0.1)), -0.0, -(2**63), 2**64 - 1, True, 2.5, float(np.float32(0.1)), 0.1, -0.0]
    assert same(logged(start, path, values), [*expected, 2**62, True])


@pytest.mark.parametrize("value", [np.zeros(3), np.zeros((1, 1)), len, {1: np.zeros(1)}])
def test_arrays_are_refused_by_the_name_of_the_value_and_the_rest_is_logged(
    start: Start, path: Path, value: Any
) -> None:
    with start() as run:
        for _ in run.steps(1):
            run.log(before=1)
            with pytest.raises(UnstorableError, match=r"run\.log\(weights=\.\.\.\)") as caught:
                run.log(weights=value)
            run.log(after=2)
    assert "log numbers, texts" in str(caught.value)
    assert lastgood.read_log(path) == {1: {"before": 1, "after": 2}}


def test_a_tensor_with_several_elements_is_refused_too(start: Start) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(UnstorableError, match=r"run\.log\(w=\.\.\.\)"):
        start().log(w=torch.zeros(2))


def test_the_last_value_of_a_step_counts_and_several_calls_add_up(start: Start, path: Path) -> None:
    with start() as run:
        for step in run.steps(2):
            run.log(loss=step, lr=0.1)
            run.log(loss=-step)
    assert lastgood.read_log(path) == {1: {"loss": -1, "lr": 0.1}, 2: {"loss": -2, "lr": 0.1}}


def test_what_an_epochs_end_logs_belongs_to_its_last_step(start: Start, path: Path) -> None:
    with start() as run:
        for epoch in run.epochs(2):
            for batch in run.batches([1, 2]):
                run.log(loss=batch)
            run.log(accuracy=epoch / 2)
    assert lastgood.read_log(path) == {
        1: {"loss": 1},
        2: {"loss": 2, "accuracy": 0.5},
        3: {"loss": 1},
        4: {"loss": 2, "accuracy": 1.0},
    }


# read_log: what attempts leave --------------------------------------------------------------------------------------


def write(job: JobDirectory, attempt: int, *records: Any, rank: int = 0, torn: bytes = b"") -> None:
    lines = b"".join((r if isinstance(r, bytes) else json.dumps(r).encode()) + b"\n" for r in records)
    (job.attempts / layout.values_file(attempt, rank)).write_bytes(lines + torn)


def step(number: int, **values: Any) -> dict[str, Any]:
    return {"step": number, "values": values}


def test_a_later_attempt_takes_back_the_steps_after_the_place_where_it_went_on(job: JobDirectory) -> None:
    write(job, 1, {"after": 0}, step(1, a=1), step(2, a=2), step(3, a=3, b=3), step(4, a=4))
    claim_attempt(job, "launch-2")
    write(job, 2, {"after": 2}, step(3, a=-3))
    assert lastgood.read_log(job) == {1: {"a": 1}, 2: {"a": 2}, 3: {"a": -3}}
    claim_attempt(job, "launch-3")
    write(job, 3, {"after": 1})
    assert lastgood.read_log(job) == {1: {"a": 1}}


def test_an_attempt_that_logged_nothing_or_left_no_file_changes_nothing(job: JobDirectory) -> None:
    write(job, 1, {"after": 0}, step(1, a=1))
    claim_attempt(job, "launch-2")
    assert lastgood.read_log(job) == {1: {"a": 1}}
    write(job, 2)
    assert lastgood.read_log(job) == {1: {"a": 1}}


def test_lines_that_are_torn_or_foreign_are_passed_over(job: JobDirectory) -> None:
    nested = b"[" * 100_000
    foreign = [b"", b"null", b"[1]", b"\xff\xfe", b"{}", b'{"step": 1}', b'{"step": "x", "values": {}}', nested]
    foreign += [b'{"step": 1, "values": {"a": {"$never": 1}}}', b'{"after": "x"}', b'{"step": 1, "values": 5}']
    write(job, 1, {"after": 0}, step(1, a=1), *foreign, step(2, a=2), torn=b'{"step": 3, "valu')
    assert lastgood.read_log(job) == {1: {"a": 1}, 2: {"a": 2}}


def test_a_new_start_forgets_what_was_before(job: JobDirectory) -> None:
    write(job, 1, {"after": 0}, step(1, a=1), step(2, a=2))
    claim_attempt(job, "launch-2", fresh=True)
    write(job, 2, {"after": 0}, step(1, a=10))
    assert lastgood.read_log(job) == {1: {"a": 10}}


def test_each_rank_has_a_log_of_its_own(job: JobDirectory) -> None:
    for rank in range(3):
        write(job, 1, {"after": 0}, step(1, a=rank), rank=rank)
    assert [lastgood.read_log(job, rank) for rank in range(4)] == [{1: {"a": 0}}, {1: {"a": 1}}, {1: {"a": 2}}, {}]


def test_steps_are_in_order_and_later_values_of_a_step_join_it(job: JobDirectory) -> None:
    write(job, 1, {"after": 0}, step(10, a=1), step(9, a=2), step(10, b=3), step(10, a=4))
    assert list(lastgood.read_log(job).items()) == [(9, {"a": 2}), (10, {"a": 4, "b": 3})]


def test_no_job_is_an_error_that_names_the_place(tmp_path: Path) -> None:
    with pytest.raises(NoSuchJobError, match="nowhere"):
        lastgood.read_log(tmp_path / "nowhere")


def test_a_link_in_place_of_a_log_is_not_followed(job: JobDirectory, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"step": 1, "values": {"a": 1}}\n')
    (job.attempts / layout.values_file(1, 0)).symlink_to(secret)
    assert lastgood.read_log(job) == {}


def test_the_path_may_be_text(start: Start, path: Path) -> None:
    with start() as run:
        for _ in run.steps(1):
            run.log(a=1)
    assert lastgood.read_log(str(path)) == lastgood.read_log(path) == lastgood.read_log(open_job(path)) == {1: {"a": 1}}


def metrics_of(path: Path) -> dict[int, dict[str, float]]:
    job = open_job(path)
    return {c.step: open_checkpoint(job, c.name).manifest.metrics for c in list_checkpoints(job)}


def test_metrics_of_a_checkpoint_are_the_newest_finite_numbers_of_its_own_step(start: Start, path: Path) -> None:
    with start(keep=lastgood.Keep(last=None)) as run:
        for number in run.steps(4):
            run.log(**{1: {"a": 1, "b": 2.5, "c": "text", "d": True}, 2: {"a": math.nan}, 3: {"a": 3}}.get(number, {}))
    assert metrics_of(path) == {1: {"a": 1.0, "b": 2.5}, 2: {}, 3: {"a": 3.0}, 4: {}}


def test_what_an_epochs_end_logs_joins_what_its_last_step_logged(start: Start, path: Path) -> None:
    with start(every=100) as run:
        for epoch in run.epochs(2):
            for batch in run.batches([1, 2]):
                run.log(loss=batch)
            run.log(accuracy=epoch / 2)
            run.save()
    assert metrics_of(path) == {2: {"loss": 2.0, "accuracy": 0.5}, 4: {"loss": 2.0, "accuracy": 1.0}}


def test_a_resumed_step_keeps_its_metrics_and_the_next_one_does_not_have_them(start: Start, path: Path) -> None:
    run = start(every=2)
    for step in run.steps(4):
        run.log(a=step)
        if step == 3:
            run.close()
            break
    list(start(every=1).steps(3))
    assert metrics_of(path) == {2: {"a": 2.0}, 3: {}}
