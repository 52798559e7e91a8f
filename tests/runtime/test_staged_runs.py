"""A run that stages its checkpoints: saved there first, promoted, found again on both sides, and what is left is named."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lastgood
from keeper.leftovers import end_keepers
from lastgood.core import layout
from lastgood.core.errors import StorageError, UsageError
from lastgood.keeper.client import Keeper
from lastgood.launch.keeping import KeeperHold
from lastgood.runtime.ports import OneRank
from lastgood.runtime.staging import open_staging
from lastgood.store.attempts import read_events
from lastgood.store.catalogue import list_checkpoints
from lastgood.store.jobdir import create_job, open_job
from lastgood.store.reader import open_checkpoint
from lastgood.store.staging import Stage, find_stages
from runtime.conftest import in_background, names

pytestmark = [pytest.mark.slow, in_background]

LIMIT_S = 180.0


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    return tmp_path / "scratch"


def run_to(start: Any, scratch: Path, steps: int, stop_after: int | None = None, **settings: Any) -> np.ndarray:
    """Do steps, all of them, or leave after one as a program does that raises."""
    weights = np.zeros(50_000)
    run = start({"weights": weights}, **{"stage": scratch, "keep": lastgood.Keep(last=None), **settings})
    for step in run.steps(steps):
        weights += step
        if step == stop_after:
            break
    run.close()
    return weights


def drained(path: Path) -> None:
    """The keeper has promoted what it could."""
    keeper = Keeper(open_job(path))
    keeper.drain(LIMIT_S, is_last=True)
    keeper.close()


def stage_of(path: Path, scratch: Path) -> Stage:
    return Stage(open_job(path), scratch)


def staged(path: Path, scratch: Path) -> list[int]:
    return sorted(c.step for c in list_checkpoints(stage_of(path, scratch).staged) if c.is_committed)


def test_checkpoints_are_staged_and_promoted_and_at_the_end_nothing_is_left_on_the_node(
    start: Any, path: Path, scratch: Path, way: str
) -> None:
    weights = run_to(start, scratch, 6)
    assert list(scratch.iterdir()) == []
    job = open_job(path)
    assert job.finished() is not None
    assert names(path)[0] == layout.checkpoint_name(6, 1)
    kept = open_checkpoint(job, names(path)[0])
    assert kept.verify() == [] and bytes(kept.read(0, ["weights"])["weights"]) == weights.tobytes()
    events = read_events(job, 1)
    assert any(e.kind == "committed" and e.data.get("stage") == str(scratch) for e in events)
    assert any(e.kind == "promoted" for e in events)


def test_a_start_resumes_from_the_stage_and_promotes_what_is_there(
    start: Any, path: Path, scratch: Path, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run_to(start, scratch, 9, stop_after=4)
    drained(path)
    newest = names(path)[0]
    shutil.rmtree(path / "checkpoints" / newest)
    step = int(newest.split("-")[0])
    assert staged(path, scratch)[-1] == step
    weights = np.zeros(50_000)
    run = start({"weights": weights}, stage=scratch)
    assert run.step == step and weights[0] == sum(range(1, step + 1))
    err = capsys.readouterr().err
    assert f"step {step} of attempt 1 is on this node only, in {scratch}" in err
    drained(path)
    assert newest in names(path)
    run.close()


def test_the_stage_is_found_without_being_named_again(start: Any, path: Path, scratch: Path, way: str) -> None:
    run_to(start, scratch, 9, stop_after=4)
    drained(path)
    step = staged(path, scratch)[-1]
    shutil.rmtree(path / "checkpoints")
    (path / "checkpoints").mkdir()
    run = start({"weights": np.zeros(50_000)})
    assert run.step == step
    drained(path)
    assert names(path) == [layout.checkpoint_name(step, 1)]
    run.close()


@pytest.mark.parametrize("side", ["stage", "durable"])
def test_a_damaged_copy_on_one_side_is_passed_over_for_the_other(
    start: Any,
    path: Path,
    scratch: Path,
    way: str,
    side: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_to(start, scratch, 9, stop_after=4)
    drained(path)
    name = names(path)[0]
    step = int(name.split("-")[0])
    directory = path if side == "durable" else stage_of(path, scratch).staged.path
    data = directory / "checkpoints" / name / layout.data_file(0)
    content = bytearray(data.read_bytes())
    content[-5] ^= 1
    data.write_bytes(content)
    # Only what is stored is looked at, not what the keeper may hold.
    monkeypatch.setenv("LASTGOOD_KEEPER", "off")
    run = start({"weights": np.zeros(50_000)})
    assert run.step == step
    assert (f"rejected {name} on the stage {scratch}" in capsys.readouterr().err) == (side == "stage")
    run.close()


def test_what_is_on_another_node_only_is_named(
    start: Any, path: Path, scratch: Path, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run_to(start, scratch, 9, stop_after=4)
    drained(path)
    newest = names(path)[0]
    shutil.rmtree(path / "checkpoints" / newest)
    scratch.rename(scratch.with_name("of another node"))
    run = start({"weights": np.zeros(50_000)})
    step = int(newest.split("-")[0])
    assert run.step < step
    assert (
        f"step {step} of attempt 1 is on the node {os.uname().nodename} only, in {scratch}" in capsys.readouterr().err
    )
    assert find_stages(open_job(path)) == []
    run.close()


def test_a_stage_that_cannot_be_used_is_said_once_and_costs_no_save(
    start: Any, path: Path, scratch: Path, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    scratch.write_text("a file")
    run_to(start, scratch, 5)
    err = capsys.readouterr().err
    assert err.count("nothing is staged in") == 1
    assert names(path)[0] == layout.checkpoint_name(5, 1)


def test_without_a_keeper_nothing_is_staged_and_that_is_said(
    start: Any, path: Path, scratch: Path, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run_to(start, scratch, 3, background=False)
    assert capsys.readouterr().err.count("nothing is staged in") == 1
    assert not scratch.exists()
    assert names(path)[0] == layout.checkpoint_name(3, 1)


def test_constants_are_staged_and_promoted_like_the_rest(start: Any, path: Path, scratch: Path, way: str) -> None:
    base = np.arange(400_000, dtype=np.float32)
    state = {"base": base, "weights": np.zeros(10)}
    run = start(state, stage=scratch, constant=["base"], keep=lastgood.Keep(last=None))
    for step in run.steps(5):
        state["weights"] += step
    run.close()
    job = open_job(path)
    for name in names(path):
        checkpoint = open_checkpoint(job, name)
        assert checkpoint.verify() == [] and checkpoint.manifest.bytes < 50_000
        assert bytes(checkpoint.read(0, ["base"])["base"]) == base.tobytes()
    assert list(scratch.iterdir()) == []
    again = {"base": np.zeros_like(base), "weights": np.zeros(10)}
    start(again, stage=scratch, constant=["base"]).close()
    assert np.array_equal(again["base"], base)


def test_a_final_state_that_is_on_the_node_only_does_not_finish_the_job(
    start: Any, path: Path, scratch: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lastgood.runtime.staging.Staging.left", lambda self: "step 4 is on this node only")
    with pytest.raises(StorageError, match="on this node only"):
        run_to(start, scratch, 4)
    assert open_job(path).finished() is None


PROGRAM = """
import os, signal, sys
import numpy as np
import lastgood

