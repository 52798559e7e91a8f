"""Deleting: after something newer has been read back whole, manifest first, and only what is ours."""

import os

import pytest

from lastgood.core import layout
from lastgood.core.errors import FencedError
from lastgood.core.retention import Keep
from lastgood.store import durable
from lastgood.store.attempts import claim_attempt
from lastgood.store.catalogue import set_mark
from lastgood.store.reader import Checkpoint
from lastgood.store.sweep import Retention, delete_checkpoint, sweep_incomplete
from lastgood.store.writer import CheckpointWriter


def name(step, attempt=1):
    return layout.checkpoint_name(step, attempt)


def steps(job):
    return sorted(int(n[:12]) for n in os.listdir(job.checkpoints))


def test_planning_touches_nothing(job, save_step):
    for step in (1, 2, 3):
        save_step(step)
    plan = Retention(job, Keep(last=1)).plan()
    assert [(v.name, v.is_kept) for v in plan] == [(name(3), True), (name(2), False), (name(1), False)]
    assert steps(job) == [1, 2, 3]


def test_applying_deletes_and_says_which(job, save_step):
    for step in (1, 2, 3):
        save_step(step)
    assert [v.name for v in Retention(job, Keep(last=2)).apply()] == [name(1)]
    assert steps(job) == [2, 3]


def test_nothing_is_deleted_on_the_strength_of_a_damaged_one(job, save_step):
    for step in (1, 2, 3):
        save_step(step)
    for step in (2, 3):
        os.truncate(job.checkpoints / name(step) / layout.data_file(0), 10)
    assert Retention(job, Keep(last=1)).apply() == []
    assert steps(job) == [1, 2, 3]
    assert sorted(p.parent.name for p in job.checkpoints.glob("*/rejected.json")) == [name(2), name(3)]


def test_each_is_read_back_only_once(job, save_step, monkeypatch):
    reads = []
    real = Checkpoint.verify
    monkeypatch.setattr(Checkpoint, "verify", lambda self, *known: (reads.append(self.name), real(self, *known))[1])
    retention = Retention(job, Keep(last=1))
    for step in (1, 2, 3):
        save_step(step)
        retention.apply()
        retention.apply()
    assert reads == [name(2), name(3)]


def test_an_older_attempt_deletes_nothing(job, save_step):
    for step in (1, 2):
        save_step(step)
    retention = Retention(job, Keep(last=1), attempt=1)
    claim_attempt(job, "other")
    with pytest.raises(FencedError):
        retention.apply()
    assert steps(job) == [1, 2]


def test_the_manifest_goes_first(job, save_step, monkeypatch):
    save_step(1)
    gone = []
    real = durable.delete_file
    monkeypatch.setattr(durable, "delete_file", lambda path: (gone.append(path.name), real(path))[1])
    delete_checkpoint(job, name(1))
    assert gone[0] == layout.MANIFEST_FILE
    assert sorted(gone[1:]) == ["rank-00000.json", "rank-00000.safetensors"]
    delete_checkpoint(job, name(1))


def test_what_is_not_ours_stays(job, save_step):
    save_step(1)
    (job.checkpoints / name(1) / "notes.txt").write_text("mine")
    (job.checkpoints / name(1) / "deep").mkdir()
    delete_checkpoint(job, name(1))
    assert sorted(os.listdir(job.checkpoints / name(1))) == ["deep", "notes.txt"]


def test_nothing_is_deleted_through_a_link(job, save_step, tmp_path):
    save_step(1)
    save_step(2)
    (job.checkpoints / name(1)).rename(tmp_path / "away")
    (job.checkpoints / name(1)).symlink_to(tmp_path / "away")
    Retention(job, Keep(last=1)).apply()
    with pytest.raises(OSError, match="link"):
        delete_checkpoint(job, name(1))
    (tmp_path / "away" / layout.MANIFEST_FILE).unlink()
    assert sweep_incomplete(job, 9) == []
    assert sorted(os.listdir(tmp_path / "away")) == ["rank-00000.json", "rank-00000.safetensors"]


