"""Single values of any kind held against each other."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.prove.difference import Tolerance, join
from lastgood.prove.tally import is_close
from lastgood.prove.values import compare_values, printed_number

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON.filter(lambda value: value not in ([], {})))
def test_a_value_is_never_different_from_itself(value: Any) -> None:
    assert compare_values("v", value, value).kind in ("identical", "not comparable")


@given(JSON, JSON)
def test_identical_means_the_same_text_too(left: Any, right: Any) -> None:
    if compare_values("v", left, right).kind == "identical":
        assert repr(left) == repr(right) or sorted(repr(left)) == sorted(repr(right)), "keys may be in another order"


@pytest.mark.parametrize(
    ("left", "right", "told"),
    [
        (0.0, -0.0, "v: 0.0 against -0.0, a zero of the other sign, 0 ULP, absolute 0, relative 0"),
        (1, 1.0, "v: 1 against 1.0, int against float, absolute 0, relative 0"),
        (True, 1, "v: True against 1, bool against int"),
        (2**60, 2**60 + 1, "v: 1152921504606846976 against 1152921504606846977, absolute 1, relative 8.67e-19"),
        (None, 0.5, "v: None against 0.5, NoneType against float"),
        ("abc", "abd", "v: 'abc' against 'abd'"),
        ("0.50", "0.5", "v: 0.50 against 0.5, the same number, printed in another way, absolute 0, relative 0"),
        ("1.5D+02", "151.5", "v: 1.5D+02 against 151.5, absolute 1.5, relative 0.0099"),
        (b"abc", b"abd", "v[2]: 616263 against 616264, 1 bytes differ"),
        (b"abc", b"ab", "v: 3 bytes against 2 bytes, another size"),
        ([1, 2], [1, 2, 3], "v: list of 2 against list of 3, another length"),
        ({"a": [1, {"b": 0.5}]}, {"a": [1, {"b": 0.25}]}, "v.a[1].b: 0.5 against 0.25, 4,503,599,627,370,496 ULP, absolute 0.25, relative 0.5"),
        ({"a": 1}, {}, "v.a: 1, only in the undisturbed run"),
        ({}, {"a": 1}, "v.a: 1, only in the other run"),
        (1j, 2j, "v: 1j against 2j, 4,503,599,627,370,496 ULP, absolute 1, relative 0.5"),
        (np.float32(1), np.float64(1), "v: float32 against float64, another type"),
        ({1, 2}, {1, 3}, "v[1]: 2 against 3, absolute 1, relative 0.333"),
    ],
)  # fmt: skip
def test_a_difference_reads_like_this(left: Any, right: Any, told: str) -> None:
    found = compare_values("v", left, right)
    assert (found.kind, str(found.first)) == ("differs", told)


def test_a_value_that_nests_for_ever_is_an_answer_and_no_crash() -> None:
    deep: Any = 1.0
    for _ in range(500):
        deep = [deep]
    found = compare_values("v", deep, deep)
    assert found.first is not None
    assert "nested more than" in found.first.reason


@given(st.floats(), st.floats(), st.floats(0, 2), st.floats(0, 100))
def test_closeness_is_numpys(left: float, right: float, relative: float, absolute: float) -> None:
    with np.errstate(all="ignore"):
        expected = bool(np.isclose(right, left, rtol=relative, atol=absolute, equal_nan=True))
    assert is_close(left, right, Tolerance(relative, absolute)) == expected


def test_a_tolerance_also_holds_for_numbers_as_printed() -> None:
    assert compare_values("v", "1.0000", "1.0001", Tolerance(relative=1e-3)).kind == "within"
    assert compare_values("v", "1.0000", "nan", Tolerance(relative=1e-3)).kind == "differs"


def test_a_number_of_thousands_of_digits_is_compared_as_text() -> None:
    assert printed_number("1" * 5000) is None
    assert compare_values("v", "1" * 5000, "2" * 5000).kind == "differs"
    assert compare_values("v", 10**400, 10**400 + 1).kind == "differs"


@given(st.floats(allow_nan=False))
def test_what_python_prints_is_read_again(value: float) -> None:
    number = printed_number(repr(value))
    assert number == value and math.copysign(1, number) == math.copysign(1, value)


def test_no_answers_at_all_are_no_proof() -> None:
    assert join([]).kind == "not comparable"
    assert compare_values("v", {}, {}).kind == "not comparable"


def test_what_differs_stays_different_whatever_else_is_unknown() -> None:
    equal, other = compare_values("a", 1, 1), compare_values("b", 1, 2)
    assert join([equal, compare_values("c", [], []), other]).kind == "differs"
    assert join([equal, compare_values("c", [], [])]).kind == "not comparable"
