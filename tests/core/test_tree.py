"""State trees: what goes in comes out equal in value and type; what cannot be stored names its place."""

import base64
import json
import math
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from enum import IntEnum
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.core.errors import DamagedError, UnstorableError
from lastgood.core.tree import MAX_DEPTH, ArrayLeaf, array_names, flatten, unflatten


class Array:
    """Stands for an array of some framework: an object with bytes, compared by value."""

    def __init__(self, data: bytes, flavour: str = "", memory: object = None) -> None:
        self.data = data
        self.flavour = flavour
        self.memory = memory or self


class Half(float):
    """Stands for a scalar of some framework."""


class Codec:
    def to_leaf(self, value: object) -> ArrayLeaf | None:
        if not isinstance(value, Array):
            return None
        if value.flavour == "sparse":
            raise ValueError("a sparse array")
        tag = {"flavour": value.flavour} if value.flavour else {}
        return ArrayLeaf("stub", "U8", (len(value.data),), value, tag, id(value.memory))

    def to_json(self, value: object) -> tuple[str, Any] | None:
        return ("half", float(value).hex()) if type(value) is Half else None

    def from_json(self, tag: str, content: Any) -> object:
        if tag != "half":
            raise KeyError(tag)
        return Half(float.fromhex(content))


CODECS = (Codec(),)


def through(tree: Any) -> Any:
    """Flattened, written as JSON by the library that writes documents, read, and put together again."""
    flat = flatten(tree, CODECS)
    skeleton = msgspec.json.decode(msgspec.json.encode(flat.skeleton))
    return unflatten(skeleton, lambda name, kind, tag: flat.arrays[name].data, CODECS)


