"""`lastgood verify` reads every byte; its exit code answers."""

import errno
import os

import pytest

from lastgood.core import layout
from lastgood.core.errors import LastgoodError
from lastgood.store.catalogue import set_mark


def name(step, attempt=1):
    return layout.checkpoint_name(step, attempt)


def flip(path, at, bit=1):
    data = bytearray(path.read_bytes())
    data[at] ^= bit
    path.write_bytes(data)


def test_all_whole(lastgood, job, save_step):
    save_step(1)
    save_step(2, world_size=3)
    said = lastgood("verify", job.path)
    assert said.code == 0
    assert said.out.splitlines()[0].startswith(f"{name(2)}  whole")
    assert said.out.splitlines()[-1] == "2 of 2 are whole"
    answer = lastgood("verify", job.path, "--json").answer("verify")
    assert [(c.name, c.result, c.problems) for c in answer.checkpoints] == [
        (name(2), "whole", []),
        (name(1), "whole", []),
    ]


def test_a_flipped_bit_is_placed_and_the_others_are_still_read(lastgood, job, save_step):
    save_step(1)
    save_step(2, floats=3 * 2**20)
    save_step(3)
    flip(job.checkpoints / name(2) / layout.data_file(0), 5 * 2**20)
    said = lastgood("verify", job.path)
    assert said.code == 65
    assert "bytes 4194304 to 8388608 (block 1)" in " ".join(said.out.split())
    assert said.out.splitlines()[-1] == "2 of 3 are whole"
    assert max(map(len, said.out.splitlines())) <= 80
    results = {c.step: c.result for c in lastgood("verify", job.path, "--json").answer("verify").checkpoints}
    assert results == {1: "whole", 2: "damaged", 3: "whole"}


@pytest.mark.parametrize("file", ["manifest.json", "rank-00000.json", "rank-00001.safetensors"])
def test_damage_in_any_file_is_found(lastgood, job, save_step, file):
    save_step(1, world_size=2)
    flip(job.checkpoints / name(1) / file, 20)
    said = lastgood("verify", job.path, "1", "--json")
    assert said.code == 65
    assert file in said.answer("verify").checkpoints[0].problems[0]


def test_two_damaged_ranks_are_both_named(lastgood, job, save_step):
    save_step(1, world_size=3)
    (job.checkpoints / name(1) / layout.data_file(0)).unlink()
    os.truncate(job.checkpoints / name(1) / layout.data_file(2), 100)
    problems = lastgood("verify", job.path, "--json").answer("verify").checkpoints[0].problems
    assert [layout.data_file(0) in problems[0], layout.data_file(2) in problems[1]] == [True, True]


def test_only_those_asked_for(lastgood, job, save_step):
    save_step(1)
    save_step(2)
    flip(job.checkpoints / name(1) / layout.data_file(0), 0)
    assert lastgood("verify", job.path, "last").code == 0
    assert lastgood("verify", job.path, "1", "last").code == 65
    assert lastgood("verify", job.path, "2", "2-1", name(2)).out.count("whole") == 1


@pytest.mark.parametrize("wanted", ["3", "2-7", "newest", "../1", "-0001"])
def test_one_that_is_not_there(lastgood, job, save_step, wanted):
    save_step(2)
    said = lastgood("verify", job.path, "--", wanted)
    assert (said.code, said.out) == (66, "")


def test_nothing_to_verify(lastgood, job, tmp_path):
    assert lastgood("verify", job.path).code == 66
    assert lastgood("verify", tmp_path / "nowhere").code == 66


def test_an_input_output_error_is_not_damage(lastgood, job, save_step, monkeypatch):
    save_step(1)
    save_step(2)

    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "preadv", fail)
    said = lastgood("verify", job.path, "--json")
    assert said.code == 74
    assert {c.result for c in said.answer("verify").checkpoints} == {"unreadable"}
    # Damage elsewhere is certain, so it wins.
    flip(job.checkpoints / name(1) / layout.MANIFEST_FILE, 20)
    assert lastgood("verify", job.path).code == 65


def test_a_rejected_one_that_is_whole_is_cleared_only_on_request(lastgood, job, save_step):
    save_step(1)
    save_step(2)
    set_mark(job, name(2), layout.REJECTED_FILE, "read error on node 7")
    mark = job.checkpoints / name(2) / layout.REJECTED_FILE
    said = lastgood("verify", job.path, "2")
    assert said.code == 0
    assert "read error on node 7" in said.out
    assert "--clear-rejected" in " ".join(said.out.split())
    assert mark.exists()
    cleared = lastgood("verify", job.path, "--clear-rejected", "--json").answer("verify").checkpoints
    assert [(c.step, c.was_cleared, c.rejected) for c in cleared] == [(2, True, ""), (1, False, "")]
    assert not mark.exists()


def test_a_rejected_one_that_is_damaged_keeps_its_mark(lastgood, job, save_step):
    save_step(2)
    set_mark(job, name(2), layout.REJECTED_FILE, "flipped")
    flip(job.checkpoints / name(2) / layout.data_file(0), 9)
    assert lastgood("verify", job.path, "--clear-rejected").code == 65
    assert (job.checkpoints / name(2) / layout.REJECTED_FILE).exists()


def test_a_newer_format_has_its_own_code(lastgood, job, save_step, monkeypatch):
    monkeypatch.setattr(layout, "FORMAT_VERSION", layout.CONSTANTS_FORMAT + 1)
    save_step(5)
    monkeypatch.setattr(layout, "FORMAT_VERSION", 1)
    said = lastgood("verify", job.path, "--json")
    assert (said.code, said.answer("verify").checkpoints[0].result) == (76, "newer format")


def test_one_that_retention_deletes_meanwhile_is_no_damage(lastgood, job, save_step, monkeypatch):
    save_step(1)
    save_step(2)
    from lastgood.store import sweep
    from lastgood.store.reader import Checkpoint

    real = Checkpoint.verify

    def deleted_first(self, *known):
        if self.manifest.step == 1:
            sweep.delete_checkpoint(job, self.name)
        return real(self, *known)

    monkeypatch.setattr(Checkpoint, "verify", deleted_first)
    said = lastgood("verify", job.path)
    assert said.code == 0
    assert "deleted while" in said.err


def test_verify_raises_rather_than_calling_unreadable_damaged(job, save_step, monkeypatch):
    from lastgood.core.retention import Keep
    from lastgood.store.sweep import Retention

    save_step(1)
    save_step(2)

    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises((OSError, LastgoodError)):
        Retention(job, Keep(last=1)).apply()
    assert not list(job.checkpoints.glob("*/rejected.json"))
    assert len(list(job.checkpoints.glob("*/manifest.json"))) == 2
