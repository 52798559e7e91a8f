"""Constants are deleted when no checkpoint can need them any more, and never before."""

import os
import struct
import threading
from contextlib import suppress

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lastgood.core import layout
from lastgood.core.errors import FencedError, LastgoodError
from lastgood.core.retention import Keep
from lastgood.core.tensorfile import ArraySpec
from lastgood.store import durable
from lastgood.store.attempts import claim_attempt
from lastgood.store.catalogue import list_checkpoints, set_mark
from lastgood.store.constants import ConstantsWriter
from lastgood.store.jobdir import create_job
from lastgood.store.reader import open_checkpoint
from lastgood.store.references import References
from lastgood.store.sweep import Retention, sweep_incomplete
from lastgood.store.writer import CheckpointWriter


def content(value):
    return [(ArraySpec("base", "I64", (4,)), memoryview(struct.pack("<4q", *[value] * 4)))]


ENTRIES = {"model": {"base": {"$array": "base", "kind": "numpy"}}}


def write(job, step, constants, attempt=1):
    writer = CheckpointWriter(job, step, attempt)
    writer.write_part(0, [], ENTRIES, constants=constants)
    return writer


def save(job, step, value, attempt=1, constants=None):
    constants = constants or ConstantsWriter(job, attempt)
    one = constants.put(content(value))
    write(job, step, [one], attempt).commit(1)
    return one.data.file


def files(job):
    return sorted(os.listdir(job.constants))


def steps(job):
    return sorted(c.step for c in list_checkpoints(job) if c.is_committed)


def test_retention_deletes_what_went_with_the_checkpoints_that_it_deleted(job):
    retention = Retention(job, Keep(last=1), attempt=1)
    old = save(job, 10, 1)
    retention.apply()
    new = save(job, 20, 2)
    assert files(job) == sorted([old, new])
    retention.apply()
    assert (steps(job), files(job)) == ([20], [new])


def test_what_is_in_use_stays_whatever_else_is_deleted(job):
    retention = Retention(job, Keep(last=1), attempt=1)
    kept = save(job, 10, 1)
    for step in (20, 30, 40):
        assert save(job, step, 1) == kept
        retention.apply()
    assert (steps(job), files(job)) == ([40], [kept])


@pytest.mark.parametrize("how", ["pinned", "rejected and pinned", "set aside by a new start"])
def test_checkpoints_of_every_kind_hold_what_they_refer_to(job, how):
    save(job, 10, 1)
    name = layout.checkpoint_name(10, 1)
    if "pinned" in how:
        set_mark(job, name, layout.PINNED_FILE, "x")
    if "rejected" in how:
        set_mark(job, name, layout.REJECTED_FILE, "x")
    attempt = claim_attempt(job, "next", fresh="set aside" in how).attempt
    retention = Retention(job, Keep(last=5) if "set aside" in how else Keep(last=1), attempt)
    for step in (20, 30):
        save(job, step, 2, attempt)
        retention.apply()
    assert 10 in steps(job)
    assert open_checkpoint(job, name).verify() == []


def test_what_a_dead_attempt_left_unused_goes_after_the_first_commit_of_the_next(job):
    unused = ConstantsWriter(job, 1).put(content(5)).data.file
    (job.constants / f"{unused}.0123456789abcdef.part").write_text("half")
    used = save(job, 10, 1)
    attempt = claim_attempt(job, "next").attempt
    sweep_incomplete(job, attempt)
    assert unused in files(job), "the new attempt might have gone on with it"
    own = save(job, 20, 1, attempt)
    Retention(job, Keep(last=5), attempt).apply()
    assert files(job) == sorted([used, own])


def test_nothing_goes_of_an_attempt_that_has_something_half_written(job):
    unused = ConstantsWriter(job, 1).put(content(5)).data.file
    write(job, 30, [], 1)
    attempt = claim_attempt(job, "next").attempt
    own = save(job, 40, 1, attempt)
    references = References(job, attempt)
    assert references.sweep() == []
    sweep_incomplete(job, attempt)
    assert references.sweep() == [unused]
    assert files(job) == [own]


