"""Anything may be wrong with what is read: it is refused by name, and what is older and whole is found.

Never another error than DamagedError (or FormatVersionError), never wrong data.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faults import states
from faults.states import BLOCK_BYTES
from lastgood.core.errors import DamagedError, NoSuchJobError
from lastgood.core.layout import PINNED_FILE, REJECTED_FILE
from lastgood.core.retention import Keep
from lastgood.store import attempts, catalogue, jobdir, reader, sweep, writer
from lastgood.store.jobdir import JobDirectory

NEWEST = "000000000020-0001"
OLDER = "000000000010-0001"
FILES = ["manifest.json", *(f"rank-{rank:05d}.{kind}" for rank in range(2) for kind in ("json", "safetensors"))]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobDirectory]:
    """Steps 10 and 20 are saved. Tests put back what they alter, see `altered`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "BLOCK_BYTES", BLOCK_BYTES)
        job = jobdir.create_job(tmp_path_factory.mktemp("corruption") / "job")
        attempts.claim_attempt(job, "")
        states.write(job, 10, 1)
        states.write(job, 20, 1)
    yield job
    assert states.newest_good(job) == 20, "a test did not put back what it altered"


@contextmanager
def altered(path: Path) -> Iterator[bytes]:
    """The content of a file, which is put back afterwards whatever became of the name."""
    content = path.read_bytes()
    try:
        yield content
    finally:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.write_bytes(content)


def _assert_refused(job: JobDirectory, name: str = NEWEST, good: int = 10) -> list[str]:
    """The newest is found to be damaged, in every way to look at it, and the one before is found; why."""
    damaged: list[str] = []
    assert states.newest_good(job, damaged) == good
    assert damaged == [name]
    try:
        problems = reader.open_checkpoint(job, name).verify()
    except DamagedError as error:
        return [error.what]
    assert problems
    with pytest.raises(DamagedError):
        checkpoint = reader.open_checkpoint(job, name)
        for rank in range(states.RANKS):
            checkpoint.read(rank, checkpoint.arrays(rank))
    return problems


def test_a_flipped_bit_in_any_block_is_named_with_its_file_and_block(job: JobDirectory) -> None:
    path = job.checkpoints / NEWEST / "rank-00001.safetensors"
    blocks = -(-path.stat().st_size // BLOCK_BYTES)
    for block in range(blocks):
        with altered(path) as content:
            at = min(block * BLOCK_BYTES + 99, len(content) - 1)
            path.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
            (problem,) = _assert_refused(job)
            assert f"{NEWEST}/rank-00001.safetensors" in problem and f"(block {block})" in problem
    assert blocks >= 4


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(file=st.sampled_from(FILES), position=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_any_flipped_bit_of_a_checkpoint_is_seen(job: JobDirectory, file: str, position: float, bit: int) -> None:
    path = job.checkpoints / NEWEST / file
    with altered(path) as content:
        at = int(position * len(content))
        path.write_bytes(content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :])
        (problem,) = _assert_refused(job)
        assert file in problem


def test_every_bit_of_every_byte_of_a_manifest_counts(job: JobDirectory) -> None:
    path = job.checkpoints / NEWEST / "manifest.json"
    with altered(path) as content:
        for at in range(len(content)):
            path.write_bytes(content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :])
            with pytest.raises(DamagedError):
                reader.open_checkpoint(job, NEWEST)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(file=st.sampled_from(FILES), share=st.floats(0, 1, exclude_max=True))
def test_any_truncation_is_seen(job: JobDirectory, file: str, share: float) -> None:
    path = job.checkpoints / NEWEST / file
    with altered(path) as content:
        path.write_bytes(content[: int(share * len(content))])
        assert file in _assert_refused(job)[0]


def test_truncation_at_every_block_boundary_is_seen(job: JobDirectory) -> None:
    path = job.checkpoints / NEWEST / "rank-00000.safetensors"
    for size in range(0, path.stat().st_size, BLOCK_BYTES):
        with altered(path) as content:
            path.write_bytes(content[:size])
            (problem,) = _assert_refused(job)
            assert f"has {size} bytes" in problem


