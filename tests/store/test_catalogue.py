"""The catalogue: the directory is the truth; what has been decided about a checkpoint lies beside it."""

import os

import pytest

from lastgood.core import layout
from lastgood.core.errors import DamagedError
from lastgood.store.attempts import claim_attempt
from lastgood.store.catalogue import clear_mark, known, list_checkpoints, newest_fresh_attempt, set_mark
from lastgood.store.reader import open_checkpoint


def name(step, attempt=1):
    return layout.checkpoint_name(step, attempt)


def test_newest_first_by_attempt_then_step_as_numbers(job, save_step):
    for attempt in range(2, 12):
        claim_attempt(job, "x")
        save_step(attempt, attempt=attempt)
    (job.checkpoints / name(500, 2)).mkdir()
    assert [(c.attempt, c.step) for c in list_checkpoints(job)] == [
        *((a, a) for a in range(11, 2, -1)),
        (2, 500),
        (2, 2),
    ]


def test_only_a_manifest_makes_it_committed(job, save_step):
    save_step(1)
    (job.checkpoints / name(2)).mkdir()
    (job.checkpoints / name(2) / "manifest.json.part").write_text("{}")
    assert [(c.step, c.is_committed) for c in list_checkpoints(job)] == [(2, False), (1, True)]


def test_what_is_not_ours_is_not_listed(job, save_step):
    save_step(1)
    for other in ("1", "latest", "000000000002-0001.bak", "step_3"):
        (job.checkpoints / other).mkdir()
    (job.checkpoints / name(9)).write_text("a file")
    assert [c.step for c in list_checkpoints(job)] == [1]


def test_an_unreadable_directory_is_never_an_empty_one(job):
    job.checkpoints.rmdir()
    with pytest.raises(OSError):
        list_checkpoints(job)


def test_marks_are_set_seen_and_cleared(job, save_step):
    save_step(1)
    set_mark(job, name(1), layout.REJECTED_FILE, "block 3", 2)
    set_mark(job, name(1), layout.PINNED_FILE, "")
    (listed,) = list_checkpoints(job)
    assert (listed.rejected, listed.pinned) == ("block 3", "no reason given")
    clear_mark(job, name(1), layout.REJECTED_FILE)
    clear_mark(job, name(1), layout.REJECTED_FILE)
    (listed,) = list_checkpoints(job)
    assert (listed.rejected, listed.pinned) == ("", "no reason given")


def test_a_damaged_mark_still_marks(job, save_step):
    save_step(1)
    (job.checkpoints / name(1) / layout.PINNED_FILE).write_bytes(b"\0")
    assert "damaged" in list_checkpoints(job)[0].pinned


def test_a_fresh_start_sets_aside_what_was_before(job, save_step):
    save_step(1)
    assert newest_fresh_attempt(job) == 0
    claim_attempt(job, "x", fresh=True)
    claim_attempt(job, "x")
    save_step(2, attempt=3)
    assert newest_fresh_attempt(job) == 2
    assert [(c.step, c.is_set_aside) for c in list_checkpoints(job)] == [(2, False), (1, True)]


def test_a_damaged_attempt_file_hides_no_other(job):
    claim_attempt(job, "x", fresh=True)
    claim_attempt(job, "x")
    (job.attempts / layout.attempt_file(3)).write_bytes(b"garbage")
    assert newest_fresh_attempt(job) == 2


def test_a_link_is_told(job, save_step, tmp_path):
    save_step(1)
    (job.checkpoints / name(1)).rename(tmp_path / "away")
    (job.checkpoints / name(1)).symlink_to(tmp_path / "away")
    (listed,) = list_checkpoints(job)
    assert listed.is_link
    with pytest.raises(DamagedError, match="link"):
        open_checkpoint(job, name(1))
    with pytest.raises(OSError, match="link"):
        set_mark(job, name(1), layout.PINNED_FILE, "x")
    assert not (tmp_path / "away" / layout.PINNED_FILE).exists()


def test_what_retention_knows(job, save_step, monkeypatch):
    save_step(1, metrics={"loss": 0.5})
    save_step(2)
    manifest = job.checkpoints / name(2) / layout.MANIFEST_FILE
    manifest.write_bytes(b"garbage")
    damaged, good = (known(job, c) for c in list_checkpoints(job))
    assert (good.metrics, good.is_rejected) == ({"loss": 0.5}, False)
    assert damaged.is_rejected

    def fails(*_):
        raise OSError(5, "Input/output error")

    listed = list_checkpoints(job)
    monkeypatch.setattr(os, "read", fails)
    assert [known(job, c) for c in listed] == [None, None]
