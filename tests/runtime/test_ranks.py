"""Ranks save together, stop together, fail together; and none waits for another without end."""

import os
import signal
from pathlib import Path

import pytest

import lastgood
from lastgood.store.jobdir import open_job
from lastgood.store.reader import open_checkpoint
from runtime.conftest import both_ways, in_background, names
from runtime.zygote import Zygote

pytestmark = pytest.mark.slow
HERE = "runtime.together:"


def steps_saved(path: Path) -> list[int]:
    return sorted(int(name.split("-")[0]) for name in names(path))


def go(programs: Zygote, path: Path, how: str = "", **settings: object) -> tuple[list[int], list[str]]:
    pids = programs.ranks(HERE + "go", job=str(path), how=how, **settings)
    codes = [programs.wait(pid) for pid in pids]
    outputs = [programs.output(pid) for pid in pids]
    assert "terminate called" not in "".join(outputs)
    return codes, outputs


@both_ways
def test_what_is_equal_on_all_ranks_is_written_once_and_the_work_is_shared(programs: Zygote, path: Path) -> None:
    codes, outputs = go(programs, path)
    assert codes == [0, 0], outputs
    assert steps_saved(path) == [3, 6, 9, 10]
    checkpoint = open_checkpoint(open_job(path), names(path)[0])
    assert checkpoint.verify() == []
    shared = [set(checkpoint.part(rank).shared) for rank in (0, 1)]
    assert {len(part & {"common", "more"}) for part in shared} == {1}
    assert all("own" in checkpoint.arrays(rank) and "own" not in checkpoint.part(rank).shared for rank in (0, 1))
    assert lastgood.read_log(path, 0) == lastgood.read_log(path, 1)


def test_a_rank_that_cannot_write_is_known_to_all_and_they_carry_on(programs: Zygote, path: Path) -> None:
    codes, outputs = go(programs, path, "cannot write", total=9, on_save_error="warn")
    # The last save cannot be made up for.
    assert codes == [74, 74], outputs
    assert steps_saved(path) == [3]
    assert "no space for this rank" in outputs[1]
    assert "rank 1 could not write its part" in outputs[0]
    assert "SAVE FAILED at step 6; carrying on" in outputs[0]
    assert not list((path / "checkpoints").glob("000000000006*")), "nothing of the failed save is left"


def test_a_rank_that_cannot_write_stops_all_if_that_is_the_policy(programs: Zygote, path: Path) -> None:
    codes, outputs = go(programs, path, "cannot write", on_save_error="stop")
    assert codes == [74, 74], outputs
    assert "SAVE FAILED" not in outputs[0]
    assert steps_saved(path) == [3]


@in_background
@pytest.mark.parametrize("policy", ["warn", "stop"])
def test_a_part_that_the_keeper_cannot_write_is_known_to_all(programs: Zygote, path: Path, policy: str) -> None:
    codes, outputs = go(programs, path, "finds no room", total=9, on_save_error=policy)
    # The last save cannot be made up for.
    assert codes == [74, 74], outputs
    assert steps_saved(path) == [3]
    assert "Is a directory" in outputs[1]
    if policy == "warn":
        assert "SAVE FAILED at step 6; carrying on" in outputs[0]
    left = {p.name for p in (path / "checkpoints").rglob("*") if p.is_file()}
    assert not {"rank-00000.json", "rank-00001.json"} & left - {p.name for p in path.glob("checkpoints/*3-0001/*")}


@both_ways
@pytest.mark.parametrize("how", ["unstorable from the start", "unstorable later"])
def test_a_state_that_cannot_be_stored_on_one_rank_stops_all(programs: Zygote, path: Path, how: str) -> None:
    codes, outputs = go(programs, path, how)
    assert codes == [68, 68], outputs
    assert "bad: cannot store" in outputs[1]
    assert "rank" in outputs[0].split("lastgood: ")[-1]


