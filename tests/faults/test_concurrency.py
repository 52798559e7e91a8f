"""Many processes do the same at once: on a file system with hard links and on one without."""

import errno
import itertools
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from faults import lossyfs, states, stepping
from faults.lossyfs import KILL, LossyFS
from faults.nursery import Nursery
from faults.stepping import Frozen, assert_few, trace
from lastgood.core.errors import DamagedError
from lastgood.core.retention import Keep
from lastgood.store import attempts, durable, jobdir, sweep
from lastgood.store.jobdir import JobDirectory

pytestmark = pytest.mark.slow
needs_fuse = pytest.mark.skipif(not lossyfs.is_available(), reason="needs /dev/fuse and mfusepy")
needs_strace = pytest.mark.skipif(not stepping.is_available(), reason="needs strace")

Count = Callable[[int, str], None]
AT_ONCE = 12


@pytest.fixture(scope="module")
def without_links(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LossyFS]:
    with lossyfs.mounted(tmp_path_factory.mktemp("nolinks") / "mnt") as fs:
        fs.have_links(False)
        yield fs


@pytest.fixture(params=["with links", pytest.param("without links", marks=needs_fuse)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "with links":
        return tmp_path
    fs: LossyFS = request.getfixturevalue("without_links")
    fs.reset()
    return fs.path


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes whoever has not filled a job.json within a moment for dead."""
    monkeypatch.setattr(jobdir, "_CONTENT_LIMIT_S", 0.05)


def _assert_distinct(path: Path, number: int) -> None:
    job = jobdir.open_job(path)
    assert attempts.attempt_numbers(job) == list(range(1, number + 1))
    records = [attempts.read_attempt(job, n) for n in range(1, number + 1)]
    assert [r.attempt for r in records if r] == list(range(1, number + 1))
    assert {r.job for r in records if r} == {job.id}, "not all were of the same job"
    sweep.sweep_incomplete(job, number)
    assert states.leftovers(job) == []


@pytest.mark.parametrize("turn", range(3))
def test_first_starts_at_once_are_of_one_job_and_have_numbers_of_their_own(
    place: Path, nursery: Nursery, turn: int
) -> None:
    children = [nursery.prepare("start", job=str(place / "job")) for _ in range(AT_ONCE)]
    for child in children:
        nursery.release(child)
    assert [nursery.wait(child) for child in children] == [0] * AT_ONCE, nursery.errors()
    _assert_distinct(place / "job", AT_ONCE)


def test_first_starts_of_threads_that_share_a_process_id(place: Path) -> None:
    """As containers do: in each of them the program is process 1, and host names can be equal."""
    together = threading.Barrier(AT_ONCE)
    problems: list[BaseException] = []

    def start() -> None:
        together.wait()
        try:
            attempts.claim_attempt(jobdir.create_job(place / "job"), "")
        except BaseException as error:  # noqa: BLE001 - shown by the assertion
            problems.append(error)

    threads = [threading.Thread(target=start) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(180)
    assert problems == []
    _assert_distinct(place / "job", AT_ONCE)


def test_retentions_and_sweeps_at_once_do_not_trip_over_each_other(tmp_path: Path, nursery: Nursery) -> None:
    job = jobdir.create_job(tmp_path / "job")
    attempts.claim_attempt(job, "")
    for step in range(10, 110, 10):
        states.write(job, step, 1)
        (job.checkpoints / f"{step:012d}-0001" / "manifest.json").unlink() if step % 20 else None
    children = [nursery.prepare("retire", job=str(job.path), keep=1, attempt=1) for _ in range(4)]
    children += [nursery.prepare("recover", job=str(job.path), attempt=2) for _ in range(4)]
    for child in children:
        nursery.release(child)
    assert [nursery.wait(child) for child in children] == [0] * len(children)
    assert states.newest_good(job) == 100
    assert states.leftovers(job) == []
    assert sweep.Retention(job, Keep(last=1), 1).apply() == []


# -- without hard links: the name comes first, the content a moment later


@needs_fuse
@pytest.mark.usefixtures("impatient")
def test_a_start_without_links_killed_anywhere_is_carried_on_by_the_next(
    without_links: LossyFS, nursery: Nursery, count_points: Count
) -> None:
    path = without_links.path / "job"
    for nth in itertools.count(1):
        without_links.reset()
        without_links.fail("change", KILL, nth=nth)
        if nursery.run("start", job=str(path)) == 0:
            break
        without_links.heal()
        job = jobdir.create_job(path)
        number = attempts.claim_attempt(job, "").attempt
        sweep.sweep_incomplete(job, number)
        assert jobdir.create_job(path).id == job.id
        assert states.newest_good(job) is None
        # A number that was claimed in vain has no record, and troubles nobody.
        records = [attempts.read_attempt(job, n) for n in range(1, number)]
        assert all(r is None or r.job == job.id for r in records)
        states.write(job, 10, number)
        assert states.newest_good(job) == 10
        assert states.leftovers(job) == []
    count_points(nth - 1, "kills")
    assert nth > 15


@needs_fuse
@needs_strace
@pytest.mark.usefixtures("impatient")
def test_a_start_without_links_frozen_anywhere_comes_to_the_same_job(
    without_links: LossyFS, nursery: Nursery, tmp_path: Path, count_points: Count
) -> None:
    path, log = without_links.path / "job", tmp_path / "strace.txt"
    without_links.reset()
    calls = trace(nursery, log, "start", job=str(path))
    missed = []
    for call in calls:
        without_links.reset()
        frozen = Frozen(nursery, log, call, "start", job=str(path))
        if not frozen.is_stopped:
            missed.append(call)
            continue
        try:
            job = jobdir.create_job(path)
            number = attempts.claim_attempt(job, "newer").attempt
            sweep.sweep_incomplete(job, number)
        finally:
            code = frozen.wake()
        assert code == 0, f"frozen at {call}"
        assert jobdir.open_job(path).id == job.id, f"frozen at {call}"
        records = [attempts.read_attempt(job, n) for n in attempts.attempt_numbers(job)]
        assert {r.job for r in records if r} == {job.id}, f"frozen at {call}"
        assert [r.launch for r in records if r and r.attempt == number] == ["newer"], f"frozen at {call}"
        assert len([r for r in records if r]) == 2, f"frozen at {call}"
    assert_few(missed, calls)
    count_points(len(calls) - len(missed), "frozen claims")


@needs_fuse
@pytest.mark.usefixtures("impatient")
def test_many_that_take_over_an_empty_job_file_at_once_come_to_the_same_job(without_links: LossyFS) -> None:
    without_links.reset()
    path = without_links.path / "job"
    for _ in range(3):
        shutil.rmtree(path, ignore_errors=True)
        for name in ("attempts", "checkpoints"):
            (path / name).mkdir(parents=True)
        (path / "job.json").touch()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = [job.id for job in pool.map(jobdir.create_job, [path] * AT_ONCE)]
        assert found == [jobdir.open_job(path).id] * AT_ONCE


@pytest.mark.usefixtures("impatient")
def test_an_empty_job_file_of_a_job_that_has_been_used_is_damage(tmp_path: Path) -> None:
    job = jobdir.create_job(tmp_path / "job")
    attempts.claim_attempt(job, "")
    (job.path / "job.json").write_bytes(b"")
    with pytest.raises(DamagedError, match="is empty"):
        jobdir.create_job(job.path)


def test_a_claim_whose_temporary_file_was_swept_is_lost_and_not_an_error(tmp_path: Path) -> None:
    path = tmp_path / "0007.json"
    with durable.NewFile(path, "0011223344556677") as new:
        new.write(b"late")
        path.write_bytes(b"first")
        new.part.unlink()
        assert new.commit_exclusively() is False
    assert path.read_bytes() == b"first"


def test_a_file_that_vanishes_while_it_is_made_is_an_error(tmp_path: Path) -> None:
    with durable.NewFile(tmp_path / "0007.json", "0011223344556677") as new:
        new.part.unlink()
        with pytest.raises(OSError, match=os.strerror(errno.ENOENT)):
            new.commit_exclusively()


def test_claims_are_readable_json_for_other_tools(tmp_path: Path) -> None:
    job: JobDirectory = jobdir.create_job(tmp_path / "job")
    attempts.claim_attempt(job, "")
    assert json.loads((job.attempts / "0001.json").read_bytes())["attempt"] == 1
