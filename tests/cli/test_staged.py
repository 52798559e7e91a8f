"""What is on this node only is named by the commands that people look with."""

import os

import pytest

from lastgood.core import layout
from lastgood.launch.library import LibraryProgram
from lastgood.store.promotion import Promoter
from lastgood.store.staging import note_stage, open_stage


def name(step):
    return layout.checkpoint_name(step, 1)


@pytest.fixture
def stage(job, tmp_path):
    stage = open_stage(job, tmp_path / "scratch")
    note_stage(stage, 1)
    return stage


def promote(stage, step):
    Promoter(stage, lambda: 1).promote(name(step))


def test_ls_lists_what_is_staged_only_and_says_where(lastgood, job, save_step, stage):
    save_step(10, into=stage.staged)
    promote(stage, 10)
    save_step(20, into=stage.staged)
    # Long paths are wrapped.
    assert f"lastgood;onthisnodeonly,in{stage.path}" in "".join(lastgood("ls", job.path).out.split())
    listed = lastgood("ls", job.path, "--json").answer("ls").checkpoints
    assert [(c.step, c.stage, c.is_last_good) for c in listed] == [(20, str(stage.path), True), (10, "", False)]
    promote(stage, 20)
    listed = lastgood("ls", job.path, "--json").answer("ls").checkpoints
    assert [(c.step, c.stage, c.is_last_good) for c in listed] == [(20, "", True), (10, "", False)]


def test_a_good_staged_copy_is_listed_beside_a_damaged_one(lastgood, job, save_step, stage):
    save_step(10, into=stage.staged)
    promote(stage, 10)
    os.truncate(job.checkpoints / name(10) / layout.MANIFEST_FILE, 100)
    listed = lastgood("ls", job.path, "--json").answer("ls").checkpoints
    assert [(c.step, c.state, bool(c.stage)) for c in listed] == [(10, "damaged", False), (10, "good", True)]


def test_status_names_what_was_never_promoted(lastgood, job, save_step, stage):
    save_step(10, into=stage.staged)
    promote(stage, 10)
    save_step(20, into=stage.staged)
    answer = lastgood("status", job.path, "--json").answer("status")
    assert [(s.step, s.stage) for s in answer.staged] == [(20, str(stage.path))]
    assert answer.last_good.step == 20
    assert "step 20 is on this node only" in lastgood("status", job.path).out
    promote(stage, 20)
    assert lastgood("status", job.path, "--json").answer("status").staged == []


def test_without_stages_nothing_is_said_of_them(lastgood, job, save_step):
    save_step(10)
    assert "node" not in lastgood("ls", job.path).out
    assert "staged" not in lastgood("status", job.path).out


def test_a_stage_that_cannot_be_read_does_not_hide_the_rest(lastgood, job, save_step, stage, fail_to_read):
    save_step(10, into=stage.staged)
    promote(stage, 10)
    fail_to_read(str(stage.path))
    assert [c.step for c in lastgood("ls", job.path, "--json").answer("ls").checkpoints] == [10]
    assert lastgood("status", job.path, "--json").answer("status").last_good.step == 10


def test_the_launcher_counts_a_staged_checkpoint_as_progress(job, save_step, stage):
    save_step(10)
    before = LibraryProgram(job).last_good()
    save_step(20, into=stage.staged)
    after = LibraryProgram(job).last_good()
    assert (before.step, after.step) == (10, 20)
    assert after.is_newer_than(before)
