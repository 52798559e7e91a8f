"""Every operation fails once, or from some point on, with each error that storage has for it.

The program gets a StorageError, what was good stays good, nobody calls a checkpoint damaged because its
storage was away, and once the storage is back the next attempt works.
"""

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from faults import lossyfs, states
from faults.disk import Disk, Note
from faults.lossyfs import LossyFS
from faults.nursery import Nursery
from lastgood.core.errors import StorageError
from lastgood.store import catalogue, jobdir

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not lossyfs.is_available(), reason="needs /dev/fuse and mfusepy"),
]

Count = Callable[[int, str], None]
FOR_EVER = 10**9


@pytest.fixture(scope="module")
def fs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LossyFS]:
    with lossyfs.mounted(tmp_path_factory.mktemp("errors") / "mnt") as fs:
        yield fs


@pytest.fixture(scope="module")
def before(fs: LossyFS, nursery: Nursery) -> Disk:
    """A job that has saved step 10, and half of step 15 when it was killed."""
    fs.reset()
    job = fs.path / "job"
    assert nursery.run("whole_life", job=str(job), step=10) == 0
    assert nursery.run("save", job=str(job), step=15, attempt=1) == 0
    (job / "checkpoints" / "000000000015-0001" / "manifest.json").unlink()
    return fs.disk()


@pytest.fixture(scope="module")
def counts(fs: LossyFS, nursery: Nursery, before: Disk) -> dict[str, int]:
    """How often an undisturbed attempt asks for each operation."""
    fs.reset(before)
    assert nursery.run("noted_life", job=str(fs.path / "job"), step=20) == 0
    return fs.counts()


def _live_with(fs: LossyFS, nursery: Nursery, before: Disk, operation: str, error: int, nth: int, count: int) -> None:
    fs.reset(before)
    fs.fail(operation, error, nth, count)
    path = fs.path / "job"
    code = nursery.run("noted_life", job=str(path), step=20)
    assert code in (0, StorageError.exit_code), f"exit code {code}"
    has_committed = any(isinstance(o, Note) for o in fs.log())
    fs.heal()
    job = jobdir.open_job(path)
    assert states.newest_good(job) in ([20] if has_committed else [10, 20])
    assert not any(c.rejected for c in catalogue.list_checkpoints(job)), "storage trouble was taken for damage"
    assert nursery.run("noted_life", job=str(path), step=30) == 0
    assert states.newest_good(job) == 30
    assert states.leftovers(job) == []


CHANGES = ["create", "write", "truncate", "fsync", "fsyncdir", "mkdir", "rename", "link", "unlink", "rmdir"]
READS = ["open", "read", "opendir", "readdir", "getattr"]


@pytest.mark.parametrize("operation", [*CHANGES, *READS])
def test_each_operation_fails_once_with_an_input_output_error(
    fs: LossyFS, nursery: Nursery, before: Disk, counts: dict[str, int], operation: str, count_points: Count
) -> None:
    # There are hundreds of the cheapest kind; they come in groups that fail alike.
    turns = range(1, counts.get(operation, 0) + 1, 5 if operation == "getattr" else 1)
    for nth in turns:
        _live_with(fs, nursery, before, operation, errno.EIO, nth, 1)
    count_points(len(turns), "failed operations")


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        ("write", errno.ENOSPC),
        ("create", errno.ENOSPC),
        ("mkdir", errno.EDQUOT),
        ("fsync", errno.EDQUOT),
        ("change", errno.EROFS),
        ("change", errno.EIO),
        ("fsyncdir", errno.EIO),
    ],
    ids=lambda value: value if isinstance(value, str) else errno.errorcode[value],
)
def test_storage_that_fails_from_some_point_on(
    fs: LossyFS, nursery: Nursery, before: Disk, counts: dict[str, int], operation: str, error: int, count_points: Count
) -> None:
    number = counts.get(operation, 0)
    for nth in range(1, number + 1):
        _live_with(fs, nursery, before, operation, error, nth, FOR_EVER)
    count_points(number, "failed operations")
    assert number


def test_a_read_only_file_system_is_named_as_such_and_read(fs: LossyFS, before: Disk) -> None:
    fs.reset(before)
    job = jobdir.open_job(fs.path / "job")
    fs.fail("change", errno.EROFS, 1, FOR_EVER)
    with pytest.raises(StorageError, match="read-only") as caught:
        states.write(job, 20, 1)
    assert caught.value.safe and caught.value.remedy
    assert states.newest_good(job) == 10


def test_a_commit_that_failed_after_its_rename_can_be_tried_again_at_the_same_step(
    fs: LossyFS, before: Disk, tmp_path: Path
) -> None:
    fs.reset(before)
    job = jobdir.open_job(fs.path / "job")
    flushes = _flushes_of_a_save(fs, job)
    fs.reset(before)
    fs.fail("fsyncdir", errno.EIO, nth=flushes)
    with pytest.raises(StorageError):
        states.write(job, 20, 1)
    assert states.newest_good(job) == 10, "it was reported as failed"
    states.write(job, 20, 1)
    assert states.newest_good(job) == 20


def _flushes_of_a_save(fs: LossyFS, job: jobdir.JobDirectory) -> int:
    states.write(job, 20, 1)
    return fs.counts()["fsyncdir"]


def test_a_committed_checkpoint_is_never_overwritten(fs: LossyFS, before: Disk) -> None:
    fs.reset(before)
    job = jobdir.open_job(fs.path / "job")
    untouched = fs.disk().tree()
    with pytest.raises(StorageError, match="never overwritten"):
        states.write(job, 10, 1)
    assert fs.disk().tree() == untouched
