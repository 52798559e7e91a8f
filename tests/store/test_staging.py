"""Staging: checkpoints are committed on a disk of the node, promoted to the job's directory, and found on both sides."""

import os
import struct

import pytest

from lastgood.core import layout
from lastgood.core.errors import DamagedError, FencedError, LastgoodError, PermissionDeniedError, StorageError
from lastgood.core.manifest import Job
from lastgood.core.retention import Keep
from lastgood.core.sealed import seal
from lastgood.core.tensorfile import ArraySpec
from lastgood.store import copying
from lastgood.store import writer as writer_module
from lastgood.store.attempts import claim_attempt
from lastgood.store.catalogue import list_checkpoints, set_mark
from lastgood.store.constants import ConstantsWriter
from lastgood.store.jobdir import open_job
from lastgood.store.promotion import Promoter
from lastgood.store.reader import open_checkpoint
from lastgood.store.staging import find_stages, list_copies, note_stage, open_stage, stage_records
from lastgood.store.survey import State, survey
from lastgood.store.sweep import Retention, sweep_incomplete
from lastgood.store.writer import CheckpointWriter

BASE = [(ArraySpec("base", "F32", (5000,)), memoryview(struct.pack("<5000f", *range(5000))))]


@pytest.fixture
def stage(job, tmp_path):
    return open_stage(job, tmp_path / "scratch")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(writer_module, "BLOCK_BYTES", 4096)


def name(step, attempt=1):
    return layout.checkpoint_name(step, attempt)


def write(writer, *, ranks=1, constants=None):
    for rank in range(ranks):
        values = struct.pack("<5000f", *[float(writer.step + rank)] * 5000)
        names = ["w", *(constants.arrays if constants else [])]
        entries = {"model": {n: {"$array": n, "kind": "numpy"} for n in names}, "step": writer.step}
        array = (ArraySpec("w", "F32", (5000,)), memoryview(values))
        writer.write_part(rank, [array], entries, constants=[constants] if constants else [])
    return writer


def save(stage, step, attempt=1, *, ranks=1, base=False, **facts):
    constants = ConstantsWriter(stage.staged, attempt).put(BASE) if base else None
    return write(stage.writer(step, attempt), ranks=ranks, constants=constants).commit(ranks, **facts)


def promote(stage, step, attempt=1, authority=None):
    return Promoter(stage, lambda: authority or attempt).promote(name(step, attempt))


def steps(job):
    return sorted(c.step for c in list_checkpoints(job) if c.is_committed)


def pending(stage):
    return [c.step for c in stage.pending()]


def content(job, checkpoint):
    return {p.name: p.read_bytes() for p in (job.checkpoints / checkpoint).iterdir()}


# The stage ----------------------------------------------------------------------------------------------------------


def test_a_staged_checkpoint_is_one_of_the_same_job(job, stage):
    save(stage, 10, metrics={"loss": 0.5})
    assert steps(job) == []
    assert steps(stage.staged) == [10]
    assert open_checkpoint(stage.staged, name(10)).verify() == []
    assert stage.staged.path.name == job.id


def test_any_command_reads_a_stage_like_a_job(stage):
    save(stage, 10)
    (found,) = survey(open_job(stage.staged.path))
    assert (found.name, found.state) == (name(10), State.GOOD)


def test_opening_it_again_changes_nothing(job, stage):
    save(stage, 10)
    again = open_stage(job, stage.path)
    assert (again.staged.id, steps(again.staged)) == (job.id, [10])


def test_a_stage_whose_job_file_was_torn_is_repaired(job, stage):
    (stage.staged.path / layout.JOB_FILE).write_bytes(b"")
    assert open_job(open_stage(job, stage.path).staged.path).id == job.id


def test_a_newer_attempt_fences_the_stage_too(job, stage):
    writer = write(stage.writer(10, 1))
    claim_attempt(job, "next")
    with pytest.raises(FencedError, match="attempt 2"):
        writer.commit(1)
    assert steps(stage.staged) == []


