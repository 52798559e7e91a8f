"""`lastgood ls` lists every checkpoint, newest first, with what is known of each."""

import json

from lastgood.core import layout
from lastgood.store.attempts import claim_attempt
from lastgood.store.catalogue import set_mark
from lastgood.store.writer import CheckpointWriter


def test_newest_first_with_the_last_good_named(lastgood, job, save_step):
    for step in (9, 10, 100):
        save_step(step)
    said = lastgood("ls", job.path)
    assert said.code == 0
    rows = [line.split() for line in said.out.splitlines()]
    assert rows[0] == ["STEP", "ATTEMPT", "AGE", "SIZE", "STATE"]
    assert [row[0] for row in rows[1:]] == ["100", "10", "9"]
    assert said.out.count("last good") == 1
    assert "last good" in said.out.splitlines()[1]


def test_says_plainly_that_there_are_none(lastgood, job):
    said = lastgood("ls", job.path)
    assert (said.code, said.out) == (0, f"no checkpoints in {job.path}\n")
    assert lastgood("ls", job.path, "--json").answer("ls").checkpoints == []


def test_every_state_is_told_apart(lastgood, job, save_step, fail_to_read):
    for step in (1, 2, 3, 4, 5):
        save_step(step)
    names = {step: layout.checkpoint_name(step, 1) for step in range(1, 8)}
    set_mark(job, names[5], layout.REJECTED_FILE, "block 0 does not match")
    set_mark(job, names[4], layout.PINNED_FILE, "for the paper")
    manifest = job.checkpoints / names[3] / layout.MANIFEST_FILE
    manifest.write_bytes(manifest.read_bytes().replace(b'"world_size": 1', b'"world_size": 2'))
    fail_to_read(names[2])
    (job.checkpoints / names[6]).mkdir()
    (job.checkpoints / "somebody's notes").mkdir()

    found = {c.step: c for c in lastgood("ls", job.path, "--json").answer("ls").checkpoints}
    assert {step: c.state for step, c in found.items()} == {
        1: "good",
        2: "unreadable",
        3: "damaged",
        4: "good",
        5: "rejected",
        6: "incomplete",
    }
    assert "checksum" in found[3].problem
    assert found[5].problem == "block 0 does not match"
    assert (found[4].is_pinned, found[4].pin_reason, found[4].is_last_good) == (True, "for the paper", True)
    assert found[6].bytes is None
    assert found[1].bytes == sum(f.stat().st_size for f in (job.checkpoints / names[1]).glob("rank-*"))
    text = lastgood("ls", job.path).out
    assert "pinned: for the paper" in text
    assert "rejected: block 0 does not match" in text


def test_a_later_fresh_start_sets_earlier_ones_aside(lastgood, job, save_step):
    save_step(10)
    claim_attempt(job, "launch-2", fresh=True)
    only = lastgood("ls", job.path, "--json").answer("ls").checkpoints[0]
    assert (only.is_set_aside, only.is_last_good, only.state) == (True, False, "good")
    save_step(3, attempt=2)
    newest, old = lastgood("ls", job.path, "--json").answer("ls").checkpoints
    assert (newest.step, newest.is_last_good, newest.is_set_aside) == (3, True, False)
    assert (old.step, old.is_last_good) == (10, False)


def test_metrics_are_shown_and_a_nan_is_no_metric(lastgood, job, save_step):
    save_step(5, metrics={"accuracy": 0.9512345678, "loss": float("nan")})
    assert "accuracy 0.951235" in lastgood("ls", job.path).out
    assert lastgood("ls", job.path, "--json").answer("ls").checkpoints[0].metrics == {"accuracy": 0.9512345678}


def test_the_table_fits_80_columns_and_keeps_control_characters_out(lastgood, job, save_step):
    save_step(999_999_999_999, metrics={f"metric_{i}": i / 3 for i in range(30)})
    set_mark(
        job, layout.checkpoint_name(999_999_999_999, 1), layout.REJECTED_FILE, "\x1b[31m" + "long " * 40 + "x" * 200
    )
    out = lastgood("ls", job.path).out
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out
    assert "\\x1b[31m" in out


def test_one_of_a_newer_format_is_listed(lastgood, job, save_step, monkeypatch):
    monkeypatch.setattr(layout, "FORMAT_VERSION", layout.CONSTANTS_FORMAT + 1)
    save_step(5)
    monkeypatch.setattr(layout, "FORMAT_VERSION", 1)
    only = lastgood("ls", job.path, "--json").answer("ls").checkpoints[0]
    assert only.state == "newer format"
    assert "format 3" in only.problem


def test_json_is_one_document(lastgood, job, save_step):
    save_step(5)
    assert set(json.loads(lastgood("ls", job.path, "--json").out)) == {"job", "id", "checkpoints"}


def test_an_unfinished_write_does_not_count(lastgood, job, save_step):
    save_step(5)
    CheckpointWriter(job, 6, 1).write_part(0, [], {})
    states = [(c.step, c.state, c.is_last_good) for c in lastgood("ls", job.path, "--json").answer("ls").checkpoints]
    assert states == [(6, "incomplete", False), (5, "good", True)]
