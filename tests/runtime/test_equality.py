"""A job that was killed comes to the same end as one that was not, bit for bit: state, random state, log."""

import importlib.util
import os
import random
import signal
import time
from pathlib import Path

import pytest

from runtime.compare import assert_same_end
from runtime.conftest import both_ways
from runtime.zygote import Zygote

pytestmark = [pytest.mark.slow, both_ways]
KILLED = -signal.SIGKILL


def die_often(programs: Zygote, program: str, path: Path, deaths: list[int], **settings: object) -> None:
    for step in deaths:
        assert programs.run(program, job=str(path), die_at=step, **settings) == KILLED
    pid = programs.start(program, job=str(path), **settings)
    assert programs.wait(pid) == 0, programs.output(pid)


@pytest.mark.parametrize("seed", range(2))
def test_numpy_killed_at_five_random_moments(programs: Zygote, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    settings = {"total": 400, "every": 100}
    assert programs.run("runtime.training:sum_steps", job=str(tmp_path / "whole"), **settings) == 0
    job = str(tmp_path / "job")
    for turn in range(5):
        # None comes to its end: on a busy machine a kill may come late.
        often = {**settings, "every": 4, "pause_s": 0.008, "stay_at": 75 * (turn + 1)}
        pid = programs.start("runtime.training:sum_steps", job=job, **often)
        time.sleep(chance.uniform(0.0, 0.15))
        os.kill(pid, signal.SIGKILL)
        assert programs.wait(pid) == KILLED, programs.output(pid)
    pid = programs.start("runtime.training:sum_steps", job=job, **settings)
    assert programs.wait(pid) == 0, programs.output(pid)
    assert_same_end(tmp_path / "job", tmp_path / "whole")


LOADERS = ["resumable", "shuffle", "generator", "distributed", "workers", "persistent", "stream"]
STATEFUL = ["stateful", "stateful_workers"]


@pytest.mark.parametrize("loader", LOADERS + STATEFUL)
def test_torch_killed_five_times_with_each_loader(programs: Zygote, tmp_path: Path, loader: str) -> None:
    if loader in STATEFUL and importlib.util.find_spec("torchdata") is None:
        pytest.skip("torchdata is not installed")
    chance = random.Random(loader)
    # Seven batches per epoch: twice within one epoch, at its last batch, at the first of the next.
    deaths = [chance.randint(4, 5), 6, 7, chance.randint(9, 12), 15 + chance.randint(0, 5)]
    assert programs.run("runtime.training:train", job=str(tmp_path / "whole"), loader=loader) == 0
    die_often(programs, "runtime.training:train", tmp_path / "job", deaths, loader=loader)
    assert_same_end(tmp_path / "job", tmp_path / "whole")


@pytest.mark.parametrize("schedule", ["cosine", "lambda", "onecycle", "sequential", "plateau", "swa"])
def test_every_schedule_gives_the_same_learning_rates(programs: Zygote, tmp_path: Path, schedule: str) -> None:
    settings = {"schedule": schedule, "loader": "resumable"}
    assert programs.run("runtime.training:train", job=str(tmp_path / "whole"), **settings) == 0
    die_often(programs, "runtime.training:train", tmp_path / "job", [5, 13], **settings)
    assert_same_end(tmp_path / "job", tmp_path / "whole")


@pytest.mark.parametrize(
    "settings",
    [{"optimizer": "sgd"}, {"optimizer": "lbfgs"}, {"accumulate": 2}, {"where": "after"}],
    ids=lambda s: "-".join(map(str, s.values())),
)
def test_every_kind_of_optimizer_and_step(programs: Zygote, tmp_path: Path, settings: dict[str, object]) -> None:
    settings = {"loader": "resumable", **settings}
    assert programs.run("runtime.training:train", job=str(tmp_path / "whole"), **settings) == 0
    die_often(programs, "runtime.training:train", tmp_path / "job", [4, 8, 11], **settings)
    assert_same_end(tmp_path / "job", tmp_path / "whole")


@pytest.mark.parametrize("loader", ["resumable", "generator", "stateful"])
@pytest.mark.parametrize("every", [1, 7, 100])
def test_what_an_epochs_body_does_after_its_batches_counts_once(
    programs: Zygote, tmp_path: Path, loader: str, every: int
) -> None:
    # The end's state holds the last body's work whether or not the last batch was a step to save at.
    # Nine divides the samples: such a sampler draws once more when it is asked for what it has not.
    settings = {"loader": loader, "is_tail_noisy": True, "batch": 9}
    assert programs.run("runtime.training:train", job=str(tmp_path / "whole"), every=100, **settings) == 0
    # A negative number: after the body of that epoch.
    die_often(programs, "runtime.training:train", tmp_path / "job", [-1, 10, -3], every=every, **settings)
    assert_same_end(tmp_path / "job", tmp_path / "whole")


def test_generators_of_several_loaders_go_on(programs: Zygote, tmp_path: Path) -> None:
    program = "runtime.training:two_loaders"
    assert programs.run(program, job=str(tmp_path / "whole")) == 0
    # In each of the three loaders, at the end of an epoch (step 9), and before the first save.
    die_often(programs, program, tmp_path / "job", [2, 5, 8, 10, 15, 20])
    assert_same_end(tmp_path / "job", tmp_path / "whole")


def run_ranks(programs: Zygote, path: Path, **settings: object) -> list[int]:
    pids = programs.ranks("runtime.training:ddp", job=str(path), **settings)
    codes = [programs.wait(pid) for pid in pids]
    if "die_at" not in settings:
        assert codes == [0, 0], "\n".join(programs.output(pid) for pid in pids)
    return codes


@pytest.mark.parametrize("loader", ["resumable", "distributed"])
def test_two_ranks_of_which_one_is_killed_five_times(programs: Zygote, tmp_path: Path, loader: str) -> None:
    run_ranks(programs, tmp_path / "whole", loader=loader)
    chance = random.Random(loader)
    for turn, step in enumerate([2, 4, 4, 5, chance.randint(6, 8)]):
        dead = turn % 2
        codes = run_ranks(programs, tmp_path / "job", loader=loader, die_at=step, dead_rank=dead)
        assert codes[dead] == KILLED
        assert codes[1 - dead] > 0
    run_ranks(programs, tmp_path / "job", loader=loader)
    assert_same_end(tmp_path / "job", tmp_path / "whole", ranks=2)
