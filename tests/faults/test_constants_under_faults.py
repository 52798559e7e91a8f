"""Arrays that are written once, while attempts are killed, frozen and cut off from power at every point.

However it goes, every committed checkpoint has all that it refers to, and the next attempt works and leaves
nothing behind.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from faults import constant_states, lossyfs
from faults.disk import Disk, Note, Operation, after_power_cut, policies, put_on_disk
from faults.lossyfs import LossyFS
from faults.nursery import Nursery
from faults.scale import MANY, evenly
from faults.stepping import Call, Frozen, assert_few, kill_at, trace
from lastgood.core.errors import FencedError
from lastgood.core.retention import Keep
from lastgood.store import attempts, catalogue, jobdir, sweep
from lastgood.store.jobdir import JobDirectory

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unflushed")]

Count = Callable[[int, str], None]


@pytest.fixture
def job(tmp_path: Path) -> JobDirectory:
    """One attempt, which has committed step 10 with the constants 1."""
    job = jobdir.create_job(tmp_path / "origin")
    attempts.claim_attempt(job, "")
    constant_states.write(job, 10, 1, base=1)
    return job


def copies(job: JobDirectory, log: Path) -> Callable[[], Path]:
    work = log.parent / "work"

    def prepare() -> Path:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(job.path, work)
        return work

    return prepare


CHANGING = {"write", "pwrite64", "ftruncate", "fsync", "rename", "link", "linkat", "unlink", "mkdir", "rmdir"}


def changing(calls: list[Call]) -> list[Call]:
    """Those that change what is on disk: between two of them, it does not matter where a process dies."""
    return [c for c in calls if c.name in CHANGING or "O_CREAT" in c.text]


def telling(calls: list[Call]) -> list[Call]:
    """Those, and the ones by which a process learns what is on disk."""
    return [c for c in calls if c in changing([c]) or c.name == "getdents64"]


SCENARIOS = {
    "the same constants": ("live_with_constants", {"step": 20, "base": 1}),
    "other constants": ("live_with_constants", {"step": 20, "base": 2}),
    "constants that change": ("unfreeze", {"attempt": 1}),
}


@pytest.mark.usefixtures("strace")
@pytest.mark.parametrize("which", SCENARIOS)
def test_an_attempt_killed_anywhere_leaves_every_checkpoint_with_its_constants(
    job: JobDirectory, nursery: Nursery, log: Path, count_points: Count, which: str
) -> None:
    scenario, arguments = SCENARIOS[which]
    prepare = copies(job, log)
    calls = changing(trace(nursery, log, scenario, job=str(prepare()), **arguments))
    found, missed = set(), []
    for at, call in enumerate(calls):
        work = jobdir.open_job(prepare())
        if not kill_at(nursery, log, call, scenario, job=str(work.path), **arguments):
            missed.append(call)
            continue
        try:
            found.add(constant_states.newest_whole(work))
            constant_states.next_attempt_works(work)
        except Exception as error:
            error.add_note(f"after a kill at call {at + 1} of {len(calls)}, {call}")
            raise
    assert found == {10, 20, *([30] if scenario == "unfreeze" else [])}
    assert_few(missed, calls)
    count_points(len(calls) - len(missed), "kills")


@pytest.mark.usefixtures("strace")
def test_an_attempt_frozen_anywhere_takes_nothing_that_the_next_one_relies_on(
    job: JobDirectory, nursery: Nursery, log: Path, count_points: Count
) -> None:
    prepare = copies(job, log)
    calls = evenly(telling(trace(nursery, log, "unfreeze", job=str(prepare()), attempt=1)), MANY // 2)
    codes, missed = set(), []
    for at, call in enumerate(calls):
        work = jobdir.open_job(prepare())
        frozen = Frozen(nursery, log, call, "unfreeze", job=str(work.path), attempt=1)
        if not frozen.is_stopped:
            missed.append(call)
            continue
        try:
            number = attempts.claim_attempt(work, "").attempt
            sweep.sweep_incomplete(work, number)
            constant_states.write(work, 80, number, base=1)
            sweep.Retention(work, Keep(last=2), number).apply()
        finally:
            code = frozen.wake()
        try:
            codes.add(code)
            assert code in (0, FencedError.exit_code)
            assert constant_states.newest_whole(work) == 80
            constant_states.next_attempt_works(work)
        except Exception as error:
            error.add_note(f"frozen at call {at + 1} of {len(calls)}, {call}; its exit code was {code}")
            raise
    assert codes == {0, FencedError.exit_code}
    assert_few(missed, calls)
    count_points(len(calls) - len(missed), "frozen attempts")


@pytest.fixture(scope="module")
def fs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LossyFS]:
    if not lossyfs.is_available():
        pytest.skip("needs /dev/fuse and mfusepy")
    with lossyfs.mounted(tmp_path_factory.mktemp("lossy") / "mnt") as fs:
        yield fs


@pytest.mark.parametrize("base", [1, 3], ids=["going on with the constants of before", "with other constants"])
def test_constants_survive_every_power_cut(
    fs: LossyFS, nursery: Nursery, tmp_path: Path, count_points: Count, base: int
) -> None:
    job = str(fs.path / "job")
    fs.reset()
    assert nursery.run("live_with_constants", job=job, step=10, base=1) == 0
    before = fs.disk()
    fs.reset(before)
    assert nursery.run("noted_life_with_constants", job=job, step=20, base=base) == 0
    log = fs.log()
    seen: dict[object, str] = {}
    losses = []
    cuts = 0
    for at in range(len(log) + 1):
        for name, choose in policies(4).items():
            cuts += 1
            disk = after_power_cut(before, log[:at], choose)
            committed = _committed(log[:at])
            key = (tuple(disk.tree().items()), committed)
            if key not in seen:
                seen[key] = _problem(disk, committed, tmp_path / "cut")
            if seen[key]:
                losses.append(f"cut before operation {at} ({log[at : at + 1]!r:.80}), {name}: {seen[key]}")
    assert losses == []
    count_points(cuts, "power cuts")
    count_points(len(seen), "different disks after them")


def _committed(log: list[Operation]) -> int:
    return max([int(o.text.removeprefix("committed ")) for o in log if isinstance(o, Note)], default=10)


def _problem(disk: Disk, committed: int, directory: Path) -> str:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    put_on_disk(disk.tree(), directory)
    try:
        job = jobdir.create_job(directory / "job")
        newest = constant_states.newest_whole(job)
        assert newest is not None and newest >= committed, f"step {committed} was committed, {newest} is found"
        assert all(c.is_committed or c.step > committed or c.step == 10 for c in catalogue.list_checkpoints(job))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a loss
        return f"{type(error).__name__}: {error}"
    return ""
