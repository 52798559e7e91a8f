"""Reading from memory that somebody lends: checked like a file, never written to, and given back at the end."""

import gc
import os
import subprocess
import sys

import numpy as np
import pytest

from descriptors import open_descriptors
from lastgood.core import layout
from lastgood.core.errors import DamagedError
from lastgood.core.tensorfile import ArraySpec
from lastgood.store import writer as writer_module
from lastgood.store.reader import open_checkpoint
from lastgood.store.writer import CheckpointWriter

NAME = layout.checkpoint_name(5, 1)
CONTENT = {f"array-{i}": bytes([i]) * 4096 for i in range(6)}


@pytest.fixture
def checkpoint(job, monkeypatch):
    """Two ranks, each with six arrays of a block each, and a header of one block."""
    monkeypatch.setattr(writer_module, "BLOCK_BYTES", 4096)
    writer = CheckpointWriter(job, 5, 1)
    arrays = [(ArraySpec(name, "U8", (4096,)), memoryview(data)) for name, data in CONTENT.items()]
    for rank in (0, 1):
        writer.write_part(rank, arrays, {"state": {name: {"$array": name, "kind": "numpy"} for name in CONTENT}})
    writer.commit(2)
    return open_checkpoint(job, NAME)


def data_file(checkpoint, rank=0):
    return checkpoint.directory / layout.data_file(rank)


def arena_with(content: bytes) -> int:
    fd = os.memfd_create("arena", os.MFD_CLOEXEC)
    os.write(fd, content)
    return fd


def arena_of(checkpoint, rank=0, more=b"") -> int:
    return arena_with(data_file(checkpoint, rank).read_bytes() + more)


@pytest.mark.parametrize("more", [b"", b"x", bytes(3 * 4096)], ids=["as long", "a byte longer", "pages longer"])
def test_lent_memory_is_read_and_the_file_is_not(checkpoint, more):
    fd = arena_of(checkpoint, more=more)
    data_file(checkpoint).unlink()
    checkpoint.lend(0, fd)
    assert checkpoint.lent == {0}
    assert {name: bytes(data) for name, data in checkpoint.read(0, CONTENT).items()} == CONTENT
    assert {name: bytes(data) for name, data in checkpoint.read(1, CONTENT).items()} == CONTENT


def test_no_byte_is_copied(checkpoint):
    fd = arena_of(checkpoint)
    writer = os.dup(fd)
    checkpoint.lend(0, fd)
    view = checkpoint.read(0, ["array-3"])["array-3"]
    at = checkpoint.arrays(0)["array-3"].begin
    os.pwrite(writer, b"\xee", at)
    assert view[0] == 0xEE, "what the owner writes shows through, which a copy would not"
    os.close(writer)


def test_what_a_program_writes_stays_out_of_the_lent_memory(checkpoint):
    fd = arena_of(checkpoint)
    owner = os.dup(fd)
    checkpoint.lend(0, fd)
    array = np.frombuffer(checkpoint.read(0, ["array-3"])["array-3"], dtype=np.uint8)
    array += 100
    assert set(array) == {103}
    assert os.pread(owner, 2**20, 0) == data_file(checkpoint).read_bytes()
    os.close(owner)


def test_damage_in_memory_is_named_as_such_and_storage_is_read_instead(checkpoint):
    content = bytearray(data_file(checkpoint).read_bytes())
    content[4096 * 3 + 17] ^= 1
    checkpoint.lend(0, arena_with(content))
    assert bytes(checkpoint.read(0, ["array-0"])["array-0"]) == CONTENT["array-0"]
    assert {name: bytes(data) for name, data in checkpoint.read(0, CONTENT).items()} == CONTENT
    assert checkpoint.lent == frozenset()
    (problem,) = checkpoint.memory_problems
    assert "rank-00000.safetensors in memory: bytes 12288 to 16384 (block 3)" in problem


def test_a_header_that_is_damaged_in_memory_is_seen(checkpoint):
    content = bytearray(data_file(checkpoint).read_bytes())
    content[20] ^= 1
    checkpoint.lend(0, arena_with(content))
    assert checkpoint.arrays(0).keys() == CONTENT.keys()
    (problem,) = checkpoint.memory_problems
    assert "in memory: bytes 0 to 4096 (block 0)" in problem


@pytest.mark.parametrize("size", [0, 1, 8, 4096, 4096 * 7 - 1])
def test_memory_that_is_shorter_than_the_file_is_damage(checkpoint, size):
    checkpoint.lend(0, arena_with(data_file(checkpoint).read_bytes()[:size]))
    assert bytes(checkpoint.read(0, ["array-5"])["array-5"]) == CONTENT["array-5"]
    (problem,) = checkpoint.memory_problems
    assert f"in memory has {size} bytes" in problem


def test_the_memory_of_another_rank_or_step_is_damage(job, checkpoint, save_step):
    save_step(6)
    other = job.checkpoints / layout.checkpoint_name(6, 1) / layout.data_file(0)
    checkpoint.lend(0, arena_with(other.read_bytes().ljust(2**20)))
    assert bytes(checkpoint.read(0, ["array-5"])["array-5"]) == CONTENT["array-5"]
    assert len(checkpoint.memory_problems) == 1


