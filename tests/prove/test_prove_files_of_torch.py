"""Files that torch wrote, and the state in checkpoints of ours: compared by what is in them."""

import argparse
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lastgood.core.errors import DamagedError
from lastgood.prove.difference import Tolerance
from lastgood.prove.files import Rule, compare_files, kind_of, read_results

torch = pytest.importorskip("torch")


def state(seed: int = 0, nudge: float = 0.0) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    weight[2, 3] = float(np.nextafter(float(weight[2, 3]), 9)) if nudge else weight[2, 3]
    return {
        "model": {"w": weight, "half": weight.to(torch.bfloat16), "eight": weight.to(torch.float8_e4m3fn)},
        "optimizer": {"state": {0: {"exp_avg": torch.zeros(3), "step": torch.tensor(7.0)}}, "betas": (0.9, 0.999)},
        "epoch": 3,
        "shape": torch.Size([5, 4]),
        "python": random.Random(seed).getstate(),
        "numpy": np.random.RandomState(seed).get_state(),
        "sparse": torch.eye(2).to_sparse(),
        "nothing": None,
    }


def saved(path: Path, value: Any, **how: Any) -> Path:
    if how:
        # In the old format torch itself cannot load 8-bit floats.
        value["model"].pop("eight")
    torch.save(value, path, **how)
    return path


@pytest.mark.parametrize("how", [{}, {"_use_new_zipfile_serialization": False}], ids=["new", "old"])
def test_what_was_saved_twice_is_identical_and_a_changed_weight_is_named(tmp_path: Path, how: dict[str, Any]) -> None:
    left, same = (saved(tmp_path / f"{name}.pt", state(), **how) for name in ("left", "same"))
    assert kind_of(left) == "torch"
    found = compare_files(left, same)
    assert found.kind == "identical"
    assert found.compared > 600
    other = saved(tmp_path / "other.pt", state(nudge=1), **how)
    found = compare_files(left, other)
    assert found.first is not None
    assert (found.differing, found.first.what, found.first.ulp) == (1, "model.w[2, 3]", 1)
    assert compare_files(left, other, Rule(Tolerance(relative=1e-12))).kind == "within"


def test_another_random_state_is_found_in_numpys_and_pythons(tmp_path: Path) -> None:
    left = saved(tmp_path / "left.pt", {**state(), "model": 0})
    right = saved(tmp_path / "right.pt", {**state(), "model": 0, "numpy": np.random.RandomState(1).get_state()})
    first = compare_files(left, right).first
    assert first is not None
    assert first.what.startswith("numpy[1][")


def test_a_file_with_objects_is_never_loaded_and_its_tensors_are_compared_by_their_bytes(tmp_path: Path) -> None:
    for name, lr, weight in (("left", 1, 1.0), ("same", 1, 1.0), ("args", 2, 1.0), ("heavy", 1, 2.0)):
        saved(tmp_path / f"{name}.bin", {"args": argparse.Namespace(lr=lr), "w": torch.full((100,), weight)})
    left = tmp_path / "left.bin"
    with pytest.raises(DamagedError, match=r"argparse\.Namespace"):
        read_results(left)
    same, args, heavy = (compare_files(left, tmp_path / f"{name}.bin") for name in ("same", "args", "heavy"))
    assert (same.kind, args.kind, heavy.kind) == ("identical", "differs", "differs")
    assert args.first is not None and heavy.first is not None
    assert args.first.what.startswith("data.pkl[")
    assert heavy.first.what.startswith("data/0[")
    assert "would run code" in " ".join(same.notes)


def quantized(scales: list[float], zero_points: list[int]) -> Any:
    whole = torch.tensor([[1, 2], [3, 4]], dtype=torch.int8)
    if len(scales) == 1:
        return torch._make_per_tensor_quantized_tensor(whole, scales[0], zero_points[0])
    means = torch.tensor(scales, dtype=torch.float64), torch.tensor(zero_points)
    return torch._make_per_channel_quantized_tensor(whole, *means, 0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("left", "right", "what"),
    [
        (([0.5], [3]), ([0.25], [3]), "w.scale"),
        (([0.5], [3]), ([0.5], [4]), "w.zero point"),
        (([0.5, 0.5], [3, 3]), ([0.5, 0.25], [3, 3]), "w.scales[1]"),
        (([0.5, 0.5], [3, 3]), ([0.5, 0.5], [3, 4]), "w.zero points[1]"),
    ],
)
def test_quantized_tensors_of_equal_codes_differ_in_what_these_mean(
    tmp_path: Path, left: Any, right: Any, what: str
) -> None:
    one, same, other = (
        saved(tmp_path / f"{name}.pt", {"w": quantized(*of)})
        for name, of in zip("abc", (left, left, right), strict=True)
    )
    assert compare_files(one, same).kind == "identical"
    found = compare_files(one, other)
    assert found.first is not None
    assert (found.differing, found.first.what) == (1, what)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_tensors_that_store_the_same_differ_in_their_shape(tmp_path: Path, layout: Any) -> None:
    tensors = [torch.zeros(2, columns) for columns in (3, 4)]
    for tensor in tensors:
        tensor[1, 2] = 5.0
    left, right = (
        saved(tmp_path / f"{tensor.shape[1]}.pt", {"w": tensor.to_sparse(layout=layout)}) for tensor in tensors
    )
    found = compare_files(left, right)
    assert found.first is not None
    assert (found.first.what, found.differing) == ("w.shape[1]", 1)


def test_a_tolerance_does_not_take_a_code_of_nan_for_a_near_number(tmp_path: Path) -> None:
    left, right = (
        saved(tmp_path / f"{code}.pt", {"w": torch.tensor([code], dtype=torch.uint8).view(torch.float8_e4m3fnuz)})
        for code in (0x7F, 0x80)
    )
    found = compare_files(left, right, Rule(Tolerance(relative=0.01)))
    assert found.first is not None
    assert (found.kind, found.first.left, found.first.reason) == ("differs", "240.0", "NaN against a number")


def test_a_cut_off_file_is_damage(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.pt", state())
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DamagedError):
        read_results(path)
