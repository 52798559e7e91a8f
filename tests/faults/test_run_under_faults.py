"""The campaigns once more, over a real training loop: whatever happens to it, the next start goes on from
a step that was saved, and what it learns in the end is the same, bit for bit."""

import errno
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from faults import lossyfs, stepping
from faults.disk import Disk, Note, after_power_cut, policies, put_on_disk
from faults.lossyfs import KILL, LossyFS
from faults.nursery import Nursery
from faults.scale import evenly, scaled
from faults.stepping import Frozen, assert_few, kill_at, trace
from faults.training import EVERY, TOTAL
from keeper.leftovers import end_keepers
from lastgood.core.errors import FencedError, StorageError
from lastgood.store import attempts, catalogue, jobdir, reader
from lastgood.store.jobdir import JobDirectory

pytestmark = pytest.mark.slow
needs_fuse = pytest.mark.skipif(not lossyfs.is_available(), reason="needs /dev/fuse and mfusepy")
needs_strace = pytest.mark.skipif(not stepping.is_available(), reason="needs strace")

Count = Callable[[int, str], None]
POINTS = scaled(40, 16)
"""So many in each campaign, about; each costs two trainings."""


@pytest.fixture(scope="module")
def fs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LossyFS]:
    with lossyfs.mounted(tmp_path_factory.mktemp("training") / "mnt") as fs:
        yield fs


