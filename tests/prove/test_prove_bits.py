"""Arrays held against each other bit for bit: property tests against NumPy itself."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from lastgood.prove.arrays import Numbers, decoded, numbers
from lastgood.prove.bits import compare_arrays, long_double_bytes, ulp_distance
from lastgood.prove.difference import Tolerance

FLOATS = ["f2", "f4", "f8"]


def bits(value: Any) -> Any:
    array = np.atleast_1d(np.asarray(value))
    return array.view(f"u{array.dtype.itemsize}")


@given(st.sampled_from(FLOATS), st.data(), st.integers(0, 40))
def test_n_steps_of_nextafter_are_n_ulp(dtype: str, data: st.DataObject, steps: int) -> None:
    start = np.dtype(dtype).type(data.draw(st.floats(allow_nan=False, allow_infinity=False, width=8 * int(dtype[1]))))  # type: ignore[arg-type]
    end = start
    for _ in range(steps):
        with np.errstate(over="ignore"):
            end = np.nextafter(end, np.dtype(dtype).type(-np.inf))
    if not np.isfinite(end):
        return
    assert int(ulp_distance(bits(start), bits(end))[0]) == steps
    assert int(ulp_distance(bits(end), bits(start))[0]) == steps


def test_ulp_are_counted_across_zero_and_both_zeros_are_one_number() -> None:
    tiny = np.nextafter(0.0, 1.0)
    assert int(ulp_distance(bits(-tiny), bits(tiny))[0]) == 2
    assert int(ulp_distance(bits(-0.0), bits(0.0))[0]) == 0
    assert int(ulp_distance(bits(-np.finfo(float).max), bits(np.finfo(float).max))[0]) == 2 * 0x7FEFFFFFFFFFFFFF


ARRAYS = npst.arrays(
    dtype=st.sampled_from([*FLOATS, "i1", "u2", "i8", "u8", "c8", "c16", "?"]),
    shape=npst.array_shapes(max_dims=3, max_side=4),
)


@given(ARRAYS)
def test_an_array_is_identical_to_its_copy_whatever_it_holds(array: Any) -> None:
    found = compare_arrays("a", array, array.copy())
    assert (found.kind, found.compared, found.differing, found.first) == ("identical", array.size, 0, None)


@given(ARRAYS, st.data())
def test_one_flipped_bit_is_found_where_it_is(array: Any, data: st.DataObject) -> None:
    if array.dtype.kind == "b":
        return
    other = array.copy()
    raw = other.reshape(-1).view(np.uint8)
    at = data.draw(st.integers(0, raw.size - 1))
    raw[at] ^= 1 << data.draw(st.integers(0, 7))
    found = compare_arrays("a", array, other)
    index = np.unravel_index(at // array.dtype.itemsize, array.shape)
    assert found.kind == "differs"
    assert (found.differing, found.beyond, found.compared) == (1, 1, array.size)
    assert found.first is not None
    assert found.first.what == f"a[{', '.join(str(int(i)) for i in index)}]"


NUMBERS = st.floats(allow_nan=False, width=64)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=20), st.floats(0, 2), st.floats(0, 1e3))
def test_what_a_tolerance_allows_is_what_numpy_allows(pairs: list[tuple[float, float]], r: float, a: float) -> None:
    left, right = (np.array(side) for side in zip(*pairs, strict=True))
    if not r and not a:
        return
    found = compare_arrays("a", left, right, Tolerance(relative=r, absolute=a))
    with np.errstate(all="ignore"):
        close = np.isclose(right, left, rtol=r, atol=a)
    assert found.beyond == np.count_nonzero(~close)
    assert found.kind == ("differs" if found.beyond else "within" if found.differing else "identical")


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=20))
def test_the_largest_differences_are_the_largest(pairs: list[tuple[float, float]]) -> None:
    left, right = (np.array(side) for side in zip(*pairs, strict=True))
    found = compare_arrays("a", left, right)
    finite = [(x, y) for x, y in pairs if math.isfinite(x) and math.isfinite(y) and bits(x)[0] != bits(y)[0]]
    if not finite:
        assert found.largest_absolute is None
        return
    assert found.largest_absolute is not None and found.largest_absolute.absolute is not None
    assert found.largest_relative is not None and found.largest_relative.relative is not None
    assert found.largest_ulp is not None
    largest = max(min(abs(x - y), np.finfo(float).max) for x, y in finite)
    assert found.largest_absolute.absolute == largest
    assert found.largest_ulp.ulp == max(int(ulp_distance(bits(x), bits(y))[0]) for x, y in finite)
    assert 0 <= found.largest_relative.relative <= 2


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_nan_with_another_payload_is_a_difference_and_is_explained(dtype: str) -> None:
    left = np.array([1, np.nan], dtype)
    right = left.copy()
    right.view(f"u{dtype[1]}")[1] ^= 1
    found = compare_arrays("a", left, right)
    assert found.first is not None
    assert (found.kind, found.first.reason) == ("differs", "NaN with another payload")
    assert (found.first.absolute, found.first.ulp) == (None, None)
    assert found.first.left != found.first.right, "the payloads are shown"
    assert compare_arrays("a", left, right, Tolerance(relative=1e-9)).kind == "within"


@pytest.mark.parametrize(
    ("left", "right", "reason"),
    [(0.0, -0.0, "a zero of the other sign"), (np.nan, 1.0, "NaN against a number"), (np.inf, -np.inf, "infinity")],
)
def test_what_numbers_do_not_tell_is_said(left: float, right: float, reason: str) -> None:
    found = compare_arrays("a", np.array([left]), np.array([right]))
    assert found.first is not None
    assert (found.kind, found.first.reason) == ("differs", reason)


def test_other_shapes_and_types_are_said_and_not_compared() -> None:
    shapes = compare_arrays("w", np.zeros((2, 3)), np.zeros((3, 2)))
    assert str(shapes.first) == "w: (2, 3) against (3, 2), another shape"
    types = compare_arrays("w", np.zeros(3, "f4"), np.zeros(3))
    assert str(types.first) == "w: float32 against float64, another type"
    assert shapes.kind == types.kind == "differs"


def test_the_byte_order_of_a_file_is_no_difference() -> None:
    assert compare_arrays("w", np.array([1.5, 2.5], ">f8"), np.array([1.5, 2.5], "<f8")).kind == "identical"


@pytest.mark.parametrize("is_both", [True, False])
def test_elements_are_named_rightly_in_fortran_order(is_both: bool) -> None:
    left = np.asfortranarray(np.arange(12.0).reshape(3, 4))
    right = np.arange(12.0).reshape(3, 4)
    right[1, 2] += 1
    found = compare_arrays("w", left, np.asfortranarray(right) if is_both else right)
    assert found.first is not None
    assert (found.differing, found.first.what, found.first.left) == (1, "w[1, 2]", "6.0")


def test_integers_that_overflow_their_type_are_apart_as_far_as_they_are() -> None:
    low, high = np.array([-(2**63)]), np.array([2**63 - 1])
    found = compare_arrays("n", low, high)
    assert found.first is not None
    assert found.first.absolute == float(2**64 - 1)
    assert found.first.ulp is None


def test_fields_of_a_structured_array_are_compared_one_by_one() -> None:
    left = np.zeros(3, [("id", "i4"), ("x", "f8", (2,))])
    right = left.copy()
    right["x"][2, 1] = 1
    found = compare_arrays("p", left, right)
    assert found.first is not None
    assert (found.first.what, found.compared) == ("p.x[2, 1]", 9)


def test_padding_of_long_doubles_is_not_compared() -> None:
    left = np.array([1.5], np.longdouble)
    right = left.copy()
    if left.dtype.itemsize < 16 or np.finfo(np.longdouble).nmant != 63:
        pytest.skip("no padding in this machine's long double")
    right.view(np.uint8)[-1] ^= 1
    assert compare_arrays("x", left, right).kind == "identical"
    assert compare_arrays("x", left, np.nextafter(left, np.longdouble(2))).kind == "differs"


@pytest.mark.parametrize("dtype", [np.longdouble, np.clongdouble])
def test_where_long_doubles_have_no_padding_every_byte_of_them_counts(
    monkeypatch: pytest.MonkeyPatch, dtype: type[Any]
) -> None:
    left = np.array([1.5], dtype)
    right = left.copy()
    right.view(np.uint8)[-1] ^= 1
    monkeypatch.setattr("lastgood.prove.bits._LONG_DOUBLE_BYTES", long_double_bytes(112, np.longdouble().itemsize))
    assert compare_arrays("x", left, right).kind == "differs"


def test_complex_long_doubles_are_compared_by_their_bits() -> None:
    values = np.array([complex(np.nan, 0.0), complex(1.0, 0.0)], np.clongdouble)
    assert compare_arrays("x", values, values.copy()).kind == "identical"
    other = values.copy()
    other.imag[1] = -0.0
    found = compare_arrays("x", values, other)
    assert found.first is not None
    assert (found.differing, found.first.what, found.first.reason) == (1, "x[1]", "a zero of the other sign")


@given(npst.arrays("u2", st.integers(1, 30)), st.integers(0, 29))
def test_bfloat16_has_the_numbers_that_torch_gives_it(raw: Any, at: int) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.from_numpy(raw.view("i2")).view(torch.bfloat16).float().numpy()
    assert np.array_equal(decoded(raw, "BF16"), theirs, equal_nan=True)


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("F8_E4M3", "float8_e4m3fn"),
        ("F8_E5M2", "float8_e5m2"),
        ("F8_E8M0", "float8_e8m0fnu"),
        ("float8_e4m3fnuz", "float8_e4m3fnuz"),
        ("float8_e5m2fnuz", "float8_e5m2fnuz"),
    ],
)
def test_eight_bit_floats_have_the_numbers_that_torch_gives_them(name: str, theirs: str) -> None:
    torch = pytest.importorskip("torch")
    raw = np.arange(256, dtype=np.uint8)
    expected = torch.from_numpy(raw).view(getattr(torch, theirs)).float().numpy()
    assert np.array_equal(decoded(raw, name).astype(np.float32), expected, equal_nan=True)


def test_bfloat16_differences_are_told_as_numbers() -> None:
    left = np.array([0x3F80, 0x8001], "u2")
    right = np.array([0x3F84, 0x0001], "u2")
    found = compare_arrays("w", numbers(left, "BF16"), numbers(right, "BF16"))
    assert found.first is not None and found.largest_ulp is not None
    assert (found.first.left, found.first.right, found.first.ulp) == ("1.0", "1.03125", 4)
    assert compare_arrays("w", numbers(left, "BF16"), left).kind == "differs", "bits are not the same as integers"


@settings(max_examples=30)
@given(npst.arrays("f4", npst.array_shapes(max_dims=3, max_side=5)), st.integers(1, 7))
def test_chunks_are_the_array(array: Any, count: int) -> None:
    for each in (array, np.asfortranarray(array), array[::-1]):
        read = numbers(each)
        flat = np.concatenate(list(read.chunks(count)))
        assert np.array_equal(flat.reshape(array.shape, order=read.order), each, equal_nan=True)


def test_a_difference_behind_the_first_chunk_has_its_own_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lastgood.prove.bits.CHUNK_BYTES", 64)
    left = np.zeros((10, 10))
    right = left.copy()
    right[3, 1], right[9, 9], right[5, 5] = 1e-3, 2.0, np.nan
    found = compare_arrays("w", left, right)
    assert found.first is not None and found.largest_absolute is not None
    assert (found.differing, found.first.what, found.largest_absolute.what) == (3, "w[3, 1]", "w[9, 9]")


def test_an_array_may_be_read_while_it_is_compared() -> None:
    def chunks(count: int) -> Any:
        yield from (np.full(4, value) for value in (1.0, 2.0))

    streamed = Numbers("float64", np.dtype("f8"), (8,), "C", chunks, lambda: np.empty(0))
    assert compare_arrays("w", streamed, streamed).compared == 8
