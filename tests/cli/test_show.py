"""`lastgood show` tells what is in a checkpoint."""

import struct

import pytest

from lastgood.core import layout
from lastgood.core.tensorfile import ArraySpec
from lastgood.core.tree import flatten
from lastgood.store.writer import CheckpointWriter


def test_facts_and_the_state_as_a_tree(lastgood, job, save_step):
    save_step(5)
    save_step(
        1200,
        metrics={"accuracy": 0.95},
        config={"lr": 0.1, "layers": [64, 10]},
        fingerprint={"numpy": "2.1"},
    )
    out = lastgood("show", job.path).out
    lines = out.splitlines()
    assert lines[0] == f"checkpoint  {layout.checkpoint_name(1200, 1)}"
    for expected in ("step        1200", "metrics     accuracy 0.95", "written by  numpy 2.1"):
        assert expected in lines
    assert "config      layers [64, 10], lr 0.1" in lines
    assert "  model" in lines
    assert "    w: F32 [8], 32 B" in lines
    assert "    n: I64 [], 8 B" in lines
    assert "    betas: (0.9, 0.999)" in lines
    assert max(map(len, lines)) <= 80


def test_json_has_every_array_and_the_skeletons(lastgood, job, save_step):
    save_step(7, world_size=2)
    answer = lastgood("show", job.path, "7", "--rank", 1, "--json").answer("show")
    assert (answer.step, answer.world_size, answer.rank, len(answer.rank_bytes)) == (7, 2, 1, 2)
    assert [(a.name, a.dtype, a.shape, a.bytes, a.rank) for a in answer.arrays] == [
        ("model.w", "F32", [8], 32, 1),
        ("model.n", "I64", [], 8, 1),
    ]
    assert answer.entries["optimizer"] == {"lr": 0.1, "betas": {"$tuple": [0.9, 0.999]}}
    assert sum(answer.rank_bytes) == answer.bytes


@pytest.mark.parametrize("wanted", ["10", "10-2", "0000000010", layout.checkpoint_name(10, 2)])
def test_a_step_means_its_newest_attempt_whatever_the_zeros(lastgood, job, save_step, wanted):
    save_step(10, attempt=1)
    save_step(10, attempt=2)
    save_step(9, attempt=3)
    assert lastgood("show", job.path, wanted, "--json").answer("show").name == layout.checkpoint_name(10, 2)


def test_the_default_is_the_last_good_one_not_the_newest(lastgood, job, save_step):
    from lastgood.store.catalogue import set_mark

    save_step(1)
    save_step(2)
    set_mark(job, layout.checkpoint_name(2, 1), layout.REJECTED_FILE, "damaged")
    assert lastgood("show", job.path, "--json").answer("show").step == 1
    assert lastgood("show", job.path, "2", "--json").answer("show").rejected == "damaged"


def test_shared_arrays_are_found_in_the_file_of_another_rank(lastgood, job):
    writer = CheckpointWriter(job, 3, 1)
    spec = ArraySpec("model.w", "F32", (2,))
    skeleton = {"model": {"w": {"$array": "model.w", "kind": "torch"}}}
    writer.write_part(0, [], skeleton)
    writer.write_part(1, [(spec, memoryview(struct.pack("<2f", 1, 2)))], skeleton, shared=["model.w"])
    writer.commit(2)
    assert lastgood("show", job.path, "--json").answer("show").arrays[0].rank == 1
    assert "w: F32 [2], 8 B, in the file of rank 1" in lastgood("show", job.path).out


def test_every_kind_of_value_has_a_line(lastgood, job):
    tree = {
        "none": None,
        "text": "a\x1b[2J" + "long " * 50,
        "bytes": b"\0" * 3000,
        "big": 2**80,
        "nan": float("nan"),
        "many": list(range(100)),
        "nested": [{"a": 1}, (1, 2)],
        "empty": {},
        "nothing": [],
        "keys": {1: "one", (2, 3): "pair"},
        "set": {3},
        "complex": 1j,
        "line\nbreak" * 20: 1,
    }
    CheckpointWriter(job, 1, 1).write_part(0, [], {"state": flatten(tree).skeleton})
    CheckpointWriter(job, 1, 1).commit(1)
    out = lastgood("show", job.path).out
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80
    lines = [line.strip() for line in out.splitlines()]
    for expected in (
        "none: null",
        "bytes: bytes, 3 kB",
        f"big: {2**80}",
        "nan: nan",
        "many: [0, 1, 2, 3, 4, 5, 6, 7, ... 100 in all]",
        "0",
        "a: 1",
        "1: (1, 2)",
        "empty: {}",
        "nothing: []",
        '1: "one"',
        "set: {3}",
    ):
        assert expected in lines


def test_a_rank_that_is_not_there(lastgood, job, save_step):
    save_step(1)
    said = lastgood("show", job.path, "--rank", 1)
    assert said.code == 66
    assert "counted from 0" in said.err


@pytest.mark.parametrize("file", ["manifest.json", "rank-00000.json", "rank-00000.safetensors"])
def test_a_damaged_one_is_named(lastgood, job, save_step, file):
    save_step(1)
    path = job.checkpoints / layout.checkpoint_name(1, 1) / file
    path.write_bytes(path.read_bytes()[:-1])
    said = lastgood("show", job.path, 1)
    assert (said.code, said.out) == (65, "")
    assert file in said.err


def test_a_job_without_checkpoints(lastgood, job):
    said = lastgood("show", job.path)
    assert said.code == 66
    assert "no good checkpoint" in said.err