@pytest.fixture
def trainer(gym: Nursery, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator["Trainer"]:
    """Its parameter is how it saves, see `training.train`."""
    made = Trainer(gym, tmp_path, getattr(request, "param", "foreground"))
    yield made
    if made.way == "keeper":
        end_keepers(tmp_path)


def saving(*ways: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("trainer", ways, indirect=True)


class Trainer:
    """Trains in processes of their own and compares what they learn with an undisturbed run."""

    def __init__(self, gym: Nursery, directory: Path, way: str) -> None:
        self.gym = gym
        self.way = way
        self._directory = directory
        self._result = directory / "result"
        self._expected: dict[int, str] = {}
        self.forget()

    def forget(self) -> None:
        """A new state directory: nobody remembers any job."""
        self._state = self._directory / f"state-{random.randbytes(6).hex()}"

    def arguments(self, job: Path, **more: object) -> dict[str, object]:
        return {"job": str(job), "state": str(self._state), "result": str(self._result), "way": self.way, **more}

    def run(self, job: Path, **more: object) -> int:
        self._result.unlink(missing_ok=True)
        return self.gym.run("train", **self.arguments(job, **more))

    def expected(self, total: int = TOTAL) -> str:
        if total not in self._expected:
            assert self.run(self._directory / f"undisturbed-{total}", total=total) == 0
            self._expected[total] = self._result.read_text()
        return self._expected[total]

    def assert_carries_on(self, job: Path, total: int = TOTAL) -> None:
        """The next attempt finishes, and has learned what an undisturbed run learns."""
        expected = self.expected(total)
        assert self.run(job, total=total) == 0
        assert self._result.read_text() == expected
        assert jobdir.open_job(job).finished() is not None


def _newest_whole(job: JobDirectory) -> int:
    """The step of the newest committed checkpoint, all of which must be whole; 0 if there is none."""
    listed = [c for c in catalogue.list_checkpoints(job) if c.is_committed]
    for one in listed:
        assert reader.open_checkpoint(job, one.name).verify() == []
    return listed[0].step if listed else 0


@needs_strace
@saving("foreground", "desk")
def test_training_killed_at_any_call_is_carried_on(trainer: Trainer, tmp_path: Path, count_points: Count) -> None:
    log, path = tmp_path / "strace.txt", tmp_path / "job"
    calls = trace(trainer.gym, log, "train", **trainer.arguments(path))
    # Evenly over the start, both saves and the end: other campaigns do not leave one out.
    chosen = evenly(calls, POINTS)
    missed = []
    for call in chosen:
        shutil.rmtree(path, ignore_errors=True)
        trainer.forget()
        if not kill_at(trainer.gym, log, call, "train", **trainer.arguments(path)):
            missed.append(call)
            continue
        if (path / "job.json").exists():
            assert _newest_whole(jobdir.open_job(path)) in (0, EVERY, TOTAL), str(call)
        trainer.assert_carries_on(path)
    assert_few(missed, chosen)
    count_points(len(chosen) - len(missed), "kills")


@needs_fuse
@saving("foreground", "keeper")
@pytest.mark.parametrize("policy", ["warn", "stop"])
def test_training_carries_on_or_stops_when_a_save_fails(
    trainer: Trainer, fs: LossyFS, count_points: Count, policy: str
) -> None:
    path = fs.path / "job"
    fs.reset()
    assert trainer.run(path, policy=policy) == 0
    changes = fs.counts()["change"]
    codes = []
    for nth in evenly(range(1, changes + 1), POINTS):
        # One that is still at work would write to files of the next job, which have the same numbers.
        end_keepers(fs.path)
        fs.reset()
        trainer.forget()
        fs.fail("change", random.Random(nth).choice([errno.EIO, errno.ENOSPC]), nth)
        code = trainer.run(path, policy=policy)
        assert code in (0, StorageError.exit_code), f"{code} after change {nth} failed"
        codes.append(code)
        fs.heal()
        if (path / "job.json").exists():
            _newest_whole(jobdir.open_job(path))
        trainer.assert_carries_on(path)
    count_points(len(codes), "failed operations")
    stopped = codes.count(StorageError.exit_code)
    assert 0 < stopped < len(codes)


@needs_fuse
def test_training_on_storage_that_fails_for_one_save_goes_on_and_says_so(trainer: Trainer, fs: LossyFS) -> None:
    path = fs.path / "job"
    fs.reset()
    assert trainer.run(path, is_noted=True, total=EVERY) == 0
    begin = fs.counts()["fsync"]
    fs.reset()
    trainer.forget()
    # The first save fails at each flush of its data; nothing else flushes files until it begins.
    fs.fail("fsync", errno.EIO, nth=begin - 3)
    assert trainer.run(path) == 0
    kinds = [e.kind for e in attempts.read_events(jobdir.open_job(path), 1)]
    assert kinds.index("save_failed") < kinds.index("committed")
    assert _newest_whole(jobdir.open_job(path)) == TOTAL


@needs_fuse
@saving("foreground", "keeper")
def test_training_goes_on_after_a_power_cut(trainer: Trainer, fs: LossyFS, tmp_path: Path, count_points: Count) -> None:
    fs.reset()
    assert trainer.run(fs.path / "job", is_noted=True) == 0
    log = fs.log()
    source = random.Random(11)
    ways = list(policies(8).values())
    for _ in range(POINTS):
        at = source.randrange(len(log) + 1)
        found = tmp_path / "found"
        shutil.rmtree(found, ignore_errors=True)
        found.mkdir()
        put_on_disk(after_power_cut(Disk(), log[:at], source.choice(ways)).tree(), found)
        committed = [int(o.text.removeprefix("committed ")) for o in log[:at] if isinstance(o, Note)]
        if committed:
            assert _newest_whole(jobdir.open_job(found / "job")) >= committed[-1]
        trainer.forget()
        trainer.assert_carries_on(found / "job")
    count_points(POINTS, "power cuts")


def test_a_damaged_newest_checkpoint_is_passed_over_once_and_remembered(trainer: Trainer, tmp_path: Path) -> None:
    path = tmp_path / "job"
    assert trainer.run(path) == 0
    job = jobdir.open_job(path)
    newest = catalogue.list_checkpoints(job)[0]
    assert newest.step == TOTAL
    data = job.checkpoints / newest.name / "rank-00000.safetensors"
    content = bytearray(data.read_bytes())
    content[-5] ^= 1
    data.write_bytes(content)

    assert trainer.run(path, total=TOTAL + EVERY, dies_in=EVERY + 1) == -9
    (started,) = (e for e in attempts.read_events(job, 2) if e.kind == "started")
    assert started.data["how"] == "resumed" and started.data["step"] == EVERY
    assert started.data["rejected"] == [newest.name]
    mark = {c.name: c.rejected for c in catalogue.list_checkpoints(job)}[newest.name]
    assert "do not match their checksum" in mark

    # Were it read again, it would be found whole now: the mark alone keeps it from being tried.
    content[-5] ^= 1
    data.write_bytes(content)
    trainer.assert_carries_on(path, total=TOTAL + EVERY)
    (started,) = (e for e in attempts.read_events(job, 3) if e.kind == "started")
    assert started.data["step"] == EVERY and started.data["rejected"] == [newest.name]


@needs_strace
@saving("foreground", "desk")
def test_training_frozen_anywhere_is_fenced_when_it_wakes(
    trainer: Trainer, tmp_path: Path, count_points: Count
) -> None:
    """On another node, where no lock tells, a newer attempt has finished the job meanwhile."""
    log, origin, path = tmp_path / "strace.txt", tmp_path / "origin", tmp_path / "job"
    attempts.claim_attempt(jobdir.create_job(origin), "launch-1")
    shutil.copytree(origin, path)
    calls = trace(trainer.gym, log, "train", **trainer.arguments(path, attempt=1))
    chosen = evenly(calls, POINTS)
    codes, missed = [], []
    for call in chosen:
        shutil.rmtree(path)
        shutil.copytree(origin, path)
        trainer.forget()
        frozen = Frozen(trainer.gym, log, call, "train", **trainer.arguments(path, attempt=1))
        if not frozen.is_stopped:
            missed.append(call)
            continue
        job = jobdir.open_job(path)
        try:
            was_done = _newest_whole(job) == TOTAL
            number = attempts.claim_attempt(job, "launch-2").attempt
            code = trainer.run(path, attempt=number)
            before = {p: p.read_bytes() for p in job.path.rglob(f"*-{number:04d}/*")}
        finally:
            codes.append(frozen.wake())
        assert code == 0, f"frozen at {call}"
        assert codes[-1] in (0, FencedError.exit_code), f"frozen at {call}"
        assert {p: p.read_bytes() for p in job.path.rglob(f"*-{number:04d}/*")} == before, f"frozen at {call}"
        newest = catalogue.list_checkpoints(job)[0]
        assert (newest.step, newest.attempt) == (TOTAL, 1 if was_done else number), f"frozen at {call}"
        _newest_whole(job)
    assert_few(missed, chosen)
    count_points(len(codes), "frozen trainings")
    assert FencedError.exit_code in codes


@needs_fuse
@saving("keeper")
def test_a_keeper_killed_at_any_change_costs_nothing(trainer: Trainer, fs: LossyFS, count_points: Count) -> None:
    """Whoever makes the nth change, keeper or program, is killed right before it."""
    path = fs.path / "job"
    fs.reset()
    assert trainer.run(path) == 0
    changes = fs.counts()["change"]
    end_keepers(fs.path)
    codes = []
    for nth in evenly(range(1, changes + 1), POINTS):
        fs.reset()
        trainer.forget()
        fs.fail("change", KILL, nth)
        codes.append(trainer.run(path))
        assert codes[-1] in (0, -9), f"{codes[-1]} when killed at change {nth}"
        fs.heal()
        if (path / "job.json").exists():
            newest = _newest_whole(jobdir.open_job(path))
            assert newest == TOTAL or codes[-1] != 0, "it has finished"
        trainer.assert_carries_on(path)
        end_keepers(fs.path)
        if (path / "checkpoints").exists():
            assert not list(path.rglob("*.part")), f"left after a kill at change {nth}"
    survived = codes.count(0)
    count_points(survived, "kills of a keeper at any change")
    count_points(len(codes) - survived, "kills")
    assert survived > len(codes) // 4
