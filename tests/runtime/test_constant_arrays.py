"""Arrays that do not change: found, written once, looked at before each save, and restored like the others."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lastgood
from lastgood.core import layout
from lastgood.core.errors import UsageError
from lastgood.store.catalogue import list_checkpoints
from lastgood.store.jobdir import open_job
from lastgood.store.reader import open_checkpoint
from runtime.conftest import both_ways, names

BIG = 400_000


def state() -> dict[str, Any]:
    return {"base": np.arange(BIG, dtype=np.float32), "adapter": np.zeros(10)}


def live(start: Any, steps: int, arrays: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    arrays = state() if arrays is None else arrays
    run = start(arrays, **{"constant": ["base"], "keep": lastgood.Keep(last=None), **settings})
    for step in run.steps(steps):
        arrays["adapter"] += step
    run.close()
    return arrays


def sizes(path: Path) -> list[int]:
    """Of the checkpoints, oldest first, without constants."""
    return [open_checkpoint(open_job(path), name).manifest.bytes for name in names(path)][::-1]


def constants(path: Path) -> list[str]:
    directory = path / layout.CONSTANTS_DIR
    return sorted(os.listdir(directory)) if directory.exists() else []


@both_ways
def test_a_checkpoint_costs_what_changed(start: Any, path: Path, way: str) -> None:
    live(start, 3)
    assert len(constants(path)) == 1
    assert len(sizes(path)) == 3 and max(sizes(path)) < 50_000
    assert open_checkpoint(open_job(path), names(path)[0]).manifest.constants_bytes > 4 * BIG
    assert all(open_checkpoint(open_job(path), name).verify() == [] for name in names(path))


@both_ways
def test_a_resumed_run_has_them_and_goes_on_with_the_same_file(
    start: Any, path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    live(start, 2)
    arrays = {"base": np.zeros(BIG, dtype=np.float32), "adapter": np.zeros(10)}
    live(start, 4, arrays)
    assert np.array_equal(arrays["base"], state()["base"])
    assert arrays["adapter"][0] == 10
    first, second = constants(path)
    assert (path / "constants" / first).samefile(path / "constants" / second), "no byte was written again"


def test_what_was_restored_is_not_read_again(start: Any, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lastgood.store import constants as module

    live(start, 2)
    monkeypatch.setattr(module, "is_whole", lambda *_: pytest.fail("it was read again"))
    live(start, 3)


def test_what_changes_all_the_same_goes_with_every_checkpoint_and_is_named(
    start: Any, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = state()
    run = start(arrays, constant=["base"], keep=lastgood.Keep(last=None))
    for step in run.steps(4):
        arrays["adapter"] += step
        if step == 3:
            arrays["base"][BIG // 2] += 1
    run.close()
    small, large = sizes(path)[:2], sizes(path)[2:]
    assert max(small) < 50_000 and min(large) > 4 * BIG
    assert "base is declared constant, and has changed until step 3" in capsys.readouterr().err
    for step, name in enumerate(names(path)[::-1], 1):
        base = np.frombuffer(open_checkpoint(open_job(path), name).read(0, ["base"])["base"], dtype=np.float32)
        assert (base[BIG // 2] == BIG // 2 + (step >= 3)) and base[1] == 1


def test_what_has_changed_is_deleted_with_the_last_checkpoint_that_needs_it(start: Any, path: Path) -> None:
    arrays = state()
    run = start(arrays, constant=["base"], keep=lastgood.Keep(last=1))
    for step in run.steps(4):
        arrays["base"][0] += step == 3
    run.close()
    assert constants(path) == []
    assert open_checkpoint(open_job(path), names(path)[0]).verify() == []


def test_little_is_not_worth_a_file(start: Any, path: Path) -> None:
    live(start, 2, {"base": np.zeros(100), "adapter": np.zeros(10)})
    assert constants(path) == []
    assert open_checkpoint(open_job(path), names(path)[0]).manifest.format == 1


def test_one_that_vanished_is_written_again(start: Any, path: Path) -> None:
    arrays = state()
    run = start(arrays, constant=["base"], keep=lastgood.Keep(last=1))
    for step in run.steps(3):
        if step == 2:
            for name in constants(path):
                (path / "constants" / name).unlink()
        arrays["adapter"] += step
    run.close()
    assert open_checkpoint(open_job(path), names(path)[0]).verify() == []


def test_a_pattern_that_matches_nothing_is_mentioned(start: Any, capsys: pytest.CaptureFixture[str]) -> None:
    live(start, 2, constant=["base", "bse.*"])
    err = capsys.readouterr().err
    assert "constant='bse.*' matches no array" in err
    assert err.count("matches no array") == 1


@pytest.mark.parametrize("wrong", ["base", [1], [None]])
def test_what_is_no_list_of_patterns_is_refused(start: Any, wrong: Any) -> None:
    with pytest.raises(UsageError, match="constant="):
        start(state(), constant=wrong)


def test_a_damaged_file_is_damage_of_the_checkpoints_and_said(
    start: Any, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    live(start, 2, keep=lastgood.Keep(last=None))
    file = path / "constants" / constants(path)[0]
    content = bytearray(file.read_bytes())
    content[BIG] ^= 1
    file.write_bytes(content)
    with pytest.raises(lastgood.LastgoodError, match="constants"):
        start(state(), constant=["base"])
    assert all(c.rejected for c in list_checkpoints(open_job(path)))


class TestFrozenParameters:
    """torch: what has requires_grad=False."""

    def model(self) -> Any:
        torch = pytest.importorskip("torch")
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(800, 800), torch.nn.Linear(800, 4))
        model[0].requires_grad_(False)
        return model

    def train(self, start: Any, steps: int, thaw_at: int | None = None) -> Any:
        import torch

        model = self.model()
        optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
        run = start({"model": model, "optimizer": optimizer}, keep=lastgood.Keep(last=None))
        for step in run.steps(steps):
            if step == thaw_at:
                model[0].requires_grad_(True)
                with torch.no_grad():
                    model[0].weight += 1
            optimizer.zero_grad()
            model(torch.ones(2, 800)).sum().backward()
            optimizer.step()
        run.close()
        return model

    @both_ways
    def test_they_are_written_once(self, start: Any, path: Path, way: str) -> None:
        model = self.train(start, 3)
        assert len(constants(path)) == 1
        assert max(sizes(path)) < 200_000
        read = open_checkpoint(open_job(path), names(path)[0]).read(0, ["model.0.weight"])["model.0.weight"]
        assert bytes(read) == model[0].weight.detach().numpy().tobytes()

    def test_a_resumed_run_is_the_same(self, start: Any, path: Path) -> None:
        import torch

        self.train(start, 2)
        again = self.train(start, 4)
        other = self.train(lambda s, **k: lastgood.Run(s, job=path.with_name("other"), every=1, **k), 4)
        for one, two in zip(again.parameters(), other.parameters(), strict=True):
            assert torch.equal(one, two)

    def test_what_is_thawed_goes_with_the_checkpoints(self, start: Any, path: Path) -> None:
        self.train(start, 4, thaw_at=3)
        assert max(sizes(path)[:2]) < 200_000 < 4 * 800 * 800 < min(sizes(path)[2:])
        assert all(open_checkpoint(open_job(path), name).verify() == [] for name in names(path))


def test_the_checksum_of_a_device_sees_every_change() -> None:
    torch = pytest.importorskip("torch")
    from lastgood.frameworks import torch_adapter

    tensor = torch.arange(1003, dtype=torch.float32)
    seen = {torch_adapter.checksum(tensor)}
    for index in (0, 1, 500, 1001, 1002):
        changed = tensor.clone()
        changed[index] += 1
        seen.add(torch_adapter.checksum(changed))
    swapped = tensor.clone()
    swapped[[10, 20]] = swapped[[20, 10]]
    seen.add(torch_adapter.checksum(swapped))
    assert len(seen) == 7
    assert torch_adapter.checksum(tensor.clone()) in seen and torch_adapter.checksum(torch.empty(0)) == (0, 0)
