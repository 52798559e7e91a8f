"""The power fails after every operation, and of what was not flushed anything may be left.

A program runs once on a file system that records its operations (`lossyfs`). Then, for each operation at
which the power can fail and each way in which unflushed operations can survive, the disk that would be
found is made and looked at.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from faults import lossyfs, states
from faults.disk import Disk, Note, Operation, after_power_cut, policies, put_on_disk
from faults.flaws import FLAWS
from faults.lossyfs import KILL, LossyFS
from faults.nursery import Nursery
from faults.scale import evenly, scaled
from lastgood.store import catalogue, jobdir

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not lossyfs.is_available(), reason="needs /dev/fuse and mfusepy"),
]

Count = Callable[[int, str], None]
SEEDS = 12
KILLS = scaled(1000, 25)
"""Of an attempt, in a campaign over two of them."""
FEW_SEEDS = 2
"""Where each operation is also one at which the program was killed before."""


@pytest.fixture(scope="module")
def fs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LossyFS]:
    with lossyfs.mounted(tmp_path_factory.mktemp("lossy") / "mnt") as fs:
        yield fs


@pytest.fixture
def cut(tmp_path: Path, unflushed: None) -> "Cut":
    return Cut(tmp_path / "cut")


class Cut:
    """Cuts the power everywhere and collects what is wrong afterwards."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen: dict[object, str] = {}
        self.disks = 0
        """Different disks that were looked at."""
        self.cuts = 0

    def losses(
        self, before: Disk, log: list[Operation], first: int = 0, good: int | None = 10, seeds: int = SEEDS
    ) -> Iterator[str]:
        """Cut at each moment from `first` on. `good` is the step that is committed before the log begins."""
        for at in range(first, len(log) + 1):
            for name, choose in policies(seeds).items():
                self.cuts += 1
                problem = self._look_at(after_power_cut(before, log[:at], choose), _committed(log[:at], good), log)
                if problem:
                    yield f"cut before operation {at} ({_describe(log, at)}), {name}: {problem}"

    def _look_at(self, disk: Disk, committed: int | None, log: list[Operation]) -> str:
        tree = disk.tree()
        key = (tuple(tree.items()), committed)
        if key not in self._seen:
            self.disks += 1
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory.mkdir()
            put_on_disk(tree, self._directory)
            self._seen[key] = _problem(self._directory / "job", committed)
        return self._seen[key]


def _committed(log: list[Operation], good: int | None) -> int | None:
    """The step whose commit has returned last."""
    steps = [int(o.text.removeprefix("committed ")) for o in log if isinstance(o, Note)]
    return steps[-1] if steps else good


def _problem(path: Path, committed: int | None) -> str:
    """What is wrong with a job after a power cut; empty if nothing is."""
    try:
        # A start must work: this makes the job again if no file of it was durable.
        job = jobdir.create_job(path)
        newest = states.newest_good(job)
        for listed in catalogue.list_checkpoints(job):
            if listed.is_committed and not states.is_whole(job, listed.name):
                return f"{listed.name} has a manifest and holes"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a loss
        return f"{type(error).__name__}: {error}"
    if committed is None or (newest is not None and newest >= committed):
        return ""
    return f"step {committed} was committed, and {newest} is what is found"


def _describe(log: list[Operation], at: int) -> str:
    return repr(log[at])[:80] if at < len(log) else "the end"


def _with_step_10(fs: LossyFS, nursery: Nursery) -> Disk:
    """A disk with a job that has saved step 10 in its first attempt."""
    fs.reset()
    assert nursery.run("whole_life", job=str(fs.path / "job"), step=10) == 0
    return fs.disk()


def test_a_committed_checkpoint_survives_every_power_cut(
    fs: LossyFS, nursery: Nursery, cut: Cut, count_points: Count
) -> None:
    before = _with_step_10(fs, nursery)
    fs.reset(before)
    assert nursery.run("noted_life", job=str(fs.path / "job"), step=20) == 0
    log = fs.log()
    assert list(cut.losses(before, log)) == []
    count_points(cut.cuts, "power cuts")
    count_points(cut.disks, "different disks after them")


def test_a_first_save_survives_every_power_cut_from_the_return_of_its_commit_on(
    fs: LossyFS, nursery: Nursery, cut: Cut, count_points: Count
) -> None:
    fs.reset()
    assert nursery.run("noted_life", job=str(fs.path / "job"), step=20) == 0
    assert list(cut.losses(Disk(), fs.log(), good=None)) == []
    count_points(cut.cuts, "power cuts")
    count_points(cut.disks, "different disks after them")


def _killed_then_continued(
    fs: LossyFS, nursery: Nursery, before: Disk, flaw: str = "", first: int = 1
) -> Iterator[tuple[int, list[Operation]]]:
    """Kill an attempt at its operations from `first` on, and let another one live its life: (length
    of the log at the kill, the whole log)."""
    job = str(fs.path / "job")
    fs.reset(before)
    assert nursery.run("noted_life", job=job, step=20, flaw=flaw) == 0
    for nth in evenly(range(first, fs.counts()["change"] + 1), KILLS):
        fs.reset(before)
        fs.fail("change", KILL, nth=nth)
        assert nursery.run("noted_life", job=job, step=20, flaw=flaw) != 0
        at = len(fs.log())
        fs.heal()
        assert nursery.run("noted_life", job=job, step=30, flaw=flaw) == 0
        yield at, fs.log()


@pytest.mark.parametrize("is_first", [True, False], ids=["first attempt", "second attempt"])
def test_what_a_killed_attempt_left_unflushed_is_not_relied_on_by_the_next(
    fs: LossyFS, nursery: Nursery, cut: Cut, count_points: Count, is_first: bool
) -> None:
    before, good = (Disk(), None) if is_first else (_with_step_10(fs, nursery), 10)
    for at, log in _killed_then_continued(fs, nursery, before):
        losses = list(cut.losses(before, log, first=at, good=good, seeds=FEW_SEEDS))
        assert losses == [], f"killed before operation {at}, {_describe(log, at)}"
    count_points(cut.cuts, "power cuts")
    count_points(cut.disks, "different disks after them")


@pytest.mark.parametrize("flaw", [f for f in FLAWS if f != "trust in what is visible"])
def test_this_campaign_finds_a_store_without(fs: LossyFS, nursery: Nursery, cut: Cut, flaw: str) -> None:
    before = _with_step_10(fs, nursery)
    fs.reset(before)
    assert nursery.run("noted_life", job=str(fs.path / "job"), step=20, flaw=flaw) == 0
    assert any(cut.losses(before, fs.log()))


def test_this_campaign_finds_a_retention_that_trusts_what_is_visible(fs: LossyFS, nursery: Nursery, cut: Cut) -> None:
    before = _with_step_10(fs, nursery)
    lives = _killed_then_continued(fs, nursery, before, "trust in what is visible", first=40)
    assert any(cut.losses(before, log, first=at, seeds=0) for at, log in lives)