def same(a: Any, b: Any) -> bool:
    """Equal in value, type, order, and every bit of floats."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return struct.pack("<d", a) == struct.pack("<d", b) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, dict):
        return len(a) == len(b) and all(same(x, y) and same(a[x], b[y]) for x, y in zip(a, b, strict=True))
    if isinstance(a, list | tuple | deque):
        is_alike = getattr(a, "maxlen", None) == getattr(b, "maxlen", None)
        return is_alike and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, Array):
        return a is b
    return bool(a == b)


# Surrogates on purpose: file names have them.
text = st.text(st.characters(exclude_categories=[])) | st.sampled_from(
    ["", "$", "$array", "a.b", ".", "\ud800", "\0", "é"]
)
numbers = st.integers(-(2**80), 2**80) | st.floats() | st.sampled_from([-0.0, 2**63, -(2**63) - 1, 2**63 - 1])
plain = st.none() | st.booleans() | numbers | text | st.binary(max_size=8)
hashable = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3), max_leaves=4
)
# NaN is unequal to itself: as a key it would be a new one each time.
keys = hashable.filter(lambda key: "nan" not in repr(key))
leaves = (
    plain
    | st.complex_numbers()
    | st.binary(max_size=8).map(bytearray)
    | st.binary(max_size=8).map(Array)
    | st.floats(allow_nan=False).map(Half)
)
trees = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(text, inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=4)
        | st.dictionaries(text, inner, max_size=4).map(OrderedDict)
        | st.sets(keys, max_size=4)
        | st.builds(deque, st.lists(inner, max_size=4), st.none() | st.integers(4, 9))
        | st.dictionaries(keys, st.integers(-3, 3), max_size=3).map(Counter)
    ),
    max_leaves=25,
)


@given(trees)
def test_round_trip(tree):
    assert same(through(tree), tree)


@given(trees)
def test_the_skeleton_is_json_for_everybody(tree):
    skeleton = flatten(tree, CODECS).skeleton
    assert json.loads(json.dumps(skeleton, allow_nan=False)) == skeleton
    msgspec.json.encode(skeleton)


@given(trees)
def test_the_names_in_the_skeleton_are_those_of_the_arrays(tree):
    flat = flatten(tree, CODECS)
    assert sorted(array_names(flat.skeleton)) == sorted(flat.arrays)
    for name in flat.arrays:
        assert name
        name.encode()
        assert name != "__metadata__"


@given(st.sets(keys, max_size=8))
def test_equal_sets_are_stored_equally(members):
    backwards: set[Any] = set()
    for member in reversed(list(members)):
        backwards.add(member)  # another history can mean another order of iteration
    assert flatten(members).skeleton == flatten(backwards).skeleton


def test_names_are_the_way_through_the_tree():
    tree = {"model": {"layers": [Array(b"a"), {"w": Array(b"b")}]}, "steps": {0: Array(b"c"), (1, "x"): Array(b"d")}}
    assert list(flatten(tree, CODECS).arrays) == ["model.layers.0", "model.layers.1.w", "steps.0", "steps.(1, 'x')"]


def test_keys_with_dots_do_not_mix_arrays_up():
    tree = {"a.b": Array(b"1"), "a": {"b": Array(b"2")}, 1: Array(b"3"), "1": Array(b"4")}
    flat = flatten(tree, CODECS)
    assert len(flat.arrays) == 4
    assert same(through(tree), tree)
    assert sorted(flat.arrays) == ["1", "1#2", "a.b", "a.b#2"]


def test_names_that_would_break_the_file_are_not_used():
    long, surrogate = "x" * 100_000, "\udcff"
    flat = flatten({"__metadata__": Array(b"1"), long: Array(b"2"), surrogate: Array(b"3"), "": Array(b"4")}, CODECS)
    assert "__metadata__" not in flat.arrays
    assert all(len(name) <= 210 for name in flat.arrays)
    msgspec.json.encode(list(flat.arrays))


def test_a_bare_array_has_a_name():
    assert list(flatten(Array(b"x"), CODECS).arrays) == ["value"]


def test_shared_memory_is_stored_once_and_shared_again():
    shared = Array(b"tied")
    tree = {"embedding": shared, "head": shared}
    flat = flatten(tree, CODECS)
    assert list(flat.arrays) == ["embedding"]
    again = through(tree)
    assert again["embedding"] is again["head"]


def test_one_memory_seen_as_two_types_is_two_arrays():
    first = Array(b"1234")
    flat = flatten({"a": first, "b": Array(b"1234", "other", first), "c": Array(b"1234", "", first)}, CODECS)
    assert list(flat.arrays) == ["a", "b"]


def test_tags_come_back_with_the_array():
    seen = []
    flat = flatten({"a": Array(b"x", "round")}, CODECS)
    unflatten(flat.skeleton, lambda name, kind, tag: seen.append((name, kind, tag)), CODECS)
    assert seen == [("a", "stub", {"flavour": "round"})]


class Point(NamedTuple):
    x: int


class Colour(IntEnum):
    RED = 1


class MyDict(dict):  # a subclass, as libraries have them
    pass


class MyStr(str):
    pass


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (object(), "object"),
        (print, "builtin_function_or_method"),
        (Point(1), "Point"),
        (Colour.RED, "Colour"),
        (MyDict(), "MyDict"),
        (MyStr("x"), "MyStr"),
        (defaultdict(list), "defaultdict"),
        (range(3), "range"),
        ((i for i in ()), "generator"),
        (int, "type"),
        (memoryview(b""), "memoryview"),
        (Array(b"", "sparse"), "a sparse array"),
    ],
)
def test_what_cannot_be_stored_is_named_with_its_place(value, kind):
    with pytest.raises(UnstorableError, match=rf"^optimizer\.state\.3\.foo: cannot store .*{kind}") as caught:
        flatten({"optimizer": {"state": {3: {"foo": value}}}}, CODECS)
    assert caught.value.remedy


def test_an_integer_that_python_will_not_write_out_is_refused():
    with pytest.raises(UnstorableError, match=r"^a\.b: cannot store an integer of thousands of digits"):
        flatten({"a": {"b": 10**5000}})


def test_a_key_that_cannot_be_stored_is_called_a_key():
    with pytest.raises(UnstorableError, match=r"\(the key\): cannot store a value of type"):
        flatten({"m": {object: 1}})


def test_a_subclass_as_a_key_is_refused_too():
    with pytest.raises(UnstorableError, match="MyStr"):
        flatten({MyStr("x"): 1})


def test_a_tree_that_contains_itself_is_an_error_not_a_crash():
    tree: dict[str, Any] = {}
    tree["self"] = tree
    with pytest.raises(UnstorableError, match="contain itself"):
        flatten(tree)
    loop: list[Any] = []
    loop.append((loop,))
    with pytest.raises(UnstorableError, match="nested more than"):
        flatten(loop)


@pytest.mark.parametrize(
    "wrap", [lambda t: [t], lambda t: (t,), lambda t: {"k": t}, lambda t: {1: t}, lambda t: deque([t])]
)
def test_as_deep_as_allowed_comes_back(wrap):
    tree: Any = 1
    for _ in range(MAX_DEPTH):
        tree = wrap(tree)
    assert same(through(tree), tree)
    with pytest.raises(UnstorableError, match="nested"):
        flatten(wrap(wrap(tree)))


@pytest.mark.parametrize(
    "skeleton",
    [
        {"$unknown": 1},
        {"$tuple": 5},
        {"$tuple": [1], "extra": 2},
        {"$set": [[1]]},
        {"$dict": [[1]]},
        {"$dict": [[[1], 2]]},
        {"$dict": 5},
        {"$bytes": "not base64!"},
        {"$bytes": 5},
        {"$int": "x"},
        {"$int": None},
        {"$float": "abc"},
        {"$complex": [1]},
        {"$deque": []},
        {"$deque": [-1, []]},
        {"$text": base64.b64encode(b"\xff").decode()},
        {"$half": "not hex"},
        {"$array": "a"},
        {"$": 1},
        {"$Counter": {}},
    ],
)
def test_a_skeleton_that_nobody_wrote_is_damage(skeleton):
    for nested in (skeleton, [skeleton], {"a": skeleton}):
        with pytest.raises(DamagedError):
            unflatten(nested, lambda name, kind, tag: None, CODECS)


def test_a_skeleton_nested_beyond_reason_is_damage_not_a_crash():
    skeleton: Any = 1
    for _ in range(600):
        skeleton = [skeleton]
    with pytest.raises(DamagedError, match="nested too deeply"):
        unflatten(skeleton, lambda name, kind, tag: None)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["$tuple", "$dict", "$set", "$int", "$bytes", "$array", "$deque", "a", "kind"]),
            inner,
            max_size=2,
        )
    ),
    max_leaves=10,
)


@given(json_values)
def test_any_json_is_decoded_or_damaged(skeleton):
    try:
        unflatten(skeleton, lambda name, kind, tag: None, CODECS)
    except DamagedError as error:
        assert str(error)


def test_values_of_a_framework_that_is_not_there_say_so():
    with pytest.raises(DamagedError, match="may not be installed"):
        unflatten({"$torch.dtype": "float32"}, lambda name, kind, tag: None)