def test_the_stage_takes_checkpoints_while_the_durable_storage_is_away(job, stage, monkeypatch):
    real = os.listdir

    def away(path):
        if str(path).startswith(str(job.path)):
            raise OSError(5, "Input/output error")
        return real(path)

    monkeypatch.setattr(os, "listdir", away)
    save(stage, 10)
    assert (stage.staged.checkpoints / name(10) / layout.MANIFEST_FILE).exists()
    with pytest.raises(LastgoodError):
        promote(stage, 10)
    monkeypatch.undo()
    assert pending(stage) == [10]


@pytest.mark.parametrize("what", ["a file", "a link", "somebody else's", "another job's"])
def test_a_directory_that_is_not_ours_is_not_used(job, tmp_path, monkeypatch, what):
    place = tmp_path / "scratch" / job.id
    place.parent.mkdir()
    if what == "a file":
        place.write_text("")
    elif what == "a link":
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    elif what == "somebody else's":
        place.mkdir()
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    else:
        open_stage(job, place.parent)
        (place / layout.JOB_FILE).write_bytes(seal(Job(1, "0123456789abcdef", 0.0)))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises((StorageError, PermissionDeniedError)):
        open_stage(job, place.parent)
    assert sorted(tmp_path.rglob("*")) == before
    assert find_stages(job, place.parent) == []


def test_a_stage_that_cannot_be_made_is_an_error_with_a_place(job, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"cannot stage checkpoints in .*file"):
        open_stage(job, tmp_path / "file")


def test_room_is_looked_for_before_anything_is_written(stage):
    stage.refuse_without_room(1)
    with pytest.raises(StorageError, match="bytes free"):
        stage.refuse_without_room(2**62)


def test_a_full_stage_costs_no_save(job, stage, monkeypatch):
    """What the ranks of a node do together: one meets the full disk, and all go to the durable directory."""
    writer = stage.writer(10, 1)
    write(writer, ranks=1)
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", _no_space)
        with pytest.raises(StorageError, match="No space left"):
            writer.write_part(1, [(ArraySpec("w", "F32", (8,)), memoryview(bytes(32)))], {})
    Promoter(stage, lambda: 1).carry_over(10, 1, 0)
    direct = CheckpointWriter(job, 10, 1)
    direct.write_part(1, [(ArraySpec("w", "F32", (8,)), memoryview(bytes(32)))], {})
    direct.commit(2)
    for rank in range(2):
        writer.abandon(rank)
    assert open_checkpoint(job, name(10)).verify() == []
    assert list_checkpoints(stage.staged) == []


def _no_space(*_):
    raise OSError(28, "No space left on device")


def test_a_part_is_carried_over_with_its_constants(job, stage):
    constants = ConstantsWriter(stage.staged, 1).put(BASE)
    write(stage.writer(10, 1), constants=constants)
    Promoter(stage, lambda: 1).carry_over(10, 1, 0)
    CheckpointWriter(job, 10, 1).commit(1)
    checkpoint = open_checkpoint(job, name(10))
    assert checkpoint.verify() == []
    assert bytes(checkpoint.read(0, ["base"])["base"]) == bytes(BASE[0][1])


# Promotion ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [False, True], ids=["alone", "with constants"])
def test_a_promoted_checkpoint_is_the_same_byte_for_byte(job, stage, base):
    save(stage, 10, ranks=3, base=base, metrics={"loss": 0.25})
    promoted = promote(stage, 10)
    assert (promoted.name, promoted.step) == (name(10), 10)
    assert content(job, name(10)) == content(stage.staged, name(10))
    assert open_checkpoint(job, name(10)).verify() == []
    assert promoted.bytes >= 3 * 20_000 + base * 20_000
    if base:
        assert [p.name for p in job.constants.iterdir()] == [p.name for p in stage.staged.constants.iterdir()]


