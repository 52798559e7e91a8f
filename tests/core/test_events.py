"""A journal survives what happens to files of processes that are killed."""

from hypothesis import given
from hypothesis import strategies as st

from lastgood.core.events import Event, decode_lines, encode

json_values = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"]))
)
events = st.builds(
    Event,
    kind=st.sampled_from(["started", "committed", "of a later version"]),
    at=st.floats(0, 2e9),
    data=st.dictionaries(st.sampled_from(["step", "reason"]), json_values),
)


@given(st.lists(events))
def test_round_trip(written):
    assert decode_lines(b"".join(map(encode, written))) == written


@given(events)
def test_an_event_is_one_line(event):
    assert encode(event).count(b"\n") == 1
    assert encode(event).endswith(b"\n")


@given(st.lists(events, min_size=1), st.integers(1, 1000))
def test_a_torn_end_loses_the_last_line_only(written, cut):
    data = b"".join(map(encode, written))
    torn = data[: -min(cut, len(encode(written[-1])))]
    assert decode_lines(torn)[: len(written) - 1] == written[:-1]


@given(st.binary())
def test_any_bytes_are_passed_over(garbage):
    good = Event("committed", 1.0, {"step": 5})
    assert good in decode_lines(garbage + b"\n" + encode(good))


def test_nested_beyond_reason_is_passed_over():
    assert decode_lines(b'{"kind":"x","at":1,"data":{"a":' + b"[" * 100_000 + b"\n" + encode(Event("x", 1.0))) == [
        Event("x", 1.0)
    ]


def test_names_that_are_no_text_are_written_as_escapes():
    written = Event("save_failed", 1.0, {"error": "/jobs/\udcff/x", "command": ["a", "\udc80"], "step": 3})
    (found,) = decode_lines(encode(written))
    assert found.data == {"error": "/jobs/\\udcff/x", "command": ["a", "\\udc80"], "step": 3}
