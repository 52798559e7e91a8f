"""Reading: every byte that is handed out has passed its checksum; damage is placed and not passed on."""

import os
import shutil

import pytest

from lastgood.core import layout
from lastgood.core.errors import DamagedError, FormatVersionError, NoSuchJobError
from lastgood.core.tensorfile import ArraySpec
from lastgood.store import writer as writer_module
from lastgood.store.jobdir import create_job
from lastgood.store.rank_state import rank_state
from lastgood.store.reader import open_checkpoint
from lastgood.store.writer import CheckpointWriter

NAME = layout.checkpoint_name(5, 1)
CONTENT = {f"array-{i}": bytes([i]) * 4096 for i in range(6)}


@pytest.fixture
def checkpoint(job, monkeypatch):
    """Six arrays of a block each, and a header of one block."""
    monkeypatch.setattr(writer_module, "BLOCK_BYTES", 4096)
    writer = CheckpointWriter(job, 5, 1)
    arrays = [(ArraySpec(name, "U8", (4096,)), memoryview(data)) for name, data in CONTENT.items()]
    writer.write_part(0, arrays, {"state": {name: {"$array": name, "kind": "numpy"} for name in CONTENT}})
    writer.commit(1)
    return job.checkpoints / NAME


def data_file(checkpoint):
    return checkpoint / layout.data_file(0)


