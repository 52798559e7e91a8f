"""Which words are ours and which are another program's."""

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.cli.handing_on import given as words_given
from lastgood.cli.handing_on import take_out


def parser():
    made = argparse.ArgumentParser(allow_abbrev=False)
    made.add_argument("--job")
    made.add_argument("--grace", default="30s")
    made.add_argument("--codes", default="")
    made.add_argument("--fresh", action="store_true")
    made.add_argument("words", nargs=argparse.REMAINDER)
    return made


@pytest.mark.parametrize(
    ("before", "ours", "others"),
    [
        ([], [], []),
        (["--job", "x", "-p", "main"], ["--job", "x"], ["-p", "main"]),
        (["-p", "main", "--job=x", "--nodes=2"], ["--job=x"], ["-p", "main", "--nodes=2"]),
        (["--fresh", "main"], ["--fresh"], ["main"]),
        (["--job-name", "--x"], [], ["--job-name", "--x"]),
        (["--jo", "x"], [], ["--jo", "x"]),
        (["--job"], ["--job"], []),
        (["--job", "-p"], ["--job", "-p"], []),
        (["--help"], ["--help"], []),
    ],
)
def test_words_before_the_command(before, ours, others):
    for after in ([], ["--", "srun", "--job", "-p"]):
        assert take_out(parser(), ["submit", *before, *after]) == (["submit", *ours, *after], others)


def test_what_is_given_is_said_again():
    parsed = parser().parse_args(["--job", "a b", "--codes=-1", "--fresh"])
    words = words_given(parser(), parsed)
    assert words == ["--job", "a b", "--codes=-1", "--fresh"]
    assert words_given(parser(), parser().parse_args([])) == []


@given(st.text(min_size=1), st.text(), st.booleans())
def test_words_said_again_mean_the_same(job, grace, fresh):
    parsed = argparse.Namespace(job=job, grace=grace, codes="", fresh=fresh, words=[])
    assert parser().parse_args(words_given(parser(), parsed)) == parsed
