"""Names on disk: what is ours is recognised exactly, and nothing else is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.core import layout

steps = st.integers(0, layout.MAX_STEP)
attempts = st.integers(1, 999_999_999)


@given(steps, attempts)
def test_checkpoint_names_round_trip(step, attempt):
    assert layout.parse_checkpoint_name(layout.checkpoint_name(step, attempt)) == (step, attempt)


@given(attempts)
def test_attempt_files_round_trip(attempt):
    assert layout.parse_attempt_file(layout.attempt_file(attempt)) == attempt


@given(steps, steps)
def test_names_of_one_attempt_sort_as_their_steps(a, b):
    assert (layout.checkpoint_name(a, 1) < layout.checkpoint_name(b, 1)) == (a < b)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "1200-0003",
        "000000001200",
        "000000001200-3",
        "000000001200-00003",
        "0000000001200-0003",
        "000000001200-0003.part",
        "000000001200-0003\n",
        " 000000001200-0003",
        "00000000120٣-0003",
        "step_1200",
        "../000000001200-0003",
        "000000001200-1234567890",
    ],
)
def test_other_names_are_not_checkpoints(name):
    assert layout.parse_checkpoint_name(name) is None


@given(st.text())
def test_any_text_is_parsed_or_refused_and_never_misread(name):
    parsed = layout.parse_checkpoint_name(name)
    assert parsed is None or layout.checkpoint_name(*parsed) == name


@pytest.mark.parametrize(
    "name", ["0000.json", "1.json", "0001.json.part", "0001.events.jsonl", "00001.json", "0001.json\n", "٠٠٠١.json"]
)
def test_other_names_are_not_attempts(name):
    assert layout.parse_attempt_file(name) is None


def test_what_we_write_into_a_checkpoint_is_ours_also_while_it_is_written():
    ours = [layout.part_file(3), layout.data_file(3), layout.MANIFEST_FILE, layout.REJECTED_FILE, layout.PINNED_FILE]
    for name in ours:
        assert layout.is_part_of_checkpoint(name)
        assert layout.is_part_of_checkpoint(name + layout.TEMPORARY_SUFFIX)
        assert layout.is_part_of_checkpoint(f"{name}.0123456789abcdef{layout.TEMPORARY_SUFFIX}")


@pytest.mark.parametrize(
    "name",
    [
        "notes.txt",
        "rank-0.json",
        "rank-00000.txt",
        "manifest.json.bak",
        "x.part",
        "MANIFEST.JSON",
        "manifest.json.0123.part",
    ],
)
def test_what_others_put_there_is_not(name):
    assert not layout.is_part_of_checkpoint(name)


def test_names_of_constants_are_read_back():
    digest = "0123456789abcdef" * 2
    assert layout.parse_constants_file(layout.constants_file(digest, 12345)) == (digest, 12345)


@pytest.mark.parametrize(
    "name",
    ["0" * 32 + ".safetensors", "0" * 31 + "-0001.safetensors", "0" * 32 + "-00001.safetensors", "x-0001.safetensors"],
)
def test_other_names_are_no_constants(name):
    assert layout.parse_constants_file(name) is None


def test_every_variable_is_described():
    named = {value for key, value in vars(layout.Env).items() if key.isupper()}
    assert named == set(layout.ENVIRONMENT)
    assert all(name.startswith("LASTGOOD_") for name in named)