@pytest.mark.slow
def test_large_files_are_copied_past_the_page_cache_in_blocks(job, stage, monkeypatch):
    monkeypatch.setattr(writer_module, "BLOCK_BYTES", 2**20)
    data = memoryview(os.urandom(5 * 2**20 + 12345))
    writer = stage.writer(10, 1)
    writer.write_part(0, [(ArraySpec("w", "U8", (len(data),)), data)], {})
    writer.commit(1)
    assert promote(stage, 10).bytes > len(data)
    assert content(job, name(10)) == content(stage.staged, name(10))


@pytest.mark.parametrize("who", ["the same process", "another process"])
def test_the_second_promotion_does_not_copy_constants_again(job, stage, who):
    for step in (10, 20):
        save(stage, step, base=True)
    promoter = Promoter(stage, lambda: 1)
    first = promoter.promote(name(10))
    again = promoter if who == "the same process" else Promoter(stage, lambda: 1)
    assert again.promote(name(20)).bytes < first.bytes - 20_000
    assert open_checkpoint(job, name(20)).verify() == []


def test_constants_that_are_damaged_where_they_are_promoted_to_are_copied_again(job, stage):
    for step in (10, 20):
        save(stage, step, base=True)
    promote(stage, 10)
    (path,) = job.constants.iterdir()
    os.truncate(path, 100)
    promote(stage, 20)
    assert open_checkpoint(job, name(20)).verify() == []


def test_promoting_again_is_fine(job, stage):
    save(stage, 10)
    promote(stage, 10)
    before = {p: p.stat().st_mtime_ns for p in job.checkpoints.rglob("*")}
    assert promote(stage, 10).bytes == 0
    assert {p: p.stat().st_mtime_ns for p in job.checkpoints.rglob("*")} == before


def test_a_rejected_copy_is_replaced_by_the_good_one(job, stage):
    save(stage, 10)
    promote(stage, 10)
    os.truncate(job.checkpoints / name(10) / layout.data_file(0), 10)
    set_mark(job, name(10), layout.REJECTED_FILE, "damaged")
    assert pending(stage) == [10]
    promote(stage, 10)
    assert content(job, name(10)) == content(stage.staged, name(10))
    assert pending(stage) == []


def test_a_dead_attempts_checkpoint_is_promoted_by_its_successor_under_its_own_name(job, stage):
    save(stage, 10, attempt=1, base=True)
    attempt = claim_attempt(job, "next").attempt
    with pytest.raises(FencedError, match="attempt 2"):
        promote(stage, 10, 1)
    assert list(job.checkpoints.iterdir()) == []
    assert [c.name for c in stage.pending()] == [name(10, 1)]
    promote(stage, 10, 1, authority=attempt)
    assert [c.name for c in list_checkpoints(job)] == [name(10, 1)]
    assert open_checkpoint(job, name(10, 1)).verify() == []


def test_a_promotion_that_its_successor_takes_over_is_not_swept_from_under_it(job, stage):
    """The keeper of a dead attempt is in the middle of a copy when the next attempt begins, which it serves then."""
    save(stage, 10)
    authority = [1]
    promoter = Promoter(stage, lambda: authority[0])
    real = CheckpointWriter.commit_copy

    def next_begins(self, *arguments):
        authority[0] = claim_attempt(job, "next").attempt
        spared = [c.name for c in stage.pending()]
        assert sweep_incomplete(job, authority[0], spare=spared) == []
        real(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CheckpointWriter, "commit_copy", next_begins)
        promoter.promote(name(10))
    assert open_checkpoint(job, name(10)).verify() == []


def test_a_newer_attempt_that_begins_during_the_copy_stops_the_commit(job, stage):
    save(stage, 10)
    real = CheckpointWriter.commit_copy

    def overtaken(self, *arguments):
        claim_attempt(job, "next")
        real(self, *arguments)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(FencedError, match="attempt 2"):
        patch.setattr(CheckpointWriter, "commit_copy", overtaken)
        promote(stage, 10)
    assert steps(job) == []
    assert not list(job.checkpoints.rglob("manifest*"))