@both_ways
@pytest.mark.parametrize("rank", [0, 1])
def test_a_signal_to_one_rank_stops_all_at_the_same_step(programs: Zygote, path: Path, rank: int) -> None:
    pids = programs.ranks(HERE + "go", job=str(path), how="long", total=100000, every=1000000)
    programs.wait_for_output(pids[rank], "ready")
    os.kill(pids[rank], signal.SIGTERM)
    codes = [programs.wait(pid) for pid in pids]
    assert codes == [75, 75], [programs.output(pid) for pid in pids]
    assert len(steps_saved(path)) == 1
    assert open_checkpoint(open_job(path), names(path)[0]).verify() == []


@both_ways
def test_usr2_to_one_rank_saves_on_all(programs: Zygote, path: Path) -> None:
    pids = programs.ranks(HERE + "go", job=str(path), how="asked", total=100, every=1000000)
    # In the middle of its fifth step, where it waits for that.
    programs.wait_for_output(pids[1], "ready")
    os.kill(pids[1], signal.SIGUSR2)
    assert [programs.wait(pid) for pid in pids] == [0, 0]
    assert len(steps_saved(path)) == 2
    assert all(open_checkpoint(open_job(path), name).verify() == [] for name in names(path))


@both_ways
def test_saves_by_time_are_of_the_same_step_on_all_ranks(programs: Zygote, path: Path) -> None:
    codes, outputs = go(programs, path, "long", total=60, every="0.05s")
    assert codes == [0, 0], outputs
    assert len(steps_saved(path)) >= 3


@both_ways
@pytest.mark.parametrize("how", ["killed", "raises"])
def test_when_one_rank_ends_the_others_end_soon_and_name_it(programs: Zygote, path: Path, how: str) -> None:
    # Soon is within the limit of any wait here, which is far less than an hour.
    codes, outputs = go(programs, path, how, rank_limit="1h")
    assert codes[1] == (-signal.SIGKILL if how == "killed" else 1)
    assert codes[0] == 87, outputs[0]
    assert "waited for ranks 1 in vain" in outputs[0] or "waited for other ranks in vain" in outputs[0]
    assert steps_saved(path) == [3]


@both_ways
def test_a_rank_that_raises_does_not_wait_for_one_that_is_busy(programs: Zygote, path: Path) -> None:
    pids = programs.ranks(HERE + "go", job=str(path), how="raises while the other is slow")
    programs.wait_for_output(pids[0], "asleep")
    assert programs.wait(pids[1]) == 1
    # The other would have ended otherwise, when it had slept enough.
    os.kill(pids[0], signal.SIGKILL)
    assert programs.wait(pids[0]) == -signal.SIGKILL


@both_ways
def test_a_rank_that_hangs_is_waited_for_as_long_as_was_said(programs: Zygote, path: Path) -> None:
    # Longer than a rank that is only slow on a busy machine lets the other wait.
    pids = programs.ranks(HERE + "go", job=str(path), how="hangs", rank_limit="15s")
    assert programs.wait(pids[0]) == 87
    assert "waited for ranks 1 in vain" in programs.output(pids[0])
    os.kill(pids[1], signal.SIGKILL)
    programs.wait(pids[1])


@both_ways
@pytest.mark.parametrize("how", ["finish", "another safe point"])
def test_ranks_that_part_ways_are_told(programs: Zygote, path: Path, how: str) -> None:
    codes, outputs = go(programs, path, how)
    assert codes == [2, 2], outputs
    assert "at different" in outputs[0]


@both_ways
def test_a_rank_that_leaves_the_loop_does_not_let_the_others_wait(programs: Zygote, path: Path) -> None:
    codes, outputs = go(programs, path, "break")
    assert codes[1] == 0
    assert codes[0] == 87, outputs


def test_ranks_without_a_group_are_a_clear_error(programs: Zygote, path: Path) -> None:
    pid = programs.start(HERE + "without_group", environment={"WORLD_SIZE": "2"}, job=str(path))
    assert programs.wait(pid) == 2
    assert "call torch.distributed.init_process_group()" in programs.output(pid)


