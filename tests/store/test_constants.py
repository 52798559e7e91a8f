"""Constants: written once, by content; found again by later saves, ranks and attempts; damage is seen and repaired."""

import os
import struct

import msgspec
import pytest

from lastgood.core import layout
from lastgood.core.errors import DamagedError, FencedError, FormatVersionError, StorageError
from lastgood.core.manifest import Manifest, Part
from lastgood.core.sealed import unseal
from lastgood.core.tensorfile import ArraySpec
from lastgood.store import durable
from lastgood.store import writer as writer_module
from lastgood.store.attempts import claim_attempt
from lastgood.store.constants import ConstantsWriter
from lastgood.store.rank_state import rank_state
from lastgood.store.reader import open_checkpoint
from lastgood.store.writer import CheckpointWriter

FLOATS = 3000


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(writer_module, "BLOCK_BYTES", 4096)


def array(name, value, floats=FLOATS):
    return ArraySpec(name, "F32", (floats,)), memoryview(struct.pack(f"<{floats}f", *[float(value)] * floats))


BASE = [array("model.base", 1), array("model.embedding", 2)]


def entries(*names):
    return {"model": {name: {"$array": name, "kind": "numpy"} for name in names}}


def save(job, step, constants, *, attempt=1, rank=0, world_size=1, changing=None):
    """One rank's part, with what changes beside the constants; committed by the last rank."""
    own = array("model.adapter", step, 8) if changing is None else changing
    names = [own[0].name, *(name for one in constants for name in one.arrays)]
    writer = CheckpointWriter(job, step, attempt)
    writer.write_part(rank, [own], entries(*names), constants=constants)
    return writer.commit(world_size) if rank == world_size - 1 else None


def bytes_of(job, step, name, attempt=1, rank=0):
    return bytes(open_checkpoint(job, layout.checkpoint_name(step, attempt)).read(rank, [name])[name])


def files(job):
    return sorted(os.listdir(job.constants))


def test_the_second_checkpoint_costs_only_what_changed(job):
    constants = ConstantsWriter(job, 1)
    first = save(job, 10, [constants.put(BASE)])
    before = {path: path.stat().st_mtime_ns for path in job.constants.iterdir()}
    second = save(job, 20, [constants.put(BASE)])
    assert {path: path.stat().st_mtime_ns for path in job.constants.iterdir()} == before
    assert len(before) == 1
    assert second.constants_bytes == first.constants_bytes > 2 * 4 * FLOATS
    on_disk = sum(p.stat().st_size for p in (job.checkpoints / second.name).iterdir())
    assert second.bytes <= on_disk < 10_000
    for step in (10, 20):
        assert open_checkpoint(job, layout.checkpoint_name(step, 1)).verify() == []
        assert bytes_of(job, step, "model.base") == bytes(BASE[0][1])
        assert bytes_of(job, step, "model.adapter") == struct.pack("<8f", *[float(step)] * 8)


def test_a_reader_sees_constants_like_other_arrays(job):
    save(job, 10, [ConstantsWriter(job, 1).put(BASE)])
    checkpoint = open_checkpoint(job, layout.checkpoint_name(10, 1))
    assert sorted(checkpoint.arrays(0)) == ["model.adapter", "model.base", "model.embedding"]
    assert checkpoint.arrays(0)["model.base"].spec == BASE[0][0]
    found = checkpoint.read(0, ["model.embedding", "model.adapter", "model.base"])
    assert bytes(found["model.embedding"]) == bytes(BASE[1][1])
    found["model.base"][:4] = b"mine"
    state = rank_state(checkpoint, 0)
    assert {name: held.rank for name, held in state.arrays.items()} == dict.fromkeys(checkpoint.arrays(0), 0)
    assert bytes_of(job, 10, "model.base") == bytes(BASE[0][1]), "memory that was handed out is the file's"


def test_a_part_may_take_some_arrays_of_several_files(job):
    constants = ConstantsWriter(job, 1)
    both, other = constants.put(BASE), constants.put([array("model.head", 5, 8)])
    only_base = msgspec.structs.replace(both, arrays=["model.base"])
    save(job, 10, [only_base, other], changing=array("model.embedding", 7))
    checkpoint = open_checkpoint(job, layout.checkpoint_name(10, 1))
    assert sorted(checkpoint.arrays(0)) == ["model.base", "model.embedding", "model.head"]
    assert bytes_of(job, 10, "model.embedding") == bytes(array("model.embedding", 7)[1])
    assert checkpoint.verify() == []


@pytest.mark.parametrize(
    "other",
    [
        [array("model.base", 1), array("model.embedding", 3)],
        [array("model.base", 1), array("model.embedding2", 2)],
        [array("model.base", 1)],
        [BASE[0], (ArraySpec("model.embedding", "I32", (FLOATS,)), BASE[1][1])],
        [BASE[0], (ArraySpec("model.embedding", "F32", (FLOATS, 1)), BASE[1][1])],
        [array("model.base", 2), array("model.embedding", 1)],
    ],
    ids=["a byte", "a name", "an array less", "a type", "a shape", "swapped"],
)
def test_what_differs_in_anything_has_another_name(job, other):
    constants = ConstantsWriter(job, 1)
    assert constants.put(BASE).data.file != constants.put(other).data.file
    assert len(files(job)) == 2


