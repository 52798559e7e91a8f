"""Which checkpoint of a foreign program is the newest."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.core.numbering import (
    Contents,
    Named,
    is_temporary,
    kind_of,
    missing_files,
    newest_first,
    numbers_in,
    step_in,
)


def order(*names: str) -> list[str]:
    return [c.name for c in newest_first([Named(name) for name in names])]


@pytest.mark.parametrize(
    "newest_to_oldest",
    [
        ["step_10.pt", "step_9.pt", "step_1.pt"],
        ["ckpt-0010000.pt", "ckpt-009999.pt"],
        ["epoch=10-step=5.ckpt", "epoch=9-step=900.ckpt"],
        ["epoch=2-step=300-loss=0.10.ckpt", "epoch=2-step=200-loss=0.90.ckpt"],
        ["loss=0.10-epoch=3.ckpt", "loss=0.90-epoch=2.ckpt"],
        ["checkpoint-500/model.pt", "checkpoint-400/model.pt"],
        ["step_10.pt", "last.pt"],
    ],
)
def test_numbers_decide_rather_than_text(newest_to_oldest: list[str]) -> None:
    shuffled = list(newest_to_oldest)
    for seed in range(5):
        random.Random(seed).shuffle(shuffled)
        assert order(*shuffled) == newest_to_oldest


def test_names_without_numbers_go_by_time() -> None:
    found = newest_first([Named("a.pt", 3.0), Named("b.pt", 5.0), Named("c.pt", 4.0)])
    assert [c.name for c in found] == ["b.pt", "c.pt", "a.pt"]


def test_between_kinds_of_names_the_one_that_was_written_last_comes_first() -> None:
    found = newest_first([Named("best_900.pt", 1.0), Named("step_10.pt", 2.0), Named("step_11.pt", 3.0)])
    assert [c.name for c in found] == ["step_11.pt", "step_10.pt", "best_900.pt"]


@pytest.mark.parametrize(
    "name", [".hidden.pt", "step_3.pt.tmp", "step_3.pt.part", "tmp_step_3.pt", "step_3.pt~", "step_3.PARTIAL"]
)
def test_temporary_and_hidden_names_never_count(name: str) -> None:
    assert is_temporary(name)


@pytest.mark.parametrize("name", ["step_3.pt", "attempt.pt", "tmpfs.pt", "part_3.pt"])
def test_ordinary_names_count(name: str) -> None:
    assert not is_temporary(name)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("out/s_1.h5", 1),
        ("s_120.HDF5", 120),
        ("dump.300.bz2", 300),
        ("prod_3.rst7", 3),
        ("ckpt_3.7z", 3),
        ("s_1.h5.bz2", 1),
        ("run.h5/step_9", 9),
        ("state.h5", 0),
        ("model_100.fp16.safetensors", 100),
        ("run.it012", 12),
        ("ckpt.e5", 5),
        ("model.step100", 100),
        ("h5_7", 7),
        ("x.h50", 50),
        ("pot.v3.2", 0),
        # Followed by a number it is not cut out: what stands on both sides would become one number.
        ("step_100.h5.3", 100),
        ("model-100.fp16.2.bin", 100),
        ("dump.100.lz4.1", 100),
    ],
)
def test_the_digit_of_a_format_is_no_step(name: str, step: int) -> None:
    assert step_in(name) == step


def test_a_name_whose_only_digit_is_that_of_its_format_counts_as_one_without_a_number() -> None:
    found = newest_first([Named("best.h5", 2.0), Named("step_10.h5", 1.0), Named("step_9.h5", 1.0)])
    assert [c.name for c in found] == ["step_10.h5", "step_9.h5", "best.h5"]


@given(st.lists(st.integers(0, 10**15), min_size=1, unique=True), st.integers(1, 16))
def test_padding_changes_nothing(steps: list[int], width: int) -> None:
    names = [f"step_{step:0{width}d}.pt" for step in steps]
    assert [numbers_in(name)[0] for name in order(*names)] == sorted(steps, reverse=True)


@given(st.text(max_size=40))
def test_any_name_has_a_kind_and_numbers(name: str) -> None:
    assert kind_of(kind_of(name)) == kind_of(name)
    numbers_in(name)


def contents(*files: str, step: int = 1) -> Contents:
    return Contents(step, frozenset(files))


def test_a_file_counts_as_missing_if_more_than_half_of_the_others_have_it() -> None:
    full, bare = contents("model.pt", "optimizer.pt"), contents("model.pt")
    assert missing_files(bare, [full]) == ["optimizer.pt"]
    assert missing_files(bare, [full, bare, full]) == ["optimizer.pt"]
    assert missing_files(bare, [full, bare]) == []
    assert missing_files(full, [bare]) == []
    assert missing_files(bare, []) == []


def test_a_missing_shard_is_missing_whatever_the_steps_are_called() -> None:
    both = contents("m-1-of-2", "m-2-of-2", step=1)
    assert missing_files(contents("m-1-of-2", step=2), [both]) == ["m-2-of-2"]
    assert missing_files(contents("m-2-of-2", step=3), [both]) == ["m-3-of-2"]


def test_names_that_tell_their_step_have_counterparts() -> None:
    old = contents("global_step0400/a", "latest", step=400)
    assert missing_files(contents("global_step0500/a", "latest", step=500), [old]) == []
    assert missing_files(contents("latest", step=500), [old]) == ["global_step0500/a"]
