"""Results by path: directories, globs, jobs of ours, and digests of state that outlive its checkpoints."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lastgood.core.errors import DamagedError, NoSuchJobError, UsageError
from lastgood.prove.arrays import Numbers
from lastgood.prove.checkpoint_state import (
    StateDigest,
    as_comparison,
    compare_digests,
    compare_jobs,
    digests_of_job,
    read_state,
)
from lastgood.prove.files import Rule
from lastgood.prove.paths import Expected, compare_expected, compare_paths
from lastgood.store.jobdir import JobDirectory, create_job

SaveStep = Callable[..., Any]


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    """Two equal directories of results."""
    for side in ("left", "right"):
        out = tmp_path / side / "out"
        (out / "deep").mkdir(parents=True)
        np.save(out / "final.npy", np.arange(4.0))
        (out / "deep" / "loss.csv").write_text("step,loss\n1,0.5\n2,0.25\n")
        (out / "events.1735000000.host").write_text("x")
    return tmp_path / "left", tmp_path / "right"


def test_equal_directories_are_identical_over_all_files(sides: tuple[Path, Path]) -> None:
    found = compare_paths(*sides)
    assert (found.kind, found.compared) == ("identical", 4 + 3 + 1)


def test_a_difference_names_the_file(sides: tuple[Path, Path]) -> None:
    (sides[1] / "out/deep/loss.csv").write_text("step,loss\n1,0.5\n2,0.125\n")
    found = compare_paths(*sides)
    assert str(found.first) == "out/deep/loss.csv, row 2, loss: 0.25 against 0.125, absolute 0.125, relative 0.5"


def test_a_file_that_one_run_did_not_write_is_a_difference_unless_ignored(sides: tuple[Path, Path]) -> None:
    (sides[0] / "out/extra.txt").write_text("x")
    found = compare_paths(*sides)
    assert str(found.first) == "out/extra.txt: only in the undisturbed run"
    assert compare_paths(*sides, ignore=("*.txt",)).kind == "identical"
    assert compare_paths(*sides, ignore=("out/extra*",)).kind == "identical"


def test_names_that_differ_in_their_time_alone_belong_together(sides: tuple[Path, Path]) -> None:
    (sides[1] / "out/events.1735000000.host").rename(sides[1] / "out/events.1736111111.host")
    found = compare_paths(*sides)
    assert found.kind == "identical"
    assert "out/events.1735000000.host is compared with out/events.1736111111.host" in found.notes
    (sides[1] / "out/events.1736222222.host").write_text("x")
    assert compare_paths(*sides).kind == "differs", "it is not clear any more which belongs to which"


def test_pipes_and_links_to_directories_above_stop_nothing(sides: tuple[Path, Path]) -> None:
    for side in sides:
        os.mkfifo(side / "out/pipe")
        (side / "out/loop").symlink_to("..")
    assert compare_paths(*sides).kind == "identical"


def test_empty_files_alone_prove_nothing(tmp_path: Path) -> None:
    for side in ("left", "right"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "done").touch()
    found = compare_expected(tmp_path / "left", tmp_path / "right", [Expected("done")])
    assert found.kind == "not comparable"


def test_globs_name_what_either_run_has_written(sides: tuple[Path, Path]) -> None:
    left, right = sides
    assert compare_expected(left, right, [Expected("out/*.npy")]).kind == "identical"
    np.save(right / "out/more.npy", np.arange(3))
    found = compare_expected(left, right, [Expected("out/*.npy")])
    assert str(found.first) == "out/more.npy: only in the other run"
    nothing = compare_expected(left, right, [Expected("out/*.npz"), Expected("out/final.npy")])
    assert nothing.kind == "not comparable"
    assert "out/*.npz was written by neither run" in nothing.notes
    assert compare_expected(left, right, [Expected("out/final.npy", "bytes")]).kind == "identical"


def test_a_path_that_neither_run_wrote_is_a_wrong_call(sides: tuple[Path, Path]) -> None:
    with pytest.raises(UsageError, match="written by neither run"):
        compare_paths(sides[0] / "nothing", sides[1] / "nothing")
    assert compare_paths(sides[0] / "out", sides[1] / "nothing").kind == "differs"
    assert compare_paths(sides[0] / "out", sides[1] / "out/final.npy").kind == "not comparable"


@pytest.fixture
def jobs(tmp_path: Path, save_step: SaveStep) -> tuple[JobDirectory, JobDirectory]:
    made = create_job(tmp_path / "a"), create_job(tmp_path / "b")
    for job in made:
        for step in (10, 20, 30):
            save_step(step, into=job, world_size=2)
    return made


def test_the_state_of_equal_jobs_is_identical(jobs: tuple[JobDirectory, JobDirectory]) -> None:
    found = compare_jobs(jobs[0].path, jobs[1].path)
    # Of each rank 8 numbers and one, and the values.
    assert (found.kind, found.compared) == ("identical", 3 * (2 * 9 + 3 + 1))
    assert compare_paths(jobs[0].path.parent / "a", jobs[0].path.parent / "b").kind == "identical"


def test_state_that_differs_is_named_with_its_step(
    tmp_path: Path, save_step: SaveStep, jobs: tuple[JobDirectory, JobDirectory]
) -> None:
    other = create_job(tmp_path / "other")
    save_step(30, into=other, world_size=2, floats=9)
    found = compare_jobs(jobs[0].path, other.path)
    assert found.first is not None
    assert str(found.first).startswith("step 30, rank-00000.model.w: (8,) against (9,), another shape")


def test_jobs_are_compared_at_the_steps_that_both_have(
    jobs: tuple[JobDirectory, JobDirectory], save_step: SaveStep
) -> None:
    save_step(40, into=jobs[0], world_size=2)
    found = compare_jobs(jobs[0].path, jobs[1].path)
    assert found.kind == "identical"
    assert found.notes == ("state compared at steps 10, 20, 30; the newest checkpoints are of steps 40 and 30",)


def test_jobs_without_a_common_step_cannot_be_compared(
    tmp_path: Path, save_step: SaveStep, jobs: tuple[JobDirectory, JobDirectory]
) -> None:
    other = create_job(tmp_path / "other")
    assert "no committed checkpoint" in compare_jobs(jobs[0].path, other.path).notes[0]
    save_step(35, into=other)
    found = compare_jobs(jobs[0].path, other.path)
    assert (found.kind, found.notes[0]) == (
        "not comparable",
        "no step at which both have a checkpoint: steps 10, 20, 30 against step 35",
    )
    with pytest.raises(NoSuchJobError):
        compare_jobs(tmp_path / "none", other.path)


def test_arrays_of_a_state_are_read_by_name(jobs: tuple[JobDirectory, JobDirectory]) -> None:
    state = read_state(jobs[0])
    model: Any = state["rank-00001.model"]
    assert isinstance(model["w"], Numbers)
    assert model["w"].whole().tolist() == [31.0] * 8
    assert state["optimizer"] == {"lr": 0.1, "betas": (0.9, 0.999)}


def test_digests_tell_at_which_steps_state_was_equal(
    tmp_path: Path, save_step: SaveStep, jobs: tuple[JobDirectory, JobDirectory]
) -> None:
    left = digests_of_job(jobs[0])
    assert str(compare_digests(left, digests_of_job(jobs[1]))) == "state equal at steps 10, 20, 30"
    other = create_job(tmp_path / "other")
    for step, floats in ((10, 8), (20, 9), (40, 8)):
        save_step(step, into=other, world_size=2, floats=floats)
    found = compare_digests(left, digests_of_job(other))
    assert (found.equal_steps, found.first_differing, found.only_left, found.only_right) == ((10,), 20, (30,), (40,))
    assert found.names == ("rank-00000.model.w", "rank-00001.model.w")
    answer = as_comparison(found)
    assert (answer.kind, answer.compared) == ("differs", 2)
    assert as_comparison(compare_digests(left, {})).kind == "not comparable"


def test_digests_outlive_their_checkpoints(jobs: tuple[JobDirectory, JobDirectory]) -> None:
    known = digests_of_job(jobs[0], steps=[10, 30])
    assert list(known) == [10, 30]
    shutil.rmtree(jobs[0].checkpoints / known[10].checkpoint)
    again = digests_of_job(jobs[0], known=known)
    assert list(again) == [10, 20, 30]
    assert again[10] == known[10]


def test_a_damaged_checkpoint_has_no_digest(jobs: tuple[JobDirectory, JobDirectory]) -> None:
    for path in jobs[0].checkpoints.glob("*20-*/rank-*.safetensors"):
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    with pytest.raises(DamagedError):
        digests_of_job(jobs[0])
    found = compare_paths(jobs[0].path, jobs[1].path, Rule())
    assert found.kind == "not comparable"
    assert "do not match their checksum" in found.notes[0]


def digest(step: int, **digests: str) -> StateDigest:
    return StateDigest(step, f"{step}", {name.replace("_", "."): value for name, value in digests.items()})


def test_the_global_random_state_decides_only_where_equal_runs_have_it_equal() -> None:
    left = {10: digest(10, w="1", lastgood_random_global="a"), 20: digest(20, w="2", lastgood_random_global="b")}
    right = {10: digest(10, w="1", lastgood_random_global="a"), 20: digest(20, w="2", lastgood_random_global="c")}
    told = compare_digests(left, right)
    assert (told.equal_steps, told.first_differing, told.random_differs_from) == ((10, 20), None, 20)
    assert "the global random state differs from step 20 on" in str(told)
    decided = compare_digests(left, right, is_random_compared=True)
    assert (decided.equal_steps, decided.first_differing) == ((10,), 20)
    assert decided.names == ("lastgood.random.global",)


def test_random_state_of_any_rank_is_known_as_such() -> None:
    left = {10: StateDigest(10, "a", {"rank-00003.lastgood.random": "1", "randomness": "1"})}
    right = {10: StateDigest(10, "a", {"rank-00003.lastgood.random": "2", "randomness": "2"})}
    assert compare_digests(left, right).names == ("randomness",)
