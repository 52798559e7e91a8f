"""Commands see constants like other arrays, and say where they matter."""

import os
import struct

import numpy as np
import pytest

from lastgood.core import layout
from lastgood.core.tensorfile import ArraySpec
from lastgood.store.attempts import claim_attempt
from lastgood.store.constants import ConstantsWriter
from lastgood.store.writer import CheckpointWriter

BASE = memoryview(struct.pack("<1000f", *range(1000)))


@pytest.fixture
def save(job):
    def save(step, attempt=1):
        constants = ConstantsWriter(job, attempt).put([(ArraySpec("model.base", "F32", (1000,)), BASE)])
        model = {name: {"$array": f"model.{name}", "kind": "numpy"} for name in ("base", "adapter")}
        writer = CheckpointWriter(job, step, attempt)
        adapter = (ArraySpec("model.adapter", "I64", ()), memoryview(step.to_bytes(8, "little")))
        writer.write_part(0, [adapter], {"model": model}, constants=[constants])
        writer.commit(1)
        return constants.data.file

    return save


def test_show_tells_sizes_apart(lastgood, job, save):
    save(10)
    lines = lastgood("show", job.path).out.splitlines()
    assert "constants   8.1 kB, written once for several checkpoints" in lines
    assert "    base: F32 [1000], 4 kB" in lines
    answer = lastgood("show", job.path, "--json").answer("show")
    assert answer.bytes < answer.constants_bytes == 4096 + 4000
    assert sorted(a.name for a in answer.arrays) == ["model.adapter", "model.base"]


def test_an_export_is_complete(lastgood, job, save, tmp_path):
    save(10)
    assert lastgood("export", job.path, "--to", tmp_path / "x.npz").code == 0
    with np.load(tmp_path / "x.npz") as exported:
        assert exported["model.base"].tobytes() == bytes(BASE)
        assert exported["model.adapter"] == 10


def test_verify_names_every_checkpoint_that_a_damaged_file_belongs_to(lastgood, job, save):
    file = save(10)
    save(20)
    assert lastgood("verify", job.path).out.endswith("2 of 2 are whole\n")
    path = job.constants / file
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    said = lastgood("verify", job.path)
    assert said.code == 65
    assert said.out.count("refers to constants that are damaged") == 2
    path.unlink()
    assert lastgood("verify", job.path).out.count("missing") == 2


def test_prune_deletes_the_constants_that_went_with_their_checkpoints(lastgood, job, save):
    old = save(10)
    claim_attempt(job, "next")
    new = save(20, attempt=2)
    answer = lastgood("prune", job.path, "--keep-last", 1, "--dry-run", "--json").answer("prune")
    assert answer.constants == []
    said = lastgood("prune", job.path, "--keep-last", 1)
    assert "constants that no checkpoint refers to" in " ".join(said.out.split())
    assert os.listdir(job.constants) == [new] != [old]
    assert lastgood("verify", job.path).code == 0
    assert layout.parse_constants_file(new) is not None