def test_a_promoter_of_an_attempt_that_was_swept_away_is_told_so(job, stage):
    save(stage, 10)

    def swept(self, *arguments):
        attempt = claim_attempt(job, "next").attempt
        assert sweep_incomplete(job, attempt) == [name(10)]
        real(self, *arguments)

    real = CheckpointWriter.commit_copy
    with pytest.MonkeyPatch.context() as patch, pytest.raises(FencedError, match="attempt 2"):
        patch.setattr(CheckpointWriter, "commit_copy", swept)
        promote(stage, 10)
    assert steps(job) == []
    promote(stage, 10, 1, authority=2)
    assert open_checkpoint(job, name(10)).verify() == []


def test_two_promoters_at_once_do_not_disturb_each_other(job, stage):
    """The second does all of its work in the middle of the first one's, of which every file is being written."""
    save(stage, 10, ranks=2)
    real = copying.write_source
    inner = []

    def interrupted(*arguments, **named):
        if not inner:
            inner.append(True)
            inner.append(promote(stage, 10).bytes)
        return real(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copying, "write_source", interrupted)
        promote(stage, 10)
    assert inner[1] > 0
    assert open_checkpoint(job, name(10)).verify() == []
    assert not list(job.path.rglob("*.part"))


@pytest.mark.parametrize("file", ["rank-00000.safetensors", "rank-00001.json", "manifest.json", "constants"])
@pytest.mark.parametrize("how", ["flipped", "cut", "missing"])
def test_a_damaged_staged_copy_is_not_promoted_and_says_so(job, stage, file, how):
    save(stage, 10, ranks=2, base=True)
    path = stage.staged.checkpoints / name(10) / file
    if file == "constants":
        (path,) = stage.staged.constants.iterdir()
    if (file, how) == ("manifest.json", "missing"):
        return
    if how == "flipped":
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 4
        path.write_bytes(data)
    elif how == "cut":
        os.truncate(path, path.stat().st_size - 1)
    else:
        path.unlink()
    with pytest.raises(DamagedError, match="staged copy is damaged"):
        promote(stage, 10)
    assert steps(job) == []
    assert list_checkpoints(stage.staged)[0].rejected
    assert pending(stage) == []
    assert not list(job.path.rglob("*.part"))


def test_a_stage_that_cannot_be_read_is_not_called_damaged(job, stage, monkeypatch):
    save(stage, 10)

    def fails(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "preadv", fails)
    with pytest.raises(StorageError, match=rf"cannot read {stage.path}.*Input/output"):
        promote(stage, 10)
    assert pending(stage) == [10]


def test_a_full_durable_directory_leaves_the_stage_as_it_is(job, stage, monkeypatch):
    save(stage, 10)
    monkeypatch.setattr(os, "pwrite", _no_space)
    with pytest.raises(StorageError, match=rf"cannot promote a checkpoint to {job.path}.*No space left") as caught:
        promote(stage, 10)
    assert "whole on the stage" in caught.value.safe
    monkeypatch.undo()
    assert (steps(job), pending(stage)) == ([], [10])
    promote(stage, 10)
    assert open_checkpoint(job, name(10)).verify() == []


def test_a_copy_that_was_deleted_because_something_newer_is_promoted_is_no_failure(stage):
    assert promote(stage, 10) is None


def test_progress_can_be_watched(job, stage, monkeypatch):
    save(stage, 10, ranks=2)
    promoter = Promoter(stage, lambda: 1)
    seen = []
    real = copying.copy_document

    def look(*arguments):
        seen.append((promoter.progress.name, promoter.progress.done_bytes, promoter.progress.total_bytes))
        real(*arguments)

    monkeypatch.setattr(copying, "copy_document", look)
    promoter.promote(name(10))
    total = open_checkpoint(job, name(10)).manifest.bytes
    assert [s[0] for s in seen] == [name(10)] * 2
    assert 20_000 < seen[0][1] < seen[1][1] <= total == seen[1][2]
    assert promoter.progress.name == ""


