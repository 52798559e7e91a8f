"""NumPy in a job's state: every array comes back bit for bit and in place; what cannot is refused by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lastgood
from frameworks.boxes import Box, stored
from frameworks.conftest import Save
from lastgood.core.errors import LastgoodError, StateMismatchError, UnstorableError, UsageError
from lastgood.frameworks.numpy_adapter import LegacyRandom
from lastgood.store.catalogue import list_checkpoints
from lastgood.store.jobdir import open_job


def assert_same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> None:
    assert type(a) is type(b)
    assert (a.dtype, a.dtype.str, a.shape) == (b.dtype, b.dtype.str, b.shape)
    assert a.tobytes() == b.tobytes()


PLAIN = ["?", "u1", "i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f2", "<f4", "<f8", "<c8"]
AS_BYTES = [">u2", ">i4", ">u8", ">f2", ">f4", ">f8", ">c8", "<c16", ">c16", np.dtype("g").str, np.dtype("G").str]
TEXTS_AND_TIMES = ["<U5", ">U5", "S3", "<M8[ns]", "<M8[D]", ">M8[s]", "<m8[us]", "<m8", "<M8[25s]"]


def make(dtype: str, count: int = 6) -> np.ndarray[Any, Any]:
    kind = np.dtype(dtype)
    if kind.kind == "?":
        return np.arange(count) % 2 == 0
    if kind.kind in "US":
        return np.array(["a", "", "xyz", "\0b", "cd", "e"][:count]).astype(kind)
    if kind.kind in "mM":
        return np.arange(count).astype("<i8").astype(kind)
    array = np.arange(count).astype(kind)
    if kind.kind in "fc":
        array[:4] = [np.nan, -0.0, np.inf, -np.inf]
    return array


@pytest.mark.parametrize("dtype", PLAIN + AS_BYTES + TEXTS_AND_TIMES)
def test_every_dtype_comes_back_in_place_and_as_a_value(save: Save, load: Save, dtype: str) -> None:
    array = make(dtype).reshape(2, 3)
    save({"array": array, "box": Box(array.copy())})
    here, box = np.zeros_like(array), Box()
    load({"array": here, "box": box})
    assert_same(here, array)
    assert_same(box.content, array)
    assert here.any()


def test_what_the_format_knows_is_stored_as_that_and_the_rest_as_bytes(save: Save, tmp_path: Path) -> None:
    save({"known": np.zeros((2, 3), "<f2"), "other": np.zeros((2, 3), ">f2")})
    assert stored(tmp_path / "job") == {"known": ("F16", (2, 3)), "other": ("U8", (12,))}


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1, 1, 1), (0, 0)])
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<U3", "<M8[ns]"])
def test_arrays_without_dimensions_or_elements_keep_their_shape(
    save: Save, load: Save, shape: tuple[int, ...], dtype: str
) -> None:
    array = np.ones(shape, dtype="<f4").astype("<i8").astype(dtype)
    save({"array": array, "box": Box(array.copy())})
    here, box = np.zeros_like(array), Box()
    load({"array": here, "box": box})
    assert_same(here, array)
    assert_same(box.content, array)


BASE = np.arange(24.0).reshape(4, 6)
LAYOUTS = {
    "fortran": np.asfortranarray(BASE),
    "transposed": BASE.T,
    "every second": BASE[::2, ::3],
    "backwards": BASE[::-1, ::-1],
    "column": BASE[:, 2],
    "broadcast": np.broadcast_to(BASE[0], (3, 6)),
    "unaligned": np.frombuffer(b"\0" + BASE.tobytes(), dtype=np.float64, offset=1)[:6],
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_values_count_and_not_how_they_lie_in_memory(save: Save, load: Save, name: str) -> None:
    array = LAYOUTS[name]
    save({"box": Box(array)})
    box = Box()
    load({"box": box})
    assert_same(box.content, np.array(array, order="C"))


@pytest.mark.parametrize("name", ["fortran", "transposed", "every second", "backwards", "column"])
def test_an_array_of_any_layout_is_restored_in_place_and_nothing_beside_it_is_touched(
    save: Save, load: Save, name: str
) -> None:
    save({"array": np.full(LAYOUTS[name].shape, 7.0)})
    memory = np.zeros((4, 6))
    here = {
        "fortran": lambda: np.zeros((6, 4)).T,
        "transposed": lambda: memory.T,
        "every second": lambda: memory[::2, ::3],
        "backwards": lambda: memory[::-1, ::-1],
        "column": lambda: memory[:, 2],
    }[name]()
    load({"array": here})
    assert (here == 7).all()
    if name != "fortran":
        assert memory.sum() == 7 * here.size


def test_the_object_and_all_views_of_it_stay(save: Save, load: Save) -> None:
    save({"weights": np.arange(6.0)})
    weights = np.zeros(6)
    view, reshaped = weights[2:], weights.reshape(2, 3)
    state = {"weights": weights}
    load(state)
    assert state["weights"] is weights
    assert view.tolist() == [2, 3, 4, 5]
    assert reshaped.tolist() == [[0, 1, 2], [3, 4, 5]]
    weights += 1
    assert view[0] == 3


def test_what_is_loaded_as_a_value_can_be_written_to_and_shares_nothing(save: Save, load: Save) -> None:
    save({"box": Box([np.zeros(2), np.zeros(2)])})
    box = Box()
    load({"box": box})
    first, second = box.content
    first += 1
    assert (first.tolist(), second.tolist()) == ([1, 1], [0, 0])
    save({"box": box})


def test_a_read_only_array_is_refused_by_name_but_can_be_a_value(save: Save, load: Save) -> None:
    array = np.arange(3)
    array.flags.writeable = False
    with pytest.raises(UsageError, match="weights: a read-only array cannot be restored in place"):
        save({"weights": array})
    save({"box": Box(array)})
    box = Box()
    load({"box": box})
    assert_same(box.content, np.arange(3))


def test_an_array_whose_elements_share_memory_comes_back(save: Save, load: Save) -> None:
    save({"weights": np.lib.stride_tricks.as_strided(np.arange(4.0), shape=(3, 4), strides=(0, 8))})
    here = np.lib.stride_tricks.as_strided(np.zeros(4), shape=(3, 4), strides=(0, 8))
    load({"weights": here})
    assert here.tolist() == [[0, 1, 2, 3]] * 3


REFUSED: dict[str, tuple[Any, str]] = {
    "objects": (np.array([None, 1], dtype=object), "an array of dtype object"),
    "record": (np.zeros(2, dtype=[("a", "i4"), ("b", "f8")]), "an array of dtype"),
    "void": (np.zeros(2, dtype="V3"), "an array of dtype"),
    "masked": (np.ma.masked_array([1, 2], mask=[True, False]), r"a MaskedArray \(a subclass of ndarray\)"),
    "matrix": (np.zeros((2, 2)).view(type("Matrix", (np.ndarray,), {})), r"a Matrix \(a subclass of ndarray\)"),
    "recarray": (np.zeros(2).view(np.recarray), r"a recarray \(a subclass of ndarray\)"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("wrap", [lambda array: array, Box], ids=["in place", "value"])
def test_what_would_not_come_back_as_it_was_is_refused_at_the_start_by_name(
    save: Save, name: str, wrap: Callable[[Any], Any], tmp_path: Path
) -> None:
    array, reason = REFUSED[name]
    with pytest.raises(UnstorableError, match=rf"weights(\.content)?: cannot store {reason}"):
        save({"weights": wrap(array)})
    assert not list_checkpoints(open_job(tmp_path / "job"))


def test_a_mapped_file_is_an_array_like_any_other(save: Save, load: Save, tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "mapped", dtype="<f4", mode="w+", shape=(4,))
    mapped[:] = [1, 2, 3, 4]
    save({"weights": mapped})
    mapped[:] = 0
    load({"weights": mapped})
    assert mapped.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("here", "line"),
    [
        (np.zeros(4), r"weights is float64\[4\] here, but float64\[3\] in the checkpoint"),
        (np.zeros((3, 1)), r"weights is float64\[3, 1\] here, but float64\[3\]"),
        (np.zeros(3, "f4"), r"weights is float32\[3\] here, but float64\[3\]"),
        (np.zeros(3, ">f8"), r"weights is >f8\[3\] here, but float64\[3\]"),
        (Box(), None),
    ],
    ids=["longer", "more dimensions", "other dtype", "other order of bytes", "no array"],
)
def test_another_shape_or_dtype_is_refused_and_nothing_changes(
    save: Save, load: Save, here: Any, line: str | None
) -> None:
    save({"weights": np.ones(3), "other": np.ones(1)})
    other = np.zeros(1)
    with pytest.raises(LastgoodError, match=line):
        load({"other": other, "weights": here})
    if line is not None:
        assert other[0] == 0
        assert not here.any()


def test_a_value_is_no_array(save: Save, load: Save) -> None:
    save({"weights": Box(1)})
    with pytest.raises(StateMismatchError, match="weights is an array here, but dict in the checkpoint"):
        load({"weights": np.zeros(1)})


# One memory, seen twice -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.str_(""), np.bytes_(b"")])
def test_an_empty_text_of_numpy_comes_back(save: Save, load: Save, value: Any) -> None:
    save({"box": Box(value)})
    box = Box()
    load({"box": box})
    assert (type(box.content), box.content) == (type(value), value)


def test_memory_that_two_entries_share_is_stored_once_and_restored_through_both(
    save: Save, load: Save, tmp_path: Path
) -> None:
    weights = np.arange(1000.0)
    save({"first": weights, "second": weights, "view": weights.view()})
    assert stored(tmp_path / "job") == {"first": ("F64", (1000,))}
    first, second, view = np.zeros(1000), np.zeros(1000), np.zeros(1000)
    load({"first": first, "second": second, "view": view})
    assert first.tolist() == second.tolist() == view.tolist() == list(range(1000))


def test_a_value_that_is_there_twice_is_one_array_again(save: Save, load: Save) -> None:
    array = np.zeros(3)
    save({"box": Box([array, array])})
    box = Box()
    load({"box": box})
    first, second = box.content
    first += 1
    assert second.tolist() == [1, 1, 1]


def test_views_that_differ_are_arrays_of_their_own(save: Save, tmp_path: Path) -> None:
    weights = np.arange(8.0)
    save({"all": weights, "half": weights[:4], "sparse": weights[::2], "bits": weights.view("<i8")})
    assert set(stored(tmp_path / "job")) == {"all", "half", "sparse", "bits"}


def test_temporary_arrays_that_reuse_one_address_are_not_taken_for_one(save: Save, load: Save) -> None:
    class Fleeting:
        got: Any = None

        def state_dict(self) -> dict[str, Any]:
            return {str(i): np.full(1000, float(i)) for i in range(50)}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.got = {name: float(array[0]) for name, array in state.items()}

    save({"fleeting": Fleeting(), "more": Fleeting()})
    one, two = Fleeting(), Fleeting()
    load({"fleeting": one, "more": two})
    assert one.got == two.got == {str(i): float(i) for i in range(50)}


def test_empty_arrays_are_not_taken_for_one(save: Save, load: Save) -> None:
    save({"box": Box([np.zeros((0, 2)), np.zeros((0, 3)), np.zeros(0, ">f4"), np.zeros(0)])})
    box = Box()
    load({"box": box})
    assert [(a.shape, a.dtype.str) for a in box.content] == [
        ((0, 2), "<f8"),
        ((0, 3), "<f8"),
        ((0,), ">f4"),
        ((0,), "<f8"),
    ]


# Generators ----------------------------------------------------------------------------------------------------------


def draws(generator: Any) -> list[Any]:
    # Several kinds: 32-bit draws keep half a word for the next time.
    integers = generator.integers if hasattr(generator, "integers") else generator.randint
    return [*generator.normal(size=3).tolist(), int(integers(0, 2**31, dtype=np.uint32)), float(generator.uniform())]


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_a_generator_of_any_kind_goes_on_where_it_was(save: Save, load: Save, kind: str) -> None:
    make = getattr(np.random, kind)
    generator, source = np.random.Generator(make(1)), make(2)
    draws(generator)
    save({"generator": generator, "source": source})
    expected = draws(generator), draws(np.random.Generator(source))
    here, other = np.random.Generator(make(3)), make(4)
    load({"generator": here, "source": other})
    assert (draws(here), draws(np.random.Generator(other))) == expected


def test_the_legacy_generator_goes_on_with_its_kept_gaussian(save: Save, load: Save) -> None:
    generator = np.random.RandomState(1)
    generator.normal()
    save({"generator": generator})
    expected = draws(generator)
    here = np.random.RandomState(2)
    load({"generator": here})
    assert draws(here) == expected


def test_a_legacy_generator_of_another_source_goes_on(save: Save, load: Save) -> None:
    generator = np.random.RandomState(np.random.PCG64(1))
    generator.normal()
    save({"generator": generator})
    expected = generator.normal(size=3).tolist()
    here = np.random.RandomState(np.random.PCG64(2))
    load({"generator": here})
    assert here.normal(size=3).tolist() == expected


def test_a_legacy_generator_of_another_source_is_refused(save: Save, load: Save) -> None:
    save({"generator": np.random.RandomState(np.random.PCG64(1))})
    with pytest.raises(StateMismatchError, match="is a MT19937 generator here, but PCG64 in the checkpoint"):
        load({"generator": np.random.RandomState(1)})


def test_the_state_of_a_legacy_generator_as_it_was_saved_before_is_still_taken() -> None:
    saved = np.random.RandomState(1)
    here = np.random.RandomState(2)
    entry = LegacyRandom(here)
    state = saved.get_state()
    assert entry.mismatches(state) == []
    entry.restore(state)
    assert here.normal() == saved.normal()


def test_another_kind_of_generator_is_refused(save: Save, load: Save) -> None:
    save({"generator": np.random.Generator(np.random.PCG64(1)), "legacy": np.random.RandomState(1)})
    with pytest.raises(StateMismatchError) as caught:
        load({"generator": np.random.Generator(np.random.Philox(1)), "legacy": np.random.Generator(np.random.SFC64(1))})
    assert "generator is a Philox generator here, but PCG64 in the checkpoint" in str(caught.value)
    assert "legacy is a SFC64 generator here, but MT19937 in the checkpoint" in str(caught.value)


def test_the_global_generator_goes_on_unless_that_is_not_wanted(tmp_path: Path) -> None:
    for random in (True, False):
        job = tmp_path / f"job-{random}"
        np.random.seed(1)
        with lastgood.Run({}, job=job, random=random) as run:
            np.random.normal()
            list(run.steps(1))
        expected = np.random.normal(size=3).tolist()
        np.random.seed(2)
        with lastgood.Run({}, job=job, random=random):
            assert (np.random.normal(size=3).tolist() == expected) == random


# A mistake that is easily made -----------------------------------------------------------------------------------------


def test_an_array_that_the_loop_rebinds_is_saved_as_it_was_and_a_note_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = np.zeros(3)
    with lastgood.Run({"weights": weights}, job=tmp_path / "job", every=1) as run:
        for _ in run.steps(25):
            weights = weights + 1
    here = np.full(3, 9.0)
    said = capsys.readouterr().err
    with lastgood.Run({"weights": here}, job=tmp_path / "job"):
        assert here.tolist() == [0, 0, 0]
    assert "nothing in the state has changed" in said