def test_pinned_ones_stay(job, save_step):
    for step in (1, 2, 3):
        save_step(step)
    set_mark(job, name(1), layout.PINNED_FILE, "x")
    Retention(job, Keep(last=1)).apply()
    assert steps(job) == [1, 3]


def test_one_that_is_pinned_while_the_newest_is_read_back_stays(job, save_step, monkeypatch):
    for step in (1, 2, 3):
        save_step(step)
    real = Checkpoint.verify

    def meanwhile(self, *known):
        set_mark(job, name(1), layout.PINNED_FILE, "the paper's")
        return real(self, *known)

    monkeypatch.setattr(Checkpoint, "verify", meanwhile)
    assert [v.name for v in Retention(job, Keep(last=1)).apply()] == [name(2)]
    assert steps(job) == [1, 3]


def test_what_a_new_start_set_aside_the_job_deletes_no_more_and_it_takes_nobodys_place(job, save_step):
    save_step(5, metrics={"accuracy": 0.9})
    save_step(6, metrics={"accuracy": 0.8})
    claim_attempt(job, "anew", fresh=True)
    for step in (1, 2, 3):
        save_step(step, attempt=2, metrics={"accuracy": 0.1 * step if step < 3 else 0.0})
    keep = Keep(last=1, best=1, metric="accuracy")
    assert [v.name for v in Retention(job, keep, attempt=2).apply()] == [name(1, 2)]
    assert steps(job) == [2, 3, 5, 6]


def test_who_prunes_applies_the_same_to_what_was_set_aside_by_itself(job, save_step):
    save_step(5, metrics={"accuracy": 0.9})
    save_step(6, metrics={"accuracy": 0.8})
    save_step(7, metrics={"accuracy": 0.7})
    claim_attempt(job, "anew", fresh=True)
    save_step(1, attempt=2, metrics={"accuracy": 0.1})
    save_step(2, attempt=2)
    keep = Keep(last=1, best=1, metric="accuracy")
    assert [v.name for v in Retention(job, keep).apply()] == [name(6)]
    assert steps(job) == [1, 2, 5, 7]


def test_what_killed_attempts_left_is_swept_and_nothing_else(job, save_step):
    save_step(1)
    CheckpointWriter(job, 2, 1).write_part(0, [], {})
    claim_attempt(job, "other")
    CheckpointWriter(job, 3, 2).write_part(0, [], {})
    (job.checkpoints / "foreign").mkdir()
    assert sweep_incomplete(job, before_attempt=2) == [name(2)]
    assert sorted(os.listdir(job.checkpoints)) == sorted([name(1), name(3, 2), "foreign"])


def test_a_writer_frozen_before_its_commit_can_only_fail_after_the_sweep(job):
    writer = CheckpointWriter(job, 2, 1)
    writer.write_part(0, [], {})

    def frozen_while_others_go_on():
        claim_attempt(job, "other")
        sweep_incomplete(job, before_attempt=2)

    with pytest.raises(FencedError):
        writer.commit(1, before_commit=frozen_while_others_go_on)
    assert os.listdir(job.checkpoints) == []


def test_left_over_claims_are_swept(job):
    (job.attempts / "0001.json.0123456789abcdef.part").write_text("")
    (job.attempts / "0009.json.0123456789abcdef.part").write_text("")
    (job.path / "job.json.0123456789abcdef.part").write_text("")
    (job.path / "notes.part").write_text("")
    sweep_incomplete(job, 1)
    assert sorted(os.listdir(job.attempts)) == ["0001.json", "0009.json.0123456789abcdef.part"]
    assert "notes.part" in os.listdir(job.path)
    assert "job.json.0123456789abcdef.part" not in os.listdir(job.path)