def test_nothing_is_promoted_through_a_link(job, stage, tmp_path):
    save(stage, 10)
    (tmp_path / "away").mkdir()
    (job.checkpoints / name(10)).symlink_to(tmp_path / "away")
    with pytest.raises(StorageError, match="link"):
        promote(stage, 10)
    assert list((tmp_path / "away").iterdir()) == []


# What is pending, what is deleted -------------------------------------------------------------------------------------


def test_pending_is_what_is_newer_than_all_that_is_promoted(job, stage):
    for step in (10, 20, 30, 40):
        save(stage, step)
    assert pending(stage) == [40, 30, 20, 10]
    promote(stage, 20)
    assert pending(stage) == [40, 30]
    set_mark(stage.staged, name(40), layout.REJECTED_FILE, "damaged")
    assert pending(stage) == [30]
    claim_attempt(job, "next")
    write(CheckpointWriter(job, 5, 2)).commit(1)
    assert pending(stage) == [], "a later attempt's is newer, whatever its step"


def test_after_a_new_start_nothing_of_before_is_pending(job, stage):
    save(stage, 10)
    claim_attempt(job, "next", fresh=True)
    assert pending(stage) == []


def test_the_stage_keeps_the_newest_and_never_deletes_what_is_not_promoted(job, stage):
    for step in (10, 20, 30, 40):
        save(stage, step)
    assert stage.retain(1) == []
    promote(stage, 10)
    assert stage.retain(1) == [name(10)]
    promote(stage, 40)
    assert stage.retain(1) == [name(20)]
    assert steps(stage.staged) == [30, 40]
    for step in (50, 60):
        save(stage, step)
    assert stage.retain(1) == [name(40), name(30)]
    assert steps(stage.staged) == [50, 60]


def test_what_is_pinned_on_the_stage_stays_there(job, stage):
    for step in (10, 20, 30):
        save(stage, step)
    set_mark(stage.staged, name(10), layout.PINNED_FILE, "the paper's")
    promote(stage, 30)
    stage.leave(1)
    assert steps(stage.staged) == [10]


def test_what_went_directly_to_the_durable_directory_counts_as_promoted(job, stage):
    for step in (10, 20, 30):
        save(stage, step)
    write(CheckpointWriter(job, 40, 1)).commit(1)
    assert stage.retain(1) == [name(10)]


def test_a_rejected_durable_copy_does_not_count_as_promoted(job, stage):
    for step in (10, 20, 30):
        save(stage, step)
    promote(stage, 30)
    set_mark(job, name(30), layout.REJECTED_FILE, "damaged")
    assert stage.retain(1) == []


def test_the_stages_constants_go_with_its_checkpoints(job, stage):
    save(stage, 10, base=True)
    promote(stage, 10)
    claim_attempt(job, "next")
    for step in (20, 30):
        save(stage, step, 2)
    promote(stage, 30, 2)
    assert stage.retain(2) == [name(10)]
    assert list(stage.staged.constants.iterdir()) == []
    assert open_checkpoint(job, name(10)).verify() == []


def test_an_older_attempt_deletes_nothing_from_the_stage(job, stage):
    for step in (10, 20, 30):
        save(stage, step)
    promote(stage, 30)
    claim_attempt(job, "next")
    with pytest.raises(FencedError):
        stage.retain(1)
    assert steps(stage.staged) == [10, 20, 30]


def test_durable_retention_works_as_ever(job, stage):
    retention = Retention(job, Keep(last=2), 1)
    for step in (10, 20, 30):
        save(stage, step, base=True)
        promote(stage, step)
        retention.apply()
    assert steps(job) == [20, 30]
    assert len(list(job.constants.iterdir())) == 1
    assert all(open_checkpoint(job, name(step)).verify() == [] for step in (20, 30))