def flip(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 0x10
    path.write_bytes(content)


def test_what_was_written_is_read(job, checkpoint):
    opened = open_checkpoint(job, NAME)
    assert {name: bytes(data) for name, data in opened.read(0, CONTENT).items()} == CONTENT
    assert opened.verify() == []


def test_damage_costs_only_the_arrays_that_it_touches(job, checkpoint):
    flip(data_file(checkpoint), 4096 * 3 + 17)
    opened = open_checkpoint(job, NAME)
    assert bytes(opened.read(0, ["array-0"])["array-0"]) == CONTENT["array-0"]
    with pytest.raises(DamagedError, match=r"bytes 12288 to 16384 \(block 3\)"):
        opened.read(0, ["array-2"])
    with pytest.raises(DamagedError, match="block 3"):
        opened.read(0, list(CONTENT))
    assert len(opened.verify()) == 1


@pytest.mark.parametrize("size", [0, 1, 8, 4096, 4096 * 3, 4096 * 7 - 1, 4096 * 7 + 1])
def test_another_length_is_seen_before_anything_is_read(job, checkpoint, size):
    os.truncate(data_file(checkpoint), size)
    with pytest.raises(DamagedError, match=f"has {size} bytes"):
        open_checkpoint(job, NAME).read(0, ["array-0"])


def test_a_missing_file_and_one_that_is_no_file(job, checkpoint, tmp_path):
    data_file(checkpoint).rename(tmp_path / "away")
    with pytest.raises(DamagedError, match="is missing"):
        open_checkpoint(job, NAME).arrays(0)
    data_file(checkpoint).symlink_to(tmp_path / "away")
    with pytest.raises(DamagedError, match="link"):
        open_checkpoint(job, NAME).arrays(0)
    data_file(checkpoint).unlink()
    os.mkfifo(data_file(checkpoint))
    with pytest.raises(DamagedError, match="not a file"):
        open_checkpoint(job, NAME).arrays(0)


def test_a_part_of_another_checkpoint_is_not_taken(job, checkpoint, save_step):
    save_step(6)
    other = job.checkpoints / layout.checkpoint_name(6, 1)
    shutil.copy(other / layout.part_file(0), checkpoint / layout.part_file(0))
    with pytest.raises(DamagedError, match="not the file that the manifest vouches for"):
        open_checkpoint(job, NAME).part(0)


def test_data_of_another_rank_is_not_taken(job, save_step):
    save_step(6, world_size=2)
    directory = job.checkpoints / layout.checkpoint_name(6, 1)
    zero, one = (directory / layout.data_file(rank) for rank in (0, 1))
    zero.rename(directory / "x")
    one.rename(zero)
    (directory / "x").rename(one)
    assert len(open_checkpoint(job, directory.name).verify()) == 2


def test_a_checkpoint_of_another_job_is_not_taken(job, checkpoint, tmp_path):
    other = create_job(tmp_path / "other")
    shutil.copytree(checkpoint, other.checkpoints / NAME)
    with pytest.raises(DamagedError, match=f"belongs to job {job.id}"):
        open_checkpoint(other, NAME)


def test_a_renamed_checkpoint_is_not_taken(job, checkpoint):
    renamed = layout.checkpoint_name(6, 1)
    checkpoint.rename(job.checkpoints / renamed)
    with pytest.raises(DamagedError, match="copied from another checkpoint"):
        open_checkpoint(job, renamed)


@pytest.mark.parametrize("name", ["", "..", "latest", "000000000005-0001/../000000000005-0001"])
def test_only_names_of_checkpoints_are_opened(job, checkpoint, name):
    with pytest.raises(NoSuchJobError, match="not the name of a checkpoint"):
        open_checkpoint(job, name)


def test_without_a_manifest_it_was_never_committed(job, checkpoint):
    (checkpoint / layout.MANIFEST_FILE).unlink()
    with pytest.raises(NoSuchJobError, match="never committed"):
        open_checkpoint(job, NAME)


def test_a_newer_format_is_refused(job, save_step, monkeypatch):
    monkeypatch.setattr(layout, "FORMAT_VERSION", 3)
    save_step(7)
    monkeypatch.undo()
    with pytest.raises(FormatVersionError, match="format 3"):
        open_checkpoint(job, layout.checkpoint_name(7, 1))


def test_an_input_output_error_is_not_called_damage(job, checkpoint, monkeypatch):
    def fails(*_):
        raise OSError(5, "Input/output error")

    opened = open_checkpoint(job, NAME)
    opened.part(0)
    monkeypatch.setattr(os, "preadv", fails)
    with pytest.raises(OSError, match="Input/output"):
        opened.read(0, ["array-0"])
    with pytest.raises(OSError, match="Input/output"):
        opened.verify()


def test_a_very_damaged_file_is_not_listed_block_by_block(job, monkeypatch):
    monkeypatch.setattr(writer_module, "BLOCK_BYTES", 4096)
    writer = CheckpointWriter(job, 5, 1)
    writer.write_part(0, [(ArraySpec("a", "U8", (4096 * 100,)), memoryview(bytes(4096 * 100)))], {})
    writer.commit(1)
    path = job.checkpoints / NAME / layout.data_file(0)
    path.write_bytes(b"\xff" * path.stat().st_size)
    problems = open_checkpoint(job, NAME).verify()
    assert len(problems) == 21
    assert "not read any further" in problems[-1]


def test_what_was_read_stays_valid(job, checkpoint):
    data = open_checkpoint(job, NAME).read(0, ["array-5"])["array-5"]
    shutil.rmtree(checkpoint)
    assert bytes(data) == CONTENT["array-5"]


def test_reading_an_unknown_array_is_damage(job, checkpoint):
    with pytest.raises(DamagedError, match="lacks the array 'nothing'"):
        open_checkpoint(job, NAME).read(0, ["nothing"])


class TestStateOfARank:
    def test_arrays_are_found_where_they_are(self, job):
        writer = CheckpointWriter(job, 5, 1)
        own = {"$array": "own", "kind": "numpy"}
        common = {"$array": "common", "kind": "numpy"}
        one = memoryview(b"1")
        writer.write_part(0, [(ArraySpec("own", "U8", (1,)), one)], {"a": [own, common]})
        writer.write_part(
            1,
            [(ArraySpec("own", "U8", (1,)), one), (ArraySpec("common", "U8", (1,)), one)],
            {"a": [own, common]},
            ["common"],
        )
        writer.commit(2)
        checkpoint = open_checkpoint(job, NAME)
        found = [{n: (h.rank, h.is_shared) for n, h in rank_state(checkpoint, r).arrays.items()} for r in (0, 1)]
        assert found == [{"own": (0, False), "common": (1, True)}, {"own": (1, False), "common": (1, True)}]

    def test_an_array_that_is_in_no_file_is_damage(self, job):
        writer = CheckpointWriter(job, 5, 1)
        writer.write_part(0, [], {"a": {"$array": "gone", "kind": "numpy"}})
        writer.commit(1)
        with pytest.raises(DamagedError, match="'gone' of rank 0 is in no file"):
            rank_state(open_checkpoint(job, NAME), 0)

    def test_only_the_entries_that_are_wanted(self, job, save_step):
        save_step(5)
        checkpoint = open_checkpoint(job, NAME)
        assert rank_state(checkpoint, 0, ["optimizer"]).arrays == {}
        with pytest.raises(NoSuchJobError, match="it has: model, optimizer"):
            rank_state(checkpoint, 0, ["nothing"])
        with pytest.raises(NoSuchJobError, match="no rank -1"):
            rank_state(checkpoint, -1)

    def test_a_skeleton_that_nobody_wrote_is_damage(self, job):
        writer = CheckpointWriter(job, 5, 1)
        writer.write_part(0, [], {"a": {"$tuple": 5}})
        writer.commit(1)
        with pytest.raises(DamagedError, match="entry 'a'"):
            rank_state(open_checkpoint(job, NAME), 0)
