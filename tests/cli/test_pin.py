"""`lastgood pin` protects a checkpoint from retention until it is released."""

import pytest

from lastgood.core import layout
from lastgood.core.retention import Keep
from lastgood.store.sweep import Retention


def test_pinned_survives_retention_and_released_does_not(lastgood, job, save_step):
    for step in (1, 2, 3):
        save_step(step)
    said = lastgood("pin", job.path, 1, "--reason", "for the paper")
    assert (said.code, said.out) == (0, f"{layout.checkpoint_name(1, 1)} is pinned: for the paper\n")
    assert [v.name for v in Retention(job, Keep(last=1)).apply()] == [layout.checkpoint_name(2, 1)]
    answer = lastgood("pin", job.path, "1-1", "--release", "--json").answer("pin")
    assert (answer.is_pinned, answer.was_pinned, answer.reason) == (False, True, "")
    assert [v.name for v in Retention(job, Keep(last=1)).apply()] == [layout.checkpoint_name(1, 1)]


def test_pinning_again_changes_the_reason(lastgood, job, save_step):
    save_step(1)
    assert lastgood("pin", job.path, "last", "--json").answer("pin").reason == "no reason given"
    answer = lastgood("pin", job.path, "last", "--reason", "better", "--json").answer("pin")
    assert (answer.was_pinned, answer.reason) == (True, "better")


def test_releasing_what_is_not_pinned_says_so(lastgood, job, save_step):
    save_step(1)
    said = lastgood("pin", job.path, 1, "--release")
    assert said.code == 0
    assert "was not pinned" in said.out


@pytest.mark.parametrize("arguments", [["9"], ["nothing"]])
def test_one_that_is_not_there(lastgood, job, save_step, arguments):
    save_step(1)
    assert lastgood("pin", job.path, *arguments).code == 66


def test_contradicting_options(lastgood, job, save_step):
    save_step(1)
    assert lastgood("pin", job.path, 1, "--release", "--reason", "x").code == 2


def test_an_incomplete_one_cannot_be_pinned(lastgood, job):
    (job.checkpoints / layout.checkpoint_name(4, 1)).mkdir()
    said = lastgood("pin", job.path, 4)
    assert said.code == 66
    assert "never committed" in said.err


def test_a_damaged_one_can_be_pinned_with_a_warning(lastgood, job, save_step):
    save_step(4)
    manifest = job.checkpoints / layout.checkpoint_name(4, 1) / layout.MANIFEST_FILE
    manifest.write_bytes(b"{}")
    said = lastgood("pin", job.path, 4)
    assert said.code == 0
    assert "not good" in said.err


def test_nothing_is_written_or_deleted_through_a_link(lastgood, job, save_step, tmp_path):
    save_step(1)
    elsewhere = tmp_path / "elsewhere"
    (job.checkpoints / layout.checkpoint_name(1, 1)).rename(elsewhere)
    (elsewhere / layout.PINNED_FILE).write_text("not ours")
    (job.checkpoints / layout.checkpoint_name(1, 1)).symlink_to(elsewhere)
    for option in ("--reason=x", "--release"):
        said = lastgood("pin", job.path, 1, option)
        assert said.code == 74
        assert "it is a link" in said.err
    assert (elsewhere / layout.PINNED_FILE).read_text() == "not ours"