def test_damage_in_memory_and_in_storage_is_damage_of_the_checkpoint(checkpoint):
    content = bytearray(data_file(checkpoint).read_bytes())
    content[4096 * 3] ^= 1
    data_file(checkpoint).write_bytes(content)
    checkpoint.lend(0, arena_with(content))
    with pytest.raises(DamagedError, match=r"rank-00000.safetensors: bytes 12288 to 16384 \(block 3\)"):
        checkpoint.read(0, CONTENT)


def test_a_lender_is_asked_for_what_is_needed_once(checkpoint):
    asked = []

    def lend(rank):
        asked.append(rank)
        return (arena_with(b"damaged"), lambda: asked.append("released")) if rank == 1 else None

    checkpoint.borrow_from(lend)
    for _ in range(2):
        assert bytes(checkpoint.read(1, ["array-5"])["array-5"]) == CONTENT["array-5"]
    assert asked == [1, "released"]
    assert bytes(checkpoint.read(0, ["array-5"])["array-5"]) == CONTENT["array-5"]
    assert asked == [1, "released", 0]


def test_places_are_filled_from_memory_and_it_is_given_back(checkpoint):
    heard = []
    checkpoint.lend(0, arena_of(checkpoint), on_release=lambda: heard.append("released"))
    data_file(checkpoint).unlink()
    places = {name: bytearray(4096) for name in CONTENT}
    checkpoint.load(0, {name: [memoryview(place)] for name, place in places.items()})
    assert places == CONTENT
    checkpoint.unlend(0)
    assert heard == ["released"]


def test_memory_that_is_damaged_in_the_middle_of_a_stream_is_left_for_storage(checkpoint):
    content = bytearray(data_file(checkpoint).read_bytes())
    content[4096 * 3] ^= 1
    checkpoint.lend(0, arena_with(content))
    sent = []
    checkpoint.stream(0, CONTENT, lambda chunk: sent.append(bytes(chunk)))
    assert b"".join(sent) == b"".join(CONTENT.values())
    assert len(checkpoint.memory_problems) == 1


def test_verifying_looks_at_what_is_stored(checkpoint):
    checkpoint.lend(0, arena_of(checkpoint))
    content = bytearray(data_file(checkpoint).read_bytes())
    content[-1] ^= 1
    data_file(checkpoint).write_bytes(content)
    assert len(checkpoint.verify()) == 1
    assert bytes(checkpoint.read(0, ["array-5"])["array-5"]) == CONTENT["array-5"]


class TestGivingBack:
    def test_the_owner_hears_when_the_last_view_is_gone(self, checkpoint):
        heard = []
        checkpoint.lend(0, arena_of(checkpoint), on_release=lambda: heard.append("released"))
        views = checkpoint.read(0, ["array-1", "array-2"])
        first = np.frombuffer(views.pop("array-1"), dtype=np.uint8)
        second = views.pop("array-2")
        checkpoint.unlend(0)
        assert not heard
        del first
        assert not heard
        del second
        assert heard == ["released"]

    def test_the_checkpoint_itself_holds_on_until_it_goes(self, checkpoint, job):
        heard = []
        opened = open_checkpoint(job, NAME)
        opened.lend(0, arena_of(checkpoint), on_release=lambda: heard.append("released"))
        opened.read(0, CONTENT)
        assert not heard
        del opened
        gc.collect()
        assert heard == ["released"]

    @pytest.mark.parametrize("content", [b"", b"too short"])
    def test_memory_of_no_use_is_given_back_too(self, checkpoint, content):
        heard = []
        checkpoint.lend(0, arena_with(content), on_release=lambda: heard.append("released"))
        checkpoint.unlend(0)
        assert heard == ["released"]

    def test_another_loan_for_the_same_rank_takes_the_place_of_the_first(self, checkpoint):
        heard = []
        checkpoint.lend(0, arena_with(b"x"), on_release=lambda: heard.append("first"))
        checkpoint.lend(0, arena_of(checkpoint), on_release=lambda: heard.append("second"))
        assert heard == ["first"]
        assert bytes(checkpoint.read(0, ["array-2"])["array-2"]) == CONTENT["array-2"]

    def test_no_descriptor_is_left(self, checkpoint):
        before = open_descriptors()
        for _ in range(3):
            checkpoint.lend(0, arena_of(checkpoint))
            checkpoint.read(0, CONTENT)
            checkpoint.unlend(0)
        gc.collect()
        assert not open_descriptors() - before

    def test_what_cannot_be_mapped_is_an_error_and_its_descriptor_is_closed(self, checkpoint):
        reader, writer = os.pipe()
        os.write(writer, b"x")
        before = open_descriptors()
        checkpoint.lend(0, reader)
        checkpoint.unlend(0)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(reader)
        only_writable = os.open(data_file(checkpoint), os.O_WRONLY)
        with pytest.raises(PermissionError):
            checkpoint.lend(0, only_writable)
        assert not open_descriptors() - before
        os.close(writer)


def test_the_end_of_the_process_calls_nobody():
    program = (
        "import os; from lastgood.store.content import Loan; fd = os.memfd_create('x'); os.write(fd, b'x' * 4096);"
        "loan = Loan(fd, on_release=lambda: print('called'))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b""