@pytest.mark.parametrize("how", ["damaged", "of a newer format", "unreadable", "behind a link"])
def test_nothing_goes_of_an_attempt_of_which_some_manifest_cannot_be_read(job, tmp_path, monkeypatch, how):
    save(job, 10, 1)
    unused = ConstantsWriter(job, 1).put(content(5)).data.file
    directory = job.checkpoints / layout.checkpoint_name(10, 1)
    manifest = directory / layout.MANIFEST_FILE
    attempt = claim_attempt(job, "next").attempt
    save(job, 40, 1, attempt)
    if how == "damaged":
        manifest.write_bytes(manifest.read_bytes()[:-9])
    elif how == "of a newer format":
        monkeypatch.setattr(layout, "CONSTANTS_FORMAT", 1)
    elif how == "behind a link":
        directory.rename(tmp_path / "away")
        directory.symlink_to(tmp_path / "away")
    else:
        real = durable.read_file

        def fails(path, limit):
            if path == manifest:
                raise OSError(5, "Input/output error")
            return real(path, limit)

        monkeypatch.setattr(durable, "read_file", fails)
    assert References(job, attempt).sweep() == []
    assert unused in files(job)


def test_of_the_own_attempt_only_what_was_once_used_goes(job):
    """A rank elsewhere may just have written it, for a part that is not there yet."""
    references = References(job, 1)
    save(job, 10, 1)
    new = ConstantsWriter(job, 1).put(content(2))
    assert references.sweep() == []
    write(job, 20, [new]).commit(1)
    assert open_checkpoint(job, layout.checkpoint_name(20, 1)).verify() == []


def test_newer_attempts_files_are_not_touched(job):
    claim_attempt(job, "next")
    new = ConstantsWriter(job, 2).put(content(5)).data.file
    assert References(job, 1).sweep() == []
    assert files(job) == [new]


def test_an_older_attempt_deletes_nothing(job):
    retention = Retention(job, Keep(last=None), attempt=1)
    save(job, 10, 1)
    retention.apply()
    (job.checkpoints / layout.checkpoint_name(10, 1) / layout.MANIFEST_FILE).unlink()
    sweep_incomplete(job, 2)
    claim_attempt(job, "next")
    with pytest.raises(FencedError):
        retention.apply()
    assert len(files(job)) == 1


def test_what_others_put_there_stays(job):
    save(job, 10, 1)
    for name in ("notes.txt", "0" * 32 + ".safetensors", "x.part"):
        (job.constants / name).write_text("mine")
    claim_attempt(job, "next")
    References(job, 2).sweep()
    assert {"notes.txt", "0" * 32 + ".safetensors", "x.part"} < set(files(job))


def test_manifests_go_before_what_they_refer_to(job, monkeypatch):
    retention = Retention(job, Keep(last=1), attempt=1)
    save(job, 10, 1)
    retention.apply()
    save(job, 20, 2)
    gone = []
    real_delete, real_flush = durable.delete_file, durable.flush_directory
    monkeypatch.setattr(durable, "delete_file", lambda path: (gone.append(path.name), real_delete(path))[1])
    monkeypatch.setattr(durable, "flush_directory", lambda path: (gone.append(f"flush {path.name}"), real_flush(path)))
    retention.apply()
    file = next(name for name in gone if layout.parse_constants_file(name))
    manifest, flush = gone.index(layout.MANIFEST_FILE), gone.index(f"flush {layout.checkpoint_name(10, 1)}")
    assert manifest < flush < gone.index(file)


def test_a_sweep_waits_for_a_commit_that_has_looked(job):
    """Between the look and the rename nothing may go; one thread commits, another deletes."""
    references = References(job, 1)
    save(job, 10, 1)
    references.sweep()
    writer = write(job, 20, [ConstantsWriter(job, 1).put(content(1))])
    (job.checkpoints / layout.checkpoint_name(10, 1) / layout.MANIFEST_FILE).unlink()
    sweep_incomplete(job, 1)
    started, swept = threading.Event(), []

    def sweep():
        started.set()
        swept.append(references.sweep())

    thread = threading.Thread(target=sweep)
    real = durable.NewFile.publish

    def late(self):
        thread.start()
        started.wait(100)
        real(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durable.NewFile, "publish", late)
        writer.commit(1)
    thread.join(100)
    assert swept == [[]]
    assert open_checkpoint(job, writer.name).verify() == []