def test_when_the_job_is_done_nothing_is_left_on_the_node(job, stage):
    for step in (10, 20):
        save(stage, step, base=True)
        promote(stage, step)
    stage.writer(30, 1).write_part(0, [], {})
    stage.leave(1)
    assert list(stage.path.iterdir()) == []
    assert open_checkpoint(job, name(20)).verify() == []


def test_what_is_not_promoted_stays_even_when_the_job_is_done(job, stage):
    save(stage, 10, base=True)
    stage.leave(1)
    assert pending(stage) == [10]
    assert open_checkpoint(stage.staged, name(10)).verify() == []


def test_leaving_deletes_nothing_of_others(job, stage):
    save(stage, 10)
    promote(stage, 10)
    (stage.staged.path / "notes.txt").write_text("mine")
    stage.leave(1)
    assert [p.name for p in stage.staged.path.iterdir()] == ["notes.txt"]


# Found again ---------------------------------------------------------------------------------------------------------


def test_a_stage_is_found_again_by_the_jobs_own_record(job, stage, tmp_path):
    assert find_stages(job) == []
    note_stage(stage, 1)
    save(stage, 10)
    (found,) = find_stages(job)
    assert (found.path, pending(found)) == (stage.path, [10])
    (again,) = find_stages(job, stage.path)
    assert again.path == stage.path
    other = open_stage(job, tmp_path / "other")
    note_stage(other, 2)
    assert [s.path for s in find_stages(job)] == [other.path, stage.path]
    assert [(r.path, r.attempt, r.host) for r in stage_records(job)] == [
        (str(other.path), 2, os.uname().nodename),
        (str(stage.path), 1, os.uname().nodename),
    ]


def test_what_is_not_on_this_node_is_known_but_not_found(job, stage):
    note_stage(stage, 1)
    stage.path.rename(stage.path.with_name("another node"))
    assert find_stages(job) == []
    assert not stage.path.exists()
    assert len(stage_records(job)) == 1


def test_damaged_records_are_passed_over(job, stage):
    note_stage(stage, 1)
    (record,) = (job.path / layout.STAGES_DIR).iterdir()
    record.write_bytes(record.read_bytes()[:-3])
    (record.parent / "notes.txt").write_text("mine")
    (record.parent / ("0" * 16 + ".json")).mkdir()
    assert stage_records(job) == []


def test_copies_come_newest_first_and_the_nearer_one_before_the_other(job, stage):
    for step in (10, 20):
        save(stage, step)
    promote(stage, 20)
    claim_attempt(job, "next")
    write(CheckpointWriter(job, 5, 2)).commit(1)
    copies = list_copies(job, [stage])
    assert [(c.listed.name, c.stage) for c in copies] == [
        (name(5, 2), ""),
        (name(20), str(stage.path)),
        (name(20), ""),
        (name(10), str(stage.path)),
    ]
    assert all(open_checkpoint(c.job, c.listed.name).verify() == [] for c in copies)


def test_a_damaged_copy_leaves_the_other_one_usable(job, stage):
    save(stage, 10)
    promote(stage, 10)
    os.truncate(stage.staged.checkpoints / name(10) / layout.data_file(0), 10)
    staged, own = list_copies(job, [stage])
    assert open_checkpoint(staged.job, staged.listed.name).verify() != []
    set_mark(staged.job, staged.listed.name, layout.REJECTED_FILE, "damaged")
    staged, own = list_copies(job, [stage])
    assert (bool(staged.listed.rejected), bool(own.listed.rejected)) == (True, False)
    assert open_checkpoint(own.job, own.listed.name).verify() == []


def test_names_of_temporary_files_of_a_promotion_are_swept(job, stage):
    save(stage, 10)
    promote(stage, 10)
    directory = job.checkpoints / name(10)
    (directory / layout.MANIFEST_FILE).unlink()
    for file in ("manifest.json", "rank-00000.safetensors", "rank-00000.json"):
        (directory / f"{file}.0123456789abcdef.part").write_text("half")
    claim_attempt(job, "next")
    assert sweep_incomplete(job, 2) == [name(10)]
    assert not directory.exists()