def test_the_order_does_not_matter(job):
    assert ConstantsWriter(job, 1).put(BASE).data.file == ConstantsWriter(job, 1).put(BASE[::-1]).data.file


def test_known_digests_spare_the_pass_over_the_memory(job, monkeypatch):
    import xxhash

    digests = {spec.name: xxhash.xxh3_128_digest(data) for spec, data in BASE}
    constants = ConstantsWriter(job, 1)
    first = constants.put(BASE)
    monkeypatch.setattr(xxhash, "xxh3_128_digest", None)
    monkeypatch.setattr(xxhash, "xxh3_64", None)
    assert constants.put(BASE, digests) == first


def test_an_older_reader_refuses_rather_than_reads_without_them(job, monkeypatch):
    manifest = save(job, 10, [ConstantsWriter(job, 1).put(BASE)])
    part = unseal((job.checkpoints / manifest.name / "rank-00000.json").read_bytes(), Part, "part")
    assert (manifest.format, part.format) == (2, 2)
    monkeypatch.setattr(layout, "CONSTANTS_FORMAT", 1)
    with pytest.raises(FormatVersionError, match="format 2"):
        open_checkpoint(job, manifest.name)


def test_a_checkpoint_without_constants_is_what_it_was(job, save_step):
    manifest = save_step(10)
    part = unseal((job.checkpoints / manifest.name / "rank-00000.json").read_bytes(), Part, "part")
    assert (manifest.format, part.format, manifest.constants) == (1, 1, [])
    assert not job.constants.exists()


# Found again ------------------------------------------------------------------------------------------------------


def count_writes(monkeypatch):
    """The names that are written from here on."""
    written = []
    real = durable.NewFile.commit
    monkeypatch.setattr(durable.NewFile, "commit", lambda self: (written.append(self.path.name), real(self))[1])
    return written


def test_another_process_of_the_attempt_compares_what_it_finds_and_does_not_write(job, monkeypatch):
    first = ConstantsWriter(job, 1).put(BASE)
    written = count_writes(monkeypatch)
    assert ConstantsWriter(job, 1).put(BASE) == first
    assert written == []


def test_a_later_attempt_gives_the_same_bytes_a_name_of_its_own(job, monkeypatch):
    old = ConstantsWriter(job, 1).put(BASE).data.file
    claim_attempt(job, "next")
    written = count_writes(monkeypatch)
    new = ConstantsWriter(job, 2).put(BASE).data.file
    assert written == []
    assert files(job) == sorted([old, new])
    assert (job.constants / old).samefile(job.constants / new)
    (job.constants / old).unlink()
    save(job, 10, [ConstantsWriter(job, 2).put(BASE)], attempt=2)
    assert open_checkpoint(job, layout.checkpoint_name(10, 2)).verify() == []


def test_without_hard_links_an_attempt_writes_them_once_more(job, monkeypatch):
    old = ConstantsWriter(job, 1).put(BASE).data.file
    claim_attempt(job, "next")

    def no_links(*_, **__):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    written = count_writes(monkeypatch)
    constants = ConstantsWriter(job, 2)
    new = constants.put(BASE).data.file
    assert constants.put(BASE).data.file == new
    assert written == [new]
    assert not (job.constants / old).samefile(job.constants / new)


@pytest.mark.parametrize("attempt", [1, 2], ids=["the own attempt's", "an earlier attempt's"])
@pytest.mark.parametrize("how", ["flipped", "cut", "a directory's name", "a link", "of another content"])
def test_what_is_damaged_is_not_relied_on_but_written_anew(job, tmp_path, attempt, how):
    file = ConstantsWriter(job, 1).put(BASE).data.file
    path = job.constants / file
    if how == "flipped":
        content = bytearray(path.read_bytes())
        content[9000] ^= 1
        path.write_bytes(content)
    elif how == "cut":
        os.truncate(path, path.stat().st_size - 1)
    elif how == "a link":
        path.rename(tmp_path / "away")
        path.symlink_to(tmp_path / "away")
    elif how == "of another content":
        other = ConstantsWriter(job, 1).put([array("model.base", 8), array("model.embedding", 9)]).data.file
        (job.constants / other).rename(path)
    else:
        path.unlink()
        path.mkdir()
    if attempt == 2:
        claim_attempt(job, "next")
    elif how == "a directory's name":
        with pytest.raises(StorageError, match="constants"):
            ConstantsWriter(job, attempt).put(BASE)
        return
    save(job, 10, [ConstantsWriter(job, attempt).put(BASE)], attempt=attempt)
    assert open_checkpoint(job, layout.checkpoint_name(10, attempt)).verify() == []
    assert bytes_of(job, 10, "model.base", attempt) == bytes(BASE[0][1])


