"""A sealed document is ordinary JSON in which any altered byte is seen."""

import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.core.errors import DamagedError
from lastgood.core.sealed import seal, unseal

text = st.text(max_size=6)
numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(text, values, min_size=1, max_size=4)


class Point(msgspec.Struct):
    x: int
    label: str = ""


@given(documents)
def test_round_trip(document):
    assert unseal(seal(document), dict, "it") == document


@given(documents)
def test_it_is_json_for_everybody(document):
    loaded = json.loads(seal(document))
    assert len(loaded.pop("xxh3")) == 16
    if "xxh3" not in document:
        assert loaded == document


@given(documents, st.data())
def test_any_flipped_bit_is_seen(document, data):
    sealed = bytearray(seal(document))
    at = data.draw(st.integers(0, len(sealed) - 1))
    sealed[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(DamagedError):
        unseal(bytes(sealed), dict, "it")


@given(documents, st.data())
def test_any_truncation_is_seen(document, data):
    sealed = seal(document)
    with pytest.raises(DamagedError, match="it "):
        unseal(sealed[: data.draw(st.integers(0, len(sealed) - 1))], dict, "it")


@pytest.mark.parametrize("data", [b"", b"{}", b"\0" * 100, b"null", b"[]\n", b'{"xxh3": "0123456789abcdef"}\n'])
def test_what_was_never_sealed(data):
    with pytest.raises(DamagedError):
        unseal(data, dict, "it")


def test_more_after_the_end_is_seen():
    with pytest.raises(DamagedError):
        unseal(seal({"a": 1}) + b" ", dict, "it")


def test_the_wrong_members_are_named():
    with pytest.raises(DamagedError, match=r"it is not what it should be.*`x`"):
        unseal(seal({"y": 1}), Point, "it")
    with pytest.raises(DamagedError, match="int"):
        unseal(seal({"x": "1"}), Point, "it")


def test_unknown_members_are_passed_over():
    assert unseal(seal({"x": 1, "later": [1]}), Point, "it") == Point(1)


def test_nested_beyond_reason_is_damage_not_a_crash():
    body = b'{\n "a": ' + b"[" * 100_000 + b"]" * 100_000
    import xxhash

    data = body + b',\n "xxh3": "' + xxhash.xxh3_64_hexdigest(body).encode() + b'"\n}\n'
    with pytest.raises(DamagedError):
        unseal(data, dict, "it")


def test_an_empty_object_cannot_be_sealed():
    with pytest.raises(ValueError, match="non-empty"):
        seal({})


def test_floats_keep_every_bit():
    for value in (0.1, -0.0, 5e-324, math.pi, 1e308):
        again = unseal(seal({"v": value}), dict, "it")["v"]
        assert math.copysign(1, again) == math.copysign(1, value)
        assert again == value
