"""What all ranks have in common is read by each, or once and passed on: the result is the same, and so is a failure."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from runtime.conftest import names
from runtime.restoring_ranks import LENGTH, damage
from runtime.zygote import Zygote

pytestmark = pytest.mark.slow
HERE = "runtime.restoring_ranks:"
ARRAY_BYTES = 4 * LENGTH


class Restored(NamedTuple):
    step: int
    read_bytes: int
    cached_bytes: int
    """Those of them that were read into the page cache."""


def run(programs: Zygote, program: str, ranks: int, **settings: Any) -> tuple[list[int], list[str]]:
    if ranks == 1:
        pids = [programs.start(HERE + program, **settings)]
    else:
        pids = programs.ranks(HERE + program, world_size=ranks, **settings)
    codes = [programs.wait(pid) for pid in pids]
    return codes, [programs.output(pid) for pid in pids]


def save(programs: Zygote, path: Path, ranks: int = 2, steps: int = 1) -> None:
    codes, outputs = run(programs, "save", ranks, job=str(path), steps=steps)
    assert set(codes) == {0}, outputs


def restore(programs: Zygote, path: Path, ranks: int = 2, **settings: Any) -> list[Restored]:
    """What each rank has restored."""
    codes, outputs = run(programs, "restore", ranks, job=str(path), **settings)
    assert set(codes) == {0}, outputs
    lines = [line.split() for output in outputs for line in output.splitlines() if line.startswith("step ")]
    assert [line[-1] for line in lines] == ["right"] * ranks, outputs
    return [Restored(int(line[1]), int(line[3]), int(line[5])) for line in lines]


def steps(found: list[Restored]) -> list[int]:
    return [rank.step for rank in found]


def test_with_broadcast_no_byte_is_read_twice(programs: Zygote, path: Path) -> None:
    save(programs, path)
    each = restore(programs, path, read="each")
    assert all(rank.read_bytes > 3 * ARRAY_BYTES for rank in each), "each reads all that it needs"
    once = restore(programs, path, read="broadcast")
    assert steps(once) == [1, 1]
    assert sum(rank.read_bytes for rank in once) < 4.5 * ARRAY_BYTES, "two arrays in common, and one of each rank"
    assert all(rank.read_bytes < 2.5 * ARRAY_BYTES for rank in once), "the work is shared"


def test_many_ranks_of_one_machine_read_what_they_have_in_common_through_its_page_cache(
    programs: Zygote, path: Path
) -> None:
    save(programs, path)
    few = restore(programs, path, read="each", environment={"LOCAL_WORLD_SIZE": "2"})
    assert [rank.cached_bytes for rank in few] == [0, 0]
    for rank in restore(programs, path, read="each", environment={"LOCAL_WORLD_SIZE": "4"}):
        assert 2 * ARRAY_BYTES <= rank.cached_bytes < 2.5 * ARRAY_BYTES
        assert rank.read_bytes - rank.cached_bytes >= ARRAY_BYTES


@pytest.mark.parametrize("ranks", [(3, 2), (2, 3), (1, 2), (2, 1)])
@pytest.mark.parametrize("read", ["each", "broadcast"])
def test_another_number_of_ranks_restores_what_all_have_in_common(
    programs: Zygote, path: Path, ranks: tuple[int, int], read: str
) -> None:
    before, now = ranks
    save(programs, path, before)
    found = restore(programs, path, now, read=read, allow=True)
    assert steps(found) == [1] * now


@pytest.mark.parametrize("ranks", [(3, 2), (2, 3)])
@pytest.mark.parametrize("read", ["each", "broadcast"])
def test_another_number_of_ranks_restores_what_differs_between_ranks_as_rank_0_had_it(
    programs: Zygote, path: Path, ranks: tuple[int, int], read: str
) -> None:
    before, now = ranks
    save(programs, path, before)
    found = restore(programs, path, now, read=read, allow=True, how="own of rank 0")
    assert steps(found) == [1] * now


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("read", ["each", "broadcast"])
def test_damage_that_one_rank_sees_sends_all_to_the_older_checkpoint(
    programs: Zygote, path: Path, rank: int, read: str
) -> None:
    save(programs, path, steps=2)
    newest = names(path)[0]
    damage(path, newest, rank)
    assert steps(restore(programs, path, read=read)) == [1, 1]
    assert (path / "checkpoints" / newest / "rejected.json").exists()
    assert steps(restore(programs, path, read=read)) == [1, 1]


@pytest.mark.parametrize("how", ["storage fails", "altered on the way"])
def test_what_is_no_damage_sends_all_to_the_older_checkpoint_and_leaves_no_mark(
    programs: Zygote, path: Path, how: str
) -> None:
    save(programs, path, steps=2)
    newest = names(path)[0]
    assert steps(restore(programs, path, read="broadcast", how=how)) == [1, 1]
    assert not (path / "checkpoints" / newest / "rejected.json").exists()
    assert steps(restore(programs, path, read="broadcast")) == [2, 2]


def test_a_rank_that_dies_while_others_wait_for_it_is_named(programs: Zygote, path: Path) -> None:
    save(programs, path)
    codes, outputs = run(programs, "restore", 2, job=str(path), read="broadcast", how="killed")
    assert codes[0] == 87, outputs
    assert "waited for ranks 1 in vain" in outputs[0] or "waited for other ranks in vain" in outputs[0]


def test_only_the_two_ways_of_reading_are_taken(programs: Zygote, path: Path) -> None:
    codes, outputs = run(programs, "restore", 1, job=str(path), read="twice")
    assert codes == [2]
    assert "read='twice': 'each' or 'broadcast'" in outputs[0]
