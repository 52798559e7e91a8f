"""Retention: the last good is never deleted, nor one that is pinned; each verdict has its reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.core.errors import UsageError
from lastgood.core.retention import Keep, Known, judge, newest_first

knowns = st.lists(
    st.builds(
        Known,
        name=st.just(""),
        step=st.integers(0, 50),
        attempt=st.integers(1, 4),
        metrics=st.dictionaries(st.sampled_from(["loss"]), st.floats()),
        is_rejected=st.booleans(),
        is_pinned=st.booleans(),
    ),
    unique_by=lambda c: (c.step, c.attempt),
    max_size=12,
).map(lambda cs: [Known(f"{c.step}-{c.attempt}", c.step, c.attempt, c.metrics, c.is_rejected, c.is_pinned) for c in cs])
keeps = st.builds(
    Keep,
    last=st.none() | st.integers(1, 5),
    every=st.none() | st.integers(1, 10),
) | st.builds(
    Keep, last=st.integers(1, 3), best=st.integers(1, 3), metric=st.just("loss"), mode=st.sampled_from(["max", "min"])
)


@given(knowns, keeps)
def test_whatever_the_settings(checkpoints, keep):
    verdicts = judge(checkpoints, keep)
    assert [v.name for v in verdicts] == [c.name for c in newest_first(checkpoints)]
    kept = {v.name for v in verdicts if v.is_kept}
    good = [c for c in newest_first(checkpoints) if not c.is_rejected]
    assert all(v.reason for v in verdicts)
    assert {c.name for c in checkpoints if c.is_pinned} <= kept
    if good:
        assert good[0].name in kept
        assert [v.reason for v in verdicts].count("last good") == 1
        assert {c.name for c in good[: keep.last]} <= kept
    else:
        assert kept == {c.name for c in checkpoints}


@given(knowns, keeps)
def test_deciding_again_after_deleting_deletes_nothing_more(checkpoints, keep):
    kept = {v.name for v in judge(checkpoints, keep) if v.is_kept}
    again = judge([c for c in checkpoints if c.name in kept], keep)
    assert all(v.is_kept for v in again)


def names(checkpoints, keep):
    return [v.name for v in judge(checkpoints, keep) if v.is_kept]


def test_order_is_by_number_not_by_text():
    checkpoints = [Known(str(s), s, 1) for s in (9, 10, 100, 99)]
    assert names(checkpoints, Keep(last=2)) == ["100", "99"]


def test_a_later_attempt_is_newer_whatever_its_step():
    assert names([Known("old", 900, 1), Known("new", 10, 2)], Keep(last=1)) == ["new"]


@pytest.mark.parametrize(("mode", "best"), [("max", "b"), ("min", "c")])
def test_the_best_by_a_metric(mode, best):
    values = {"a": 0.5, "b": 0.9, "c": 0.1, "d": 0.4}
    checkpoints = [Known(name, step, 1, {"m": value}) for step, (name, value) in enumerate(values.items())]
    assert set(names(checkpoints, Keep(last=1, best=1, metric="m", mode=mode))) == {best, "d"}


def test_a_nan_is_neither_best_nor_in_the_way():
    checkpoints = [Known("a", 1, 1, {"m": float("nan")}), Known("b", 2, 1, {"m": 0.1}), Known("c", 3, 1, {})]
    for mode in ("max", "min"):
        assert names(checkpoints, Keep(last=1, best=1, metric="m", mode=mode)) == ["c", "b"]


def test_of_equal_ones_the_oldest_is_best_because_it_is_nearest_to_where_older_versions_measured():
    checkpoints = [Known(str(s), s, 1, {"m": 1.0}) for s in (1, 2, 3, 4)]
    assert names(checkpoints, Keep(last=1, best=2, metric="m")) == ["4", "2", "1"]


def test_a_rejected_one_goes_only_when_something_newer_is_whole():
    newer = [Known("2", 2, 1, is_rejected=True), Known("1", 1, 1)]
    assert names(newer, Keep(last=1)) == ["2", "1"]
    older = [Known("2", 2, 1), Known("1", 1, 1, is_rejected=True)]
    assert names(older, Keep(last=3)) == ["2"]


def test_a_rejected_one_does_not_use_up_a_place():
    checkpoints = [Known("3", 3, 1, is_rejected=True), Known("2", 2, 1), Known("1", 1, 1)]
    assert names(checkpoints, Keep(last=2)) == ["3", "2", "1"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"last": 0},
        {"last": -1},
        {"best": 1},
        {"metric": "m"},
        {"best": -1, "metric": "m"},
        {"best": 1, "metric": "m", "mode": "best"},
        {"every": 0},
    ],
)
def test_settings_that_make_no_sense_are_refused_at_once(arguments):
    with pytest.raises(UsageError):
        Keep(**arguments)


def test_keeping_all_keeps_also_what_failed_to_restore():
    known = [Known("10", 10, 1, is_rejected=True), Known("20", 20, 1)]
    assert all(verdict.is_kept for verdict in judge(known, Keep(last=None)))
