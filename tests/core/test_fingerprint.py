"""Differences between two environments are listed, one line each."""

from hypothesis import given
from hypothesis import strategies as st

from lastgood.core.fingerprint import differences

environments = st.dictionaries(st.text(max_size=5), st.text(max_size=5))


@given(environments)
def test_nothing_differs_from_itself(environment):
    assert differences(environment, dict(environment)) == []


@given(environments, environments)
def test_one_line_for_each_key_that_differs(old, new):
    expected = {key for key in {*old, *new} if old.get(key) != new.get(key)}
    assert len(differences(old, new)) == len(expected)


def test_what_is_only_on_one_side_says_absent():
    assert differences({"gpu": "A"}, {"cuda": "12"}) == ["cuda: absent -> 12", "gpu: A -> absent"]
