"""Places in a text: lines and columns of offsets, whatever its bytes."""

from hypothesis import given
from hypothesis import strategies as st

from lastgood.audit.source import Source, Span


@given(st.text("aé漢\n\r\t", max_size=40), st.lists(st.integers(0, 40), max_size=12))
def test_lines_and_columns_are_those_of_the_text(text: str, places: list[int]) -> None:
    source = Source("x", text.encode())
    for place in places:
        before = text[:place]
        at = len(before.encode())
        expected = (before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)
        assert source.span(at, at) == Span(*expected, *expected)


def test_a_place_inside_a_character_or_in_bytes_that_are_none_has_a_column() -> None:
    source = Source("x", "é\n".encode() + b"\xff\xfe a")
    assert source.span(3, 5) == Span(2, 1, 2, 3)
    assert source.span(1, 2).end_column >= 2
    assert source.line(2) == "\udcff\udcfe a"
