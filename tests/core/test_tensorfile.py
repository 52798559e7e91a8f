"""Headers of data files: what we plan, safetensors reads; what it writes, we read; hostile ones are refused."""

import json
from contextlib import suppress

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from lastgood.core import tensorfile
from lastgood.core.dtypes import FROM_NUMPY, SIZES, TO_NUMPY
from lastgood.core.errors import DamagedError, UnstorableError
from lastgood.core.tensorfile import ALIGNMENT, ArraySpec

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).filter(lambda n: n != "__metadata__")
shapes = st.lists(st.integers(0, 5), max_size=4).map(tuple)
specs = st.lists(
    st.builds(ArraySpec, names, st.sampled_from(sorted(SIZES)), shapes), unique_by=lambda s: s.name, max_size=8
)


@given(specs)
def test_what_is_planned_is_parsed(wanted):
    layout = tensorfile.plan(wanted)
    assert len(layout.header) % ALIGNMENT == 0
    found = tensorfile.parse(layout.header, layout.file_bytes, "it")
    assert {(p.spec, p.begin, p.end) for p in found} == {(p.spec, p.begin, p.end) for p in layout.arrays}
    for placed in found:
        assert placed.begin % SIZES[placed.spec.dtype] == 0
        assert placed.end - placed.begin == placed.spec.nbytes


@given(specs)
def test_the_safetensors_library_reads_it(wanted):
    wanted = [s for s in wanted if s.dtype in TO_NUMPY and s.dtype != "C64"]
    layout = tensorfile.plan(wanted)
    data = layout.header + bytes(layout.file_bytes - len(layout.header))
    found = safetensors.numpy.load(data)
    assert {(name, FROM_NUMPY[a.dtype.str], a.shape) for name, a in found.items()} == set(wanted)


def test_what_the_safetensors_library_writes_is_read():
    data = safetensors.numpy.save({"a": np.ones((2, 3), "<f4"), "b": np.arange(5)}, metadata={"by": "somebody"})
    found = {p.spec.name: data[p.begin : p.end] for p in tensorfile.parse(data, len(data), "it")}
    assert found == {"a": np.ones((2, 3), "<f4").tobytes(), "b": np.arange(5).tobytes()}


def test_metadata_goes_into_the_header_and_is_no_array():
    layout = tensorfile.plan([ArraySpec("a", "U8", (1,))], {"format": "pt"})
    assert [p.spec.name for p in tensorfile.parse(layout.header, layout.file_bytes, "it")] == ["a"]
    assert json.loads(layout.header[8:])["__metadata__"] == {"format": "pt"}


def test_equal_states_make_equal_files_whatever_the_order():
    a, b = ArraySpec("a", "F32", (2,)), ArraySpec("b", "F32", (2,))
    assert tensorfile.plan([a, b]) == tensorfile.plan([b, a])


def file(header: object, data_bytes: int) -> tuple[bytes, int]:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text, 8 + len(text) + data_bytes


def array(begin, end, dtype="U8", shape=None):
    return {"dtype": dtype, "shape": [end - begin] if shape is None else shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    ("header", "data_bytes", "word"),
    [
        ({"a": array(0, 4), "b": array(2, 6)}, 6, "begins at byte"),
        ({"a": array(0, 4), "b": array(5, 8)}, 8, "begins at byte"),
        ({"a": array(1, 4)}, 4, "begins at byte"),
        ({"a": array(0, 4)}, 5, "the file at"),
        ({"a": array(0, 8)}, 4, "outside the file"),
        ({"a": array(4, 0, shape=[0])}, 4, "outside"),
        ({"a": array(-4, 0, shape=[4])}, 0, "outside"),
        ({"a": array(0, 4, shape=[5])}, 4, "its shape says 5"),
        ({"a": array(0, 4, dtype="F32", shape=[4])}, 4, "its shape says 16"),
        ({"a": array(0, 4, shape=[-2, -2])}, 4, "shape that no array can have"),
        ({"a": array(0, 0, shape=[0, 2**70])}, 0, "shape that no array can have"),
        ({"a": array(0, 0, shape=[1] * 100)}, 0, "shape"),
        ({"a": array(0, 4, dtype="OBJECT")}, 4, "unknown type"),
        ({"a": {"dtype": "U8", "shape": [1]}}, 1, "not a table"),
        ({"a": {**array(0, 1), "extra": 1}}, 1, "not a table"),
        ({"a": array(0, 10**18)}, 4, "outside the file"),
        ([1, 2], 0, "not a table"),
        (b"not json", 0, "not a table"),
        (b'{"a":' * 50_000, 0, "not a table"),
        (
            b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}',
            0,
            "twice",
        ),
    ],
)
def test_hostile_headers_are_refused(header, data_bytes, word):
    data, size = file(header, data_bytes)
    with pytest.raises(DamagedError, match=word) as caught:
        tensorfile.parse(data, size, "it")
    assert caught.value.what.startswith("it: ")
    assert len(caught.value.what) < 1000
    with pytest.raises(DamagedError) as checked:
        tensorfile.check(data, size, "it")
    assert checked.value.what == caught.value.what


@given(specs, st.randoms(use_true_random=False), st.integers(0, 3), st.integers(-1, 1))
def test_a_check_finds_what_parsing_finds_in_whatever_order_the_header_names_the_arrays(wanted, source, which, change):
    layout = tensorfile.plan(wanted)
    entries = json.loads(layout.header[8:])
    if len(entries) > which:
        entries[list(entries)[which]]["data_offsets"][source.randrange(2)] += change
    names = list(entries)
    source.shuffle(names)
    outcomes = []
    for order in (list(entries), names):
        data, size = file({name: entries[name] for name in order}, layout.file_bytes - len(layout.header))
        for look in (tensorfile.parse, tensorfile.check):
            try:
                found = look(data, size, "it")
            except DamagedError:
                outcomes.append(None)
            else:
                outcomes.append({p.spec.name: p.end - p.begin for p in found} if found is not None else {})
    is_refused = [outcome is None for outcome in outcomes]
    assert is_refused in ([True] * 4, [False] * 4)
    assert outcomes[0] == outcomes[2]


@pytest.mark.parametrize("prefix", [b"", b"\0" * 7, b"\0" * 8, b"\xff" * 8, (10**8 + 1).to_bytes(8, "little")])
def test_a_length_that_does_not_fit_the_file_is_refused(prefix):
    with pytest.raises(DamagedError, match="does not fit"):
        tensorfile.header_bytes(prefix, 100, "it")


@given(st.binary(max_size=200), st.integers(0, 300))
def test_no_bytes_make_it_fail_otherwise(data, size):
    with suppress(DamagedError):
        tensorfile.parse(data, size, "it")


def test_more_arrays_than_a_header_can_hold_is_an_error_of_ours(monkeypatch):
    monkeypatch.setattr(tensorfile, "MAX_HEADER_BYTES", 5000)
    with pytest.raises(UnstorableError, match="the format ends at 5000"):
        tensorfile.plan([ArraySpec(f"array-{i}", "U8", (1,)) for i in range(100)])