def read(programs: Zygote, path: Path, ranks: int, **settings: object) -> tuple[set[int], dict[int, list[int]], str]:
    """Exit codes, the samples of each epoch over all ranks, and what was said."""
    program = HERE + "read_data"
    if ranks == 1:
        pids = [programs.start(program, job=str(path), **settings)]
    else:
        pids = programs.ranks(program, world_size=ranks, job=str(path), **settings)
    codes = {programs.wait(pid) for pid in pids}
    output = "".join(programs.output(pid) for pid in pids)
    seen: dict[int, list[int]] = {}
    for line in output.splitlines():
        if line.startswith("epoch "):
            epoch, *samples = map(int, line.split()[1:])
            seen.setdefault(epoch, []).extend(samples)
    return codes, seen, output


@both_ways
@pytest.mark.parametrize("ranks", [(2, 1), (1, 2), (2, 4), (4, 2, 1)])
def test_another_number_of_ranks_goes_on_with_the_samples_that_are_left(
    programs: Zygote, path: Path, ranks: tuple[int, ...]
) -> None:
    seen: dict[int, list[int]] = {}
    for turn, number in enumerate(ranks):
        is_last = turn == len(ranks) - 1
        codes, here, output = read(programs, path, number, stop_at=None if is_last else 2 * (turn + 1))
        assert codes == {0}, output
        for epoch, samples in here.items():
            seen.setdefault(epoch, []).extend(samples)
    assert sorted(seen[1]) == list(range(40)), "each sample once, over all attempts"
    assert sorted(seen[2]) == list(range(40))


@both_ways
def test_random_state_of_single_ranks_is_refused_unless_allowed(programs: Zygote, path: Path) -> None:
    assert read(programs, path, 2, stop_at=3, random=True)[0] == {0}
    codes, seen, output = read(programs, path, 1, random=True)
    assert (codes, seen) == ({67}, {})
    assert "saved by 2 ranks, this is a job of 1" in output
    assert "lastgood.random" in output
    codes, seen, output = read(programs, path, 1, random=True, allow=True)
    assert codes == {0}, output
    assert len(seen[1]) == 40 - 3 * 2 * 3


def test_with_another_number_of_ranks_a_model_with_statistics_of_each_rank_is_that_of_rank_0(
    programs: Zygote, path: Path
) -> None:
    pids = programs.ranks(HERE + "train_a_model", job=str(path), steps=3)
    assert [programs.wait(pid) for pid in pids] == [0, 0]
    refused = programs.start(HERE + "train_a_model", job=str(path), steps=4)
    assert programs.wait(refused) == 67
    output = programs.output(refused)
    assert "these entries belong to single ranks: lastgood.random, model, notes" in output
    assert "going on with rank 0's model and without lastgood.random, notes is right" in output
    allowed = programs.start(HERE + "train_a_model", job=str(path), steps=4, allow=True)
    assert programs.wait(allowed) == 0, programs.output(allowed)
    output = programs.output(allowed)
    assert "weight [[3.0, 3.0], [3.0, 3.0]] mean [3.0, 3.0] notes [0]" in output
    assert "model differs between the 2 ranks that saved it: rank 0's is used" in output
    assert "notes belongs to single ranks and is left behind" in output
    assert "lastgood.random belongs to single ranks and is left behind" in output


@both_ways
def test_a_loader_that_cannot_keep_its_place_is_refused_with_another_number_of_ranks(
    programs: Zygote, path: Path
) -> None:
    assert read(programs, path, 2, stop_at=3, loader="plain")[0] == {0}
    codes, seen, output = read(programs, path, 1, loader="plain")
    assert (codes, seen) == ({67}, {})
    assert "use lastgood.ResumableSampler" in output
    assert read(programs, path, 1, loader="plain", allow=True)[0] == {0}


@both_ways
def test_ranks_end_well_every_time(programs: Zygote, tmp_path: Path) -> None:
    for turn in range(8):
        codes, outputs = go(programs, tmp_path / f"job-{turn}", total=4, every=1)
        assert codes == [0, 0], outputs