weights = np.zeros(200_000)
run = lastgood.Run(
    {"weights": weights}, job=sys.argv[1], stage=sys.argv[2], every=1, writing=lastgood.Writing(limit="20MB/s")
)
for step in run.steps(8):
    weights += step
    if step == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
"""


def program(path: Path, scratch: Path, die_at: int = 0) -> int:
    arguments = [sys.executable, "-c", PROGRAM, str(path), str(scratch), str(die_at)]
    return subprocess.run(arguments, check=False, timeout=LIMIT_S).returncode


def test_the_promotion_survives_the_death_of_the_job(path: Path, scratch: Path, way: str) -> None:
    assert program(path, scratch, die_at=6) == -signal.SIGKILL
    drained(path)
    newest = staged(path, scratch)[-1]
    assert newest > 0
    assert names(path)[0] == layout.checkpoint_name(newest, 1), "nobody has started it again"
    assert program(path, scratch) == 0
    # Its keeper deletes older ones until it goes.
    end_keepers(path.parent)
    assert names(path)[0] == layout.checkpoint_name(8, 2)
    assert all(open_checkpoint(open_job(path), name).verify() == [] for name in names(path))
    assert list(scratch.iterdir()) == []


def test_a_launcher_that_gives_up_leaves_nothing_on_the_node_only(path: Path, scratch: Path, way: str) -> None:
    command = [sys.executable, "-c", PROGRAM, str(path), str(scratch), "6"]
    launched = [sys.executable, "-m", "lastgood", "run", "--job", str(path), "--no-restart", "--", *command]
    subprocess.run(launched, check=False, timeout=LIMIT_S)
    assert staged(path, scratch)[-1] == int(names(path)[0].split("-")[0]) > 0


def test_a_launcher_waits_for_promotions_as_long_as_it_may(path: Path, way: str) -> None:
    asked: list[bool] = []

    class Busy:
        def drain(self, limit_s: float, *, is_last: bool = False) -> None:
            asked.append(is_last)
            if len(asked) < 3:
                raise TimeoutError

    said: list[str] = []
    hold = KeeperHold(create_job(path), {}, said.append)
    hold._link = Busy()  # type: ignore[assignment]
    hold.await_promoted(lambda: True)
    assert (asked, said) == ([True, True, True], [])
    hold.await_promoted(lambda: False)
    assert said == ["a checkpoint is still being promoted; going on without it"]


class SeveralNodes:
    """Ranks of which each sees a directory of its own."""

    rank, world_size = 0, 2

    def equal(self, values: list[int]) -> list[bool]:
        return [False for _ in values]

    def maximum(self, values: list[int]) -> list[int]:
        return values

    def tell(self, text: str | None) -> str:
        return text or ""

    def close(self) -> None: ...


def test_ranks_on_several_nodes_are_refused(tmp_path: Path, way: str, scratch: Path) -> None:
    with pytest.raises(UsageError, match="several nodes"):
        open_staging(create_job(tmp_path / "job"), 1, SeveralNodes(), scratch)
    alone = open_staging(create_job(tmp_path / "job"), 1, OneRank(), scratch)
    assert alone.path == str(scratch)