class Lives(RuleBasedStateMachine):
    """Attempts begin, save, die, retire and come back late, in any order. Whatever happens, every committed
    checkpoint is whole; and once the newest attempt has committed and swept, nothing unused is left of older ones."""

    @initialize()
    def begin(self):
        import tempfile

        self.home = tempfile.TemporaryDirectory()
        self.job = create_job(self.home.name + "/job")
        self.step = 0
        self.writers = {}
        self.retentions = {}
        self.pending = []
        """(attempt, writer) of saves whose part is written and that are not committed."""
        self.start()

    def teardown(self):
        if hasattr(self, "home"):
            self.home.cleanup()

    @rule()
    def start(self):
        """A new attempt; the ones before it are not told."""
        self.attempt = claim_attempt(self.job, "").attempt
        sweep_incomplete(self.job, self.attempt)
        self.writers[self.attempt] = ConstantsWriter(self.job, self.attempt)
        self.retentions[self.attempt] = Retention(self.job, Keep(last=2), self.attempt)
        self.put_values, self.constants = [], []

    @rule(values=st.sets(st.integers(0, 3), max_size=3))
    def put(self, values):
        """A rank has its constants in place, and goes on to its part, or dies."""
        self.put_values = sorted(values)
        self.constants = [self.writers[self.attempt].put(named(value)) for value in self.put_values]

    @rule()
    def write_part(self):
        self.step += 1
        entries = {"model": {str(v): {"$array": f"base{v}", "kind": "numpy"} for v in self.put_values}}
        writer = CheckpointWriter(self.job, self.step, self.attempt)
        writer.write_part(0, [], entries, constants=self.constants)
        self.pending.append((self.attempt, writer))

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def commit(self, data):
        """Of any attempt: an old one is refused by the fence, or finds that it was swept."""
        attempt, writer = self.pending.pop(data.draw(st.integers(0, len(self.pending) - 1)))
        if attempt < self.attempt:
            with pytest.raises(LastgoodError):
                writer.commit(1)
            return
        # A file may have been deleted under it; then the save is lost, and only that.
        with suppress(LastgoodError):
            writer.commit(1)

    @rule(data=st.data())
    def retire(self, data):
        """Any attempt; an old one deletes nothing."""
        attempt = data.draw(st.sampled_from(sorted(self.retentions)))
        with suppress(FencedError):
            self.retentions[attempt].apply()

    @precondition(lambda self: self.pending)
    @rule()
    def abandon(self):
        _, writer = self.pending.pop()
        writer.abandon(0)

    @precondition(lambda self: len(list_checkpoints(self.job)) > 1)
    @rule(data=st.data())
    def reject(self, data):
        listed = data.draw(st.sampled_from([c.name for c in list_checkpoints(self.job)]))
        set_mark(self.job, listed, layout.REJECTED_FILE, "x")

    @invariant()
    def every_committed_one_is_whole(self):
        for listed in list_checkpoints(self.job):
            if listed.is_committed:
                assert open_checkpoint(self.job, listed.name).verify() == []

    @rule()
    def nothing_unused_of_older_attempts_is_left(self):
        References(self.job, self.attempt).sweep()
        used = {
            constants.file
            for listed in list_checkpoints(self.job)
            if listed.is_committed
            for constants in open_checkpoint(self.job, listed.name).manifest.constants
        }
        half = {c.attempt for c in list_checkpoints(self.job) if not c.is_committed}
        for name in os.listdir(self.job.constants) if self.job.constants.exists() else ():
            attempt = layout.parse_constants_file(name)[1]
            assert name in used or attempt == self.attempt or attempt in half


def named(value):
    return [(ArraySpec(f"base{value}", "I64", (4,)), memoryview(struct.pack("<4q", *[value] * 4)))]


TestLives = pytest.mark.slow(Lives.TestCase)
TestLives.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
