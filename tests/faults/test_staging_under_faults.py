"""Staging and promotion, while attempts are killed, frozen and cut off from power at every point.

However it goes, every committed checkpoint on both sides is whole, nothing that was committed is lost, and the next
attempt takes up what was left and works.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from faults import lossyfs, staged_states
from faults.disk import Disk, Note, Operation, after_power_cut, policies, put_on_disk
from faults.lossyfs import LossyFS
from faults.nursery import Nursery
from faults.scale import MANY, evenly
from faults.stepping import Frozen, assert_few, kill_at, trace
from faults.test_constants_under_faults import changing, telling
from lastgood.core.errors import FencedError

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unflushed")]

Count = Callable[[int, str], None]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """One attempt, which has promoted step 10, and has committed step 20 on the stage only."""
    home = tmp_path / "origin"
    staged_states.staged_life(str(home), 10)
    (stage,) = staged_states.staging.find_stages(staged_states.jobdir.open_job(home / "job"))
    staged_states.save(stage, 20, 1, base=2)
    return home


@pytest.fixture
def prepare(home: Path, log: Path) -> Callable[[], Path]:
    """A copy of it, at the same place each time."""
    kept = home.rename(home.with_name("kept"))

    def prepare() -> Path:
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(kept, home)
        return home

    return prepare


@pytest.mark.usefixtures("strace")
@pytest.mark.parametrize(
    ("scenario", "arguments", "outcomes"),
    [
        # A new attempt: it promotes 20, commits 30 on the stage, promotes that.
        ("staged_life", {"step": 30}, {(10, 20), (20, 20), (20, 30), (30, 30)}),
        ("promotion", {"attempt": 1}, {(10, 20), (20, 20)}),
    ],
    ids=["a whole attempt", "a promotion"],
)
def test_an_attempt_killed_anywhere_is_carried_on_by_the_next(
    prepare: Callable[[], Path],
    nursery: Nursery,
    log: Path,
    count_points: Count,
    scenario: str,
    arguments: dict[str, int],
    outcomes: set[tuple[int, int]],
) -> None:
    calls = changing(trace(nursery, log, scenario, home=str(prepare()), **arguments))
    found, missed = set(), []
    for at, call in enumerate(calls):
        work = prepare()
        if not kill_at(nursery, log, call, scenario, home=str(work), **arguments):
            missed.append(call)
            continue
        try:
            found.add(staged_states.newest_whole(work))
            staged_states.next_attempt_works(work)
        except Exception as error:
            error.add_note(f"after a kill at call {at + 1} of {len(calls)}, {call}")
            raise
    assert found == outcomes
    assert_few(missed, calls)
    count_points(len(calls) - len(missed), "kills")


@pytest.mark.usefixtures("strace")
def test_a_promotion_frozen_anywhere_is_taken_over_by_the_next_attempt_and_does_not_disturb_it(
    prepare: Callable[[], Path], nursery: Nursery, log: Path, count_points: Count
) -> None:
    calls = evenly(telling(trace(nursery, log, "promotion", home=str(prepare()), attempt=1)), MANY // 2)
    codes, missed = set(), []
    for at, call in enumerate(calls):
        work = prepare()
        frozen = Frozen(nursery, log, call, "promotion", home=str(work), attempt=1)
        if not frozen.is_stopped:
            missed.append(call)
            continue
        try:
            staged_states.staged_life(str(work), 80)
        finally:
            code = frozen.wake()
        try:
            codes.add(code)
            assert code in (0, FencedError.exit_code)
            assert staged_states.newest_whole(work) == (80, 80)
            staged_states.next_attempt_works(work)
        except Exception as error:
            error.add_note(f"frozen at call {at + 1} of {len(calls)}, {call}; its exit code was {code}")
            raise
    assert codes == {0, FencedError.exit_code}
    assert_few(missed, calls)
    count_points(len(calls) - len(missed), "frozen promotions")


@pytest.fixture(scope="module")
def fs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LossyFS]:
    if not lossyfs.is_available():
        pytest.skip("needs /dev/fuse and mfusepy")
    with lossyfs.mounted(tmp_path_factory.mktemp("lossy") / "mnt") as fs:
        yield fs


def test_what_was_committed_on_the_stage_and_what_was_promoted_survives_every_power_cut(
    fs: LossyFS, nursery: Nursery, tmp_path: Path, count_points: Count
) -> None:
    home = str(fs.path)
    fs.reset()
    assert nursery.run("noted_staged_life", home=home, step=10) == 0
    before = fs.disk()
    fs.reset(before)
    assert nursery.run("noted_staged_life", home=home, step=20) == 0
    log = fs.log()
    assert [_told(log, "staged"), _told(log, "promoted")] == [20, 20]
    seen: dict[object, str] = {}
    losses = []
    cuts = 0
    for at in range(len(log) + 1):
        for name, choose in policies(4).items():
            cuts += 1
            disk = after_power_cut(before, log[:at], choose)
            told = _told(log[:at], "staged"), _told(log[:at], "promoted")
            key = (tuple(disk.tree().items()), told)
            if key not in seen:
                seen[key] = _problem(disk, *told, tmp_path / "cut")
            if seen[key]:
                losses.append(f"cut before operation {at} ({log[at : at + 1]!r:.80}), {name}: {seen[key]}")
    assert losses == []
    count_points(cuts, "power cuts")
    count_points(len(seen), "different disks after them")


def _told(log: list[Operation], word: str) -> int:
    texts = [o.text.split() for o in log if isinstance(o, Note)]
    return max([int(text[1]) for text in texts if text[0] == word], default=10)


def _problem(disk: Disk, staged: int, promoted: int, directory: Path) -> str:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    put_on_disk(disk.tree(), directory)
    try:
        durable_step, staged_step = staged_states.newest_whole(directory)
        assert (durable_step or 0) >= promoted, f"step {promoted} was promoted, {durable_step} is found"
        assert max(durable_step or 0, staged_step or 0) >= staged, f"step {staged} was committed, and is nowhere"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a loss
        return f"{type(error).__name__}: {error}"
    return ""