def _appended(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


def _from_other_rank(path: Path) -> None:
    other = path.name.replace("00000", "x").replace("00001", "00000").replace("x", "00001")
    path.write_bytes(path.with_name(other).read_bytes())


def _from_other_step(path: Path) -> None:
    path.write_bytes((path.parent.parent / OLDER / path.name).read_bytes())


def _from_nowhere(path: Path) -> None:
    path.write_bytes(b"")


def _link_inside(path: Path) -> None:
    target = path.with_name("kept-aside")
    target.write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(target.name)


def _link_outside(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def _link_to_nothing(path: Path) -> None:
    path.unlink()
    path.symlink_to("nothing")


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


REPLACEMENTS: dict[str, Callable[[Path], None]] = {
    "appended to": _appended,
    "swapped with another step's": _from_other_step,
    "of zero length": _from_nowhere,
    "a link inside": _link_inside,
    "a link outside": _link_outside,
    "a link to nothing": _link_to_nothing,
    "a pipe": _pipe,
    "a directory": _directory,
}


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("replacement", REPLACEMENTS)
def test_a_file_that_is(job: JobDirectory, file: str, replacement: str) -> None:
    path = job.checkpoints / NEWEST / file
    with altered(path):
        REPLACEMENTS[replacement](path)
        assert file in _assert_refused(job)[0]
    path.with_name("kept-aside").unlink(missing_ok=True)


@pytest.mark.parametrize("file", FILES[1:])
def test_a_file_that_is_swapped_with_another_ranks(job: JobDirectory, file: str) -> None:
    path = job.checkpoints / NEWEST / file
    with altered(path):
        _from_other_rank(path)
        assert file in _assert_refused(job)[0]


@pytest.mark.parametrize("file", FILES[1:])
def test_a_file_that_is_missing(job: JobDirectory, file: str) -> None:
    path = job.checkpoints / NEWEST / file
    with altered(path):
        path.unlink()
        assert f"{file} is missing" in _assert_refused(job)[0]


def test_a_whole_directory_copied_over_another(job: JobDirectory) -> None:
    directory, aside = job.checkpoints / NEWEST, job.path / "aside"
    directory.rename(aside)
    try:
        shutil.copytree(job.checkpoints / OLDER, directory)
        assert "copied from another checkpoint" in _assert_refused(job)[0]
    finally:
        shutil.rmtree(directory)
        aside.rename(directory)


def test_a_checkpoint_of_another_job(job: JobDirectory, tmp_path: Path) -> None:
    other = jobdir.create_job(tmp_path / "other")
    attempts.claim_attempt(other, "")
    states.write(other, 10, 1)
    shutil.copytree(job.checkpoints / NEWEST, other.checkpoints / NEWEST)
    assert "belongs to job" in _assert_refused(other)[0]


# -- what is not a checkpoint's own file


def _broken(path: Path) -> Iterator[str]:
    """Put each kind of damage in the place of a document, one after the other, and put it back at the end."""
    with altered(path) as content:
        for at in range(0, len(content), 7):
            path.write_bytes(content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :])
            yield f"bit {at % 8} of byte {at}"
        for at in range(0, len(content), 11):
            path.write_bytes(content[:at])
            yield f"{at} bytes"
        for name in ("a link outside", "a link to nothing", "a pipe", "a directory"):
            path.write_bytes(content)
            REPLACEMENTS[name](path)
            yield name
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            path.unlink(missing_ok=True)


def test_a_damaged_job_file_is_said_and_never_made_anew(job: JobDirectory) -> None:
    for damage in _broken(job.path / "job.json"):
        for action in (jobdir.open_job, jobdir.create_job):
            with pytest.raises(DamagedError, match=r"job\.json") as caught:
                action(job.path)
            assert "not touched" in caught.value.safe and caught.value.remedy, damage


def test_a_damaged_attempt_is_still_claimed_and_hides_no_checkpoint(job: JobDirectory) -> None:
    for damage in _broken(job.attempts / "0001.json"):
        assert attempts.attempt_numbers(job) == [1], damage
        assert states.newest_good(job) == 20, damage
        if damage == "0 bytes":
            assert attempts.read_attempt(job, 1) is None
            continue
        with pytest.raises(DamagedError, match=r"0001\.json"):
            attempts.read_attempt(job, 1)


@pytest.mark.parametrize("mark", [REJECTED_FILE, PINNED_FILE])
def test_a_damaged_mark_still_marks(job: JobDirectory, mark: str) -> None:
    catalogue.set_mark(job, NEWEST, mark, "a test says so")
    path = job.checkpoints / NEWEST / mark
    for damage in _broken(path):
        newest = catalogue.list_checkpoints(job)[0]
        assert (newest.rejected if mark == REJECTED_FILE else newest.pinned) == "the mark itself is damaged", damage
        assert states.newest_good(job) == (10 if mark == REJECTED_FILE else 20), damage
    catalogue.clear_mark(job, NEWEST, mark)


def test_a_damaged_finished_marker_is_said(job: JobDirectory) -> None:
    job.mark_finished(20, 1)
    for damage in _broken(job.path / "finished.json"):
        with pytest.raises(DamagedError, match="finished"):
            job.finished()
        assert damage
    job.unmark_finished()


def test_a_journal_that_is_no_file_is_an_empty_one(job: JobDirectory) -> None:
    path = job.attempts / "0001.events.jsonl"
    path.mkdir()
    assert attempts.read_events(job, 1) == []
    path.rmdir()


# -- things among the checkpoints that are none


def test_strange_names_among_the_checkpoints_are_neither_read_nor_deleted(job: JobDirectory, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(job.checkpoints / NEWEST, elsewhere)
    strangers = {
        "a file": job.checkpoints / "000000000099-0001",
        "a link to a whole checkpoint": job.checkpoints / "000000000098-0001",
        "a link to an empty directory": job.checkpoints / "000000000097-0001",
        "notes of a person": job.checkpoints / "notes.txt",
        "another name": job.checkpoints / "step_99",
    }
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "rank-00000.json").write_text("somebody's")
    strangers["a file"].write_text("x")
    strangers["a link to a whole checkpoint"].symlink_to(elsewhere)
    strangers["a link to an empty directory"].symlink_to(empty)
    strangers["notes of a person"].write_text("x")
    strangers["another name"].mkdir()
    before = sorted(p.name for p in elsewhere.iterdir()), sorted(p.name for p in empty.iterdir())

    assert states.newest_good(job, []) == 20
    sweep.sweep_incomplete(job, 10**6)
    assert sweep.Retention(job, Keep(last=5)).apply() == []
    with pytest.raises(OSError, match="link"):
        sweep.delete_checkpoint(job, "000000000098-0001")
    with pytest.raises(OSError, match="link"):
        catalogue.set_mark(job, "000000000098-0001", REJECTED_FILE, "no")

    assert (sorted(p.name for p in elsewhere.iterdir()), sorted(p.name for p in empty.iterdir())) == before
    for what, path in strangers.items():
        assert os.path.lexists(path), f"{what} is gone"
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def test_foreign_files_in_a_checkpoint_survive_its_deletion(job: JobDirectory, tmp_path: Path) -> None:
    copy = JobDirectory(tmp_path / "copy", job.job)
    shutil.copytree(job.path, copy.path)
    (copy.checkpoints / OLDER / "notes.txt").write_text("mine")
    (copy.checkpoints / OLDER / "rank-00007.json").mkdir()
    sweep.Retention(copy, Keep(last=1)).apply()
    assert sorted(p.name for p in (copy.checkpoints / OLDER).iterdir()) == ["notes.txt", "rank-00007.json"]


def test_a_directory_name_that_is_no_checkpoint_is_said(job: JobDirectory) -> None:
    for name in ("../checkpoints", "/etc", "", "20", "000000000020-0001/.", "000000000020-001"):
        with pytest.raises(NoSuchJobError):
            reader.open_checkpoint(job, name)
