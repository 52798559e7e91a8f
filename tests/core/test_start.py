"""A start is fresh, resumed or refused; fresh only on positive evidence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.core.start import Candidate, EarlierAttempt, Expectation, StartKind, decide_start

GOOD = Candidate("000000000010-0001", 10)
BAD = Candidate("000000000020-0001", 20, "block 3 does not match")
NEVER_SAVED = EarlierAttempt(1, None)
SAVED = EarlierAttempt(1, 10)
SCHEDULER = Expectation("SLURM_RESTART_COUNT=1")
RECORD = Expectation("the record", 10)


@pytest.mark.parametrize(
    ("usable", "unusable", "earlier", "expectations", "is_fresh", "kind", "word"),
    [
        (None, [], [], [], False, "fresh", "has not run before"),
        (None, [], [NEVER_SAVED], [], False, "fresh", "before the first save"),
        (None, [], [NEVER_SAVED], [SCHEDULER], False, "fresh", "before the first save"),
        (None, [], [], [SCHEDULER], False, "refused", "SLURM_RESTART_COUNT=1"),
        (None, [], [], [RECORD], False, "refused", "the record says"),
        (None, [], [NEVER_SAVED], [RECORD], False, "refused", "saved step 10"),
        (None, [], [SAVED], [], False, "refused", "deleted or moved"),
        (None, [BAD], [SAVED], [], False, "refused", "block 3"),
        (None, [BAD], [], [], False, "refused", "none can be used"),
        (GOOD, [], [SAVED], [], False, "resumed", "newest checkpoint"),
        (GOOD, [BAD], [SAVED], [], False, "resumed", "passes its checks"),
        (GOOD, [BAD], [SAVED], [RECORD], True, "fresh", "2 checkpoint(s) are set aside"),
        (None, [], [], [SCHEDULER, RECORD], True, "fresh", "new start is meant"),
    ],
)
def test_the_table(usable, unusable, earlier, expectations, is_fresh, kind, word):
    start = decide_start(usable, unusable, earlier, expectations, is_fresh)
    assert start.kind == kind
    assert word in start.reason


candidates = st.none() | st.just(GOOD)
lists = st.lists(st.just(BAD), max_size=2)
attempts = st.lists(st.sampled_from([NEVER_SAVED, SAVED]), max_size=3)
signs = st.lists(st.sampled_from([SCHEDULER, RECORD]), max_size=2)


@given(candidates, lists, attempts, signs)
def test_never_fresh_where_anything_says_that_it_saved(usable, unusable, earlier, expectations):
    start = decide_start(usable, unusable, earlier, expectations, False)
    saved = usable or unusable or SAVED in earlier or RECORD in expectations
    if saved:
        assert start.kind is not StartKind.FRESH
    assert (start.kind is StartKind.RESUMED) == (usable is not None)
    assert start.reason


def test_something_newer_that_is_missing_is_warned_of():
    start = decide_start(GOOD, [], [], [Expectation("the record", 30)], False)
    assert (start.kind, start.step) == (StartKind.RESUMED, 10)
    assert "step 30 is recorded as saved" in start.warning


def test_something_newer_that_is_explained_is_not_warned_of_twice():
    assert decide_start(GOOD, [BAD], [], [Expectation("the record", 20)], False).warning == ""
