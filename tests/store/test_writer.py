"""Writing: parts first, the manifest last; an older attempt commits nothing; nothing is overwritten."""

import os
import struct

import pytest

from lastgood.core import layout
from lastgood.core.errors import FencedError, StorageError
from lastgood.core.tensorfile import ArraySpec
from lastgood.store import writer as writer_module
from lastgood.store.attempts import claim_attempt
from lastgood.store.reader import open_checkpoint
from lastgood.store.writer import CheckpointWriter

SPEC = ArraySpec("w", "F32", (3,))
BYTES = memoryview(struct.pack("<3f", 1, 2, 3))


def test_there_is_no_checkpoint_before_the_commit(job):
    writer = CheckpointWriter(job, 5, 1)
    writer.write_part(0, [(SPEC, BYTES)], {"a": 1})
    assert sorted(os.listdir(writer.directory)) == ["rank-00000.json", "rank-00000.safetensors"]
    writer.commit(1)
    assert sorted(os.listdir(writer.directory)) == ["manifest.json", "rank-00000.json", "rank-00000.safetensors"]
    assert open_checkpoint(job, writer.name).verify() == []


def test_the_manifest_has_what_was_given(job):
    writer = CheckpointWriter(job, 5, 1)
    writer.write_part(0, [], {})
    writer.commit(1, metrics={"m": 1.0}, config={"lr": [1, {"a": None}]}, fingerprint={"numpy": "2"}, began=0.0)
    manifest = open_checkpoint(job, writer.name).manifest
    assert (manifest.step, manifest.attempt, manifest.job, manifest.world_size) == (5, 1, job.id, 1)
    assert (manifest.metrics, manifest.config, manifest.fingerprint) == (
        {"m": 1.0},
        {"lr": [1, {"a": None}]},
        {"numpy": "2"},
    )
    assert manifest.write_s > 0
    assert manifest.bytes == sum(f.stat().st_size for f in writer.directory.glob("rank-*"))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_metric_that_is_no_number_does_not_spoil_the_manifest(job, value):
    writer = CheckpointWriter(job, 5, 1)
    writer.write_part(0, [], {})
    writer.commit(1, metrics={"loss": value, "accuracy": 0.5})
    assert open_checkpoint(job, writer.name).manifest.metrics == {"accuracy": 0.5}


def test_all_ranks_must_have_written(job):
    writer = CheckpointWriter(job, 5, 1)
    writer.write_part(0, [], {})
    with pytest.raises(StorageError, match="the part of rank 1 is not there"):
        writer.commit(2)
    assert not (writer.directory / layout.MANIFEST_FILE).exists()
    CheckpointWriter(job, 5, 1).write_part(1, [], {})
    writer.commit(2)
    assert open_checkpoint(job, writer.name).verify() == []


def test_an_older_attempt_commits_nothing(job):
    writer = CheckpointWriter(job, 5, 1)
    writer.write_part(0, [(SPEC, BYTES)], {})
    claim_attempt(job, "other")
    with pytest.raises(FencedError, match="attempt 2"):
        writer.commit(1)
    assert sorted(os.listdir(writer.directory)) == ["rank-00000.json", "rank-00000.safetensors"]


def test_a_claim_at_the_last_moment_is_seen(job):
    writer = CheckpointWriter(job, 5, 1)
    writer.write_part(0, [], {})
    with pytest.raises(FencedError):
        writer.commit(1, before_commit=lambda: claim_attempt(job, "other"))
    assert not list(writer.directory.glob("manifest*"))


def test_a_committed_one_is_never_written_over(job, save_step):
    save_step(5)
    before = {f: f.read_bytes() for f in job.checkpoints.rglob("*.*")}
    with pytest.raises(StorageError, match="never overwritten"):
        CheckpointWriter(job, 5, 1).write_part(0, [], {})
    assert {f: f.read_bytes() for f in job.checkpoints.rglob("*.*")} == before


def test_two_attempts_never_write_to_one_path(job, save_step):
    save_step(5)
    claim_attempt(job, "other")
    save_step(5, attempt=2)
    assert sorted(os.listdir(job.checkpoints)) == [layout.checkpoint_name(5, 1), layout.checkpoint_name(5, 2)]


def test_what_a_failed_save_wrote_is_given_back(job):
    writer = CheckpointWriter(job, 5, 1)
    writer.write_part(0, [(SPEC, BYTES)], {})
    writer.abandon(0)
    assert os.listdir(job.checkpoints) == []


def test_nothing_is_taken_from_under_a_manifest(job, save_step):
    save_step(5)
    CheckpointWriter(job, 5, 1).abandon(0)
    assert open_checkpoint(job, layout.checkpoint_name(5, 1)).verify() == []


def test_a_part_that_may_be_committed_elsewhere_by_now_is_left_there(job):
    writer = CheckpointWriter(job, 5, 1)
    writer.write_part(1, [(SPEC, BYTES)], {})
    writer.abandon(1, by_committer=False)
    assert sorted(os.listdir(writer.directory)) == ["rank-00001.json", "rank-00001.safetensors"]
    (writer.directory / "rank-00001.json").unlink()
    writer.abandon(1, by_committer=False)
    assert os.listdir(job.checkpoints) == []


@pytest.mark.parametrize("file", ["rank-00001.json", "rank-00001.safetensors"])
def test_what_has_lost_a_file_since_it_was_looked_at_is_not_committed(job, file):
    writer = CheckpointWriter(job, 5, 1)
    for rank in range(2):
        writer.write_part(rank, [(SPEC, BYTES)], {})
    with pytest.raises(StorageError, match=f"{file}.* is not there"):
        writer.commit(2, before_commit=(writer.directory / file).unlink)
    assert not list(writer.directory.glob("manifest*"))


def test_many_blocks(job, monkeypatch):
    monkeypatch.setattr(writer_module, "BLOCK_BYTES", 4096)
    values = memoryview(os.urandom(10_000))
    writer = CheckpointWriter(job, 5, 1)
    writer.write_part(0, [(ArraySpec("a", "U8", (10_000,)), values), (ArraySpec("b", "U8", (0,)), memoryview(b""))], {})
    writer.commit(1)
    checkpoint = open_checkpoint(job, writer.name)
    assert len(checkpoint.part(0).data.xxh3) == 16 * 4
    found = checkpoint.read(0, ["a", "b"])
    assert (bytes(found["a"]), bytes(found["b"])) == (bytes(values), b"")