def test_what_vanished_is_written_again_by_the_process_that_wrote_it(job):
    constants = ConstantsWriter(job, 1)
    file = constants.put(BASE).data.file
    (job.constants / file).unlink()
    save(job, 10, [constants.put(BASE)])
    assert open_checkpoint(job, layout.checkpoint_name(10, 1)).verify() == []


def test_two_ranks_may_share_one_file(job):
    for rank in range(2):
        manifest = save(job, 10, [ConstantsWriter(job, 1).put(BASE)], rank=rank, world_size=2)
    assert len(manifest.constants) == 1
    assert open_checkpoint(job, manifest.name).verify() == []
    assert bytes_of(job, 10, "model.base", rank=1) == bytes(BASE[0][1])


# Damage -----------------------------------------------------------------------------------------------------------


def test_a_missing_file_is_damage_of_every_checkpoint_that_refers_to_it(job, save_step):
    constants = ConstantsWriter(job, 1)
    for step in (10, 20):
        save(job, step, [constants.put(BASE)])
    save_step(30)
    (job.constants / files(job)[0]).unlink()
    for step in (10, 20):
        checkpoint = open_checkpoint(job, layout.checkpoint_name(step, 1))
        (problem,) = checkpoint.verify()
        assert problem.startswith(f"{checkpoint.name} refers to constants that are damaged: constants/")
        assert problem.endswith("is missing")
        with pytest.raises(DamagedError, match="constants"):
            checkpoint.read(0, ["model.base"])
    assert open_checkpoint(job, layout.checkpoint_name(30, 1)).verify() == []


def test_a_flipped_bit_is_placed(job):
    save(job, 10, [ConstantsWriter(job, 1).put(BASE)])
    path = job.constants / files(job)[0]
    content = bytearray(path.read_bytes())
    content[9000] ^= 1
    path.write_bytes(content)
    checkpoint = open_checkpoint(job, layout.checkpoint_name(10, 1))
    (problem,) = checkpoint.verify()
    assert "constants/" in problem and "bytes 8192 to 12288 (block 2)" in problem
    with pytest.raises(DamagedError, match="block 2"):
        checkpoint.read(0, ["model.base", "model.embedding"])
    assert bytes(checkpoint.read(0, ["model.adapter"])["model.adapter"]) == struct.pack("<8f", *[10.0] * 8)


def test_storage_that_fails_is_not_called_damage(job, monkeypatch):
    save(job, 10, [ConstantsWriter(job, 1).put(BASE)])
    real = durable.open_regular

    def fails(path):
        if path.parent == job.constants:
            raise OSError(5, "Input/output error")
        return real(path)

    monkeypatch.setattr(durable, "open_regular", fails)
    with pytest.raises(OSError, match="Input/output"):
        open_checkpoint(job, layout.checkpoint_name(10, 1)).verify()


def test_what_a_verification_found_whole_is_not_read_again(job, monkeypatch):
    constants = ConstantsWriter(job, 1)
    for step in (10, 20):
        save(job, step, [constants.put(BASE)])
    whole = set()
    assert open_checkpoint(job, layout.checkpoint_name(10, 1)).verify(whole) == []
    path = job.constants / files(job)[0]
    content = bytearray(path.read_bytes())
    content[9000] ^= 1
    path.write_bytes(content)
    assert open_checkpoint(job, layout.checkpoint_name(20, 1)).verify(whole) == []
    assert open_checkpoint(job, layout.checkpoint_name(20, 1)).verify() != []


# The commit ---------------------------------------------------------------------------------------------------------


def test_a_file_that_is_gone_before_the_commit_costs_the_save(job):
    constants = ConstantsWriter(job, 1).put(BASE)
    writer = CheckpointWriter(job, 10, 1)
    writer.write_part(0, [], entries(*constants.arrays), constants=[constants])
    with pytest.raises(StorageError, match=r"constants.* is not there"):
        writer.commit(1, before_commit=(job.constants / constants.data.file).unlink)
    assert not list(writer.directory.glob("manifest*"))


def test_an_attempt_that_was_overtaken_while_it_wrote_is_told_so(job, monkeypatch):
    real = durable.NewFile.commit

    def overtaken(self):
        claim_attempt(job, "next")
        self.part.unlink()
        real(self)

    monkeypatch.setattr(durable.NewFile, "commit", overtaken)
    with pytest.raises(FencedError, match="attempt 2"):
        ConstantsWriter(job, 1).put(BASE)


def test_a_full_disk_leaves_nothing(job, monkeypatch):
    def full(fd, data, at):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StorageError, match="No space left"):
        ConstantsWriter(job, 1).put(BASE)
    assert files(job) == []


def test_the_manifest_lists_every_file_once_and_in_order(job):
    constants = ConstantsWriter(job, 1)
    several = [constants.put([array(f"model.{n}", n, 8)]) for n in range(5)]
    manifest = save(job, 10, several)
    listed = [one.file for one in manifest.constants]
    assert listed == sorted(files(job))
    stored = unseal((job.checkpoints / manifest.name / "manifest.json").read_bytes(), Manifest, "manifest")
    assert stored.constants == manifest.constants
