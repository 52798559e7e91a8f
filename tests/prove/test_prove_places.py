"""Checkpoints name files in the directory of their run, which no two runs share: that is no difference."""

from pathlib import Path

import numpy as np
import pytest
import torch

from lastgood.prove.files import Rule, compare_files


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    return tmp_path / "one", tmp_path / "two"


def rule(places: tuple[Path, Path]) -> Rule:
    return Rule(places=(str(places[0]), str(places[1])))


def test_paths_in_a_checkpoint_are_equal_where_they_are_in_the_run(places: tuple[Path, Path]) -> None:
    for place in places:
        state = {"best": f"{place}/out/last.ckpt", "all": [str(place)], str(place / "k"): 1, "w": torch.ones(3)}
        torch.save(state, place / "last.ckpt")
    files = [place / "last.ckpt" for place in places]
    assert compare_files(*files, rule(places)).kind == "identical"
    assert compare_files(*files).kind == "differs"


def test_numbers_beside_the_paths_still_count(places: tuple[Path, Path]) -> None:
    for number, place in enumerate(places):
        torch.save({"best": f"{place}/last.ckpt", "w": torch.full((3,), float(number))}, place / "last.ckpt")
    found = compare_files(*(place / "last.ckpt" for place in places), rule(places))
    assert (found.kind, found.differing) == ("differs", 3)


def test_paths_outside_the_run_differ(places: tuple[Path, Path]) -> None:
    for number, place in enumerate(places):
        torch.save({"data": f"/data/{number}", "w": np.float64(1).item()}, place / "last.ckpt")
    assert compare_files(*(place / "last.ckpt" for place in places), rule(places)).kind == "differs"
