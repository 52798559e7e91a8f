"""`lastgood prune` deletes what need not be kept, and never the last good one."""

import os

import pytest

from lastgood.core import layout
from lastgood.store.catalogue import set_mark
from lastgood.store.lock import lock_job
from lastgood.store.writer import CheckpointWriter


def steps(job):
    return sorted(int(name[:12]) for name in os.listdir(job.checkpoints))


def test_keeps_the_newest_by_number(lastgood, job, save_step):
    for step in (8, 9, 10, 11):
        save_step(step)
    said = lastgood("prune", job.path, "--keep-last", 2)
    assert said.code == 0
    assert steps(job) == [10, 11]
    rows = [line.split(maxsplit=2) for line in said.out.splitlines()[1:-1]]
    assert [(int(name[:12]), verdict) for name, verdict, _ in rows] == [
        (11, "kept"),
        (10, "kept"),
        (9, "deleted"),
        (8, "deleted"),
    ]
    assert said.out.splitlines()[-1].startswith("2 of 4 deleted, ")


def test_a_dry_run_tells_the_same_and_touches_nothing(lastgood, job, save_step):
    for step in (1, 2, 3):
        save_step(step)
    CheckpointWriter(job, 4, 1).write_part(0, [], {})
    before = sorted(str(p) for p in job.path.rglob("*"))
    dry = lastgood("prune", job.path, "--keep-last", 1, "--dry-run", "--json").answer("prune")
    assert sorted(str(p) for p in job.path.rglob("*")) == before
    real = lastgood("prune", job.path, "--keep-last", 1, "--json").answer("prune")
    assert (dry.checkpoints, dry.incomplete, dry.freed_bytes) == (real.checkpoints, real.incomplete, real.freed_bytes)
    assert (dry.is_dry_run, real.is_dry_run) == (True, False)
    assert real.incomplete == [layout.checkpoint_name(4, 1)]
    assert steps(job) == [3]


def test_best_and_every_and_pinned_are_kept(lastgood, job, save_step):
    for step, loss in ((10, 0.5), (15, 0.1), (20, 0.7), (25, 0.6), (30, 0.9)):
        save_step(step, metrics={"loss": loss})
    set_mark(job, layout.checkpoint_name(25, 1), layout.PINNED_FILE, "kept")
    options = ["--keep-last", 1, "--keep-best", 1, "--metric", "loss", "--mode", "min", "--keep-every", 10]
    answer = lastgood("prune", job.path, *options, "--json").answer("prune")
    assert [(int(c.name[:12]), c.is_kept) for c in answer.checkpoints] == [
        (30, True),
        (25, True),
        (20, True),
        (15, True),
        (10, True),
    ]
    assert "best 1 by loss" in answer.checkpoints[3].reason
    answer = lastgood("prune", job.path, "--keep-last", 1, "--json").answer("prune")
    assert steps(job) == [25, 30]


def test_a_damaged_newest_is_found_and_not_relied_on(lastgood, job, save_step):
    for step in (1, 2, 3):
        save_step(step)
    os.truncate(job.checkpoints / layout.checkpoint_name(3, 1) / layout.data_file(0), 50)
    answer = lastgood("prune", job.path, "--keep-last", 1, "--json").answer("prune")
    assert steps(job) == [2, 3]
    assert [c.reason for c in answer.checkpoints if c.is_kept] == ["failed to restore", "last good"]


def test_refuses_while_the_job_is_being_run(lastgood, job, save_step):
    for step in (1, 2):
        save_step(step)
    with lock_job(job):
        said = lastgood("prune", job.path, "--keep-last", 1)
        assert said.code == 86
        assert "what to do" in said.err
        assert steps(job) == [1, 2]
        assert lastgood("prune", job.path, "--keep-last", 1, "--dry-run").code == 0
    assert lastgood("prune", job.path, "--keep-last", 1).code == 0


def test_without_locks_the_newest_attempt_keeps_what_it_may_be_writing(lastgood, job, save_step, monkeypatch):
    import errno
    import fcntl

    from lastgood.store.attempts import claim_attempt

    save_step(1)
    claim_attempt(job, "launch-2")
    CheckpointWriter(job, 2, 1).write_part(0, [], {})
    CheckpointWriter(job, 3, 2).write_part(0, [], {})

    def no_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    answer = lastgood("prune", job.path, "--keep-last", 1, "--json").answer("prune")
    assert answer.incomplete == [layout.checkpoint_name(2, 1)]
    assert steps(job) == [1, 3]


def test_files_of_others_stay(lastgood, job, save_step):
    save_step(1)
    save_step(2)
    note = job.checkpoints / layout.checkpoint_name(1, 1) / "notes.txt"
    note.write_text("mine")
    assert lastgood("prune", job.path, "--keep-last", 1).code == 0
    assert note.read_text() == "mine"


def test_a_metric_that_nobody_logged_is_refused(lastgood, job, save_step):
    save_step(1, metrics={"accuracy": 1})
    save_step(2)
    said = lastgood("prune", job.path, "--keep-last", 1, "--keep-best", 1, "--metric", "acuracy")
    assert said.code == 2
    assert "these were: accuracy" in said.err
    assert steps(job) == [1, 2]


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--keep-last", "0"],
        ["--keep-last", "x"],
        ["--keep-last", "1", "--keep-best", "1"],
        ["--keep-last", "1", "--metric", "a"],
    ],
)
def test_wrong_options_touch_nothing(lastgood, job, save_step, options):
    save_step(1)
    save_step(2)
    assert lastgood("prune", job.path, *options).code == 2
    assert steps(job) == [1, 2]


def test_nothing_is_deleted_while_a_manifest_cannot_be_read(lastgood, job, save_step, fail_to_read):
    for step in (1, 2, 3):
        save_step(step)
    fail_to_read(layout.checkpoint_name(3, 1))
    said = lastgood("prune", job.path, "--keep-last", 1)
    assert said.code == 74
    assert "nothing was deleted" in said.err
    assert steps(job) == [1, 2, 3]


def test_an_empty_job(lastgood, job):
    said = lastgood("prune", job.path, "--keep-last", 1)
    assert (said.code, said.out) == (0, f"no checkpoints in {job.path}\n")


@pytest.mark.parametrize("options", [["--keep-best", "1"], ["--metric", "loss"]])
def test_best_and_metric_go_together(lastgood, job, save_step, options):
    save_step(1, metrics={"loss": 0.5})
    said = lastgood("prune", job.path, "--keep-last", "1", *options)
    assert said.code == 2
    assert "--keep-best needs --metric NAME, and the other way round" in said.err
