"""A fault on the command line: what is understood, and what is refused with a word on how to write it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.core.errors import UsageError
from lastgood.drill.spec import Kind, Spec, When, parse_spec, parse_when

WORDS = st.from_regex(r"[a-z][a-z0-9-]{0,10}", fullmatch=True)
MOMENTS = st.one_of(
    st.none(),
    st.integers(0, 10**12 - 1).map(lambda n: When(Kind.STEP, step=n)),
    st.integers(0, 10**9).map(lambda ms: When(Kind.TIME, seconds=ms / 1000)),
    st.integers(0, 10**9).map(lambda ms: When(Kind.AFTER, seconds=ms / 1000)),
    WORDS.map(lambda name: When(Kind.PHASE, phase=name)),
)


@given(st.builds(Spec, WORDS, st.dictionaries(WORDS, WORDS, max_size=3), MOMENTS))
def test_what_is_written_is_read_again(spec: Spec) -> None:
    assert parse_spec(spec.text) == spec


def test_blanks_around_words_do_not_matter() -> None:
    assert parse_spec(" kill-rank , which = last @ step = 12 ") == parse_spec("kill-rank,which=last@step=12")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no fault"),
        ("@step=1", "names no fault"),
        ("kill-rank@", "nothing follows"),
        ("kill-rank@step", "no value"),
        ("kill-rank@step=-1", "no step"),
        ("kill-rank@step=1.5", "no step"),
        ("kill-rank@step=1234567890123", "no step"),
        ("kill-rank@tomorrow=1", "no moment"),
        ("kill-rank,which", "not option=value"),
        ("kill-rank,which=", "not option=value"),
        ("kill-rank,=last", "not option=value"),
        ("kill-rank,which=last,which=first", "given twice"),
        ("kill-rank@time=30", "not a duration"),
    ],
)
def test_what_is_no_fault_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_spec(text)


def test_a_moment_says_itself_to_a_person() -> None:
    assert parse_when("time=90s").words == "90 s after the start"
    assert parse_when("phase=restore").words == "during restore"
