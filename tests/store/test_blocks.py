"""Writing in blocks: what is on disk is what was in memory, whichever way it went."""

import errno
import mmap
import os
import random

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from lastgood.store import blocks
from lastgood.store.blocks import write_pieces

BLOCK = 4096 * 4


def write(path, pieces, block_bytes=BLOCK):
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        return write_pieces(fd, [memoryview(piece) for piece in pieces], block_bytes)
    finally:
        os.close(fd)


def digests_of(data, block_bytes=BLOCK):
    return "".join(xxhash.xxh3_64_hexdigest(data[at : at + block_bytes]) for at in range(0, len(data), block_bytes))


@pytest.fixture(params=["direct", "buffered"])
def way(request, monkeypatch):
    """Both ways for every size."""
    monkeypatch.setattr(blocks, "DIRECT_FROM_BYTES", 0 if request.param == "direct" else 2**60)


@given(st.lists(st.integers(0, 3 * BLOCK), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_the_file_is_the_pieces_in_order(tmp_path_factory, lengths, rng):
    path = tmp_path_factory.getbasetemp() / f"pieces-{os.getpid()}"
    pieces = [rng.randbytes(length) for length in lengths]
    whole = b"".join(pieces)
    for direct_from in (0, 2**60):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(blocks, "DIRECT_FROM_BYTES", direct_from)
            if not whole and direct_from == 0:
                continue
            assert write(path, pieces) == (len(whole), digests_of(whole))
            assert path.read_bytes() == whole


@pytest.mark.parametrize("size", [1, 4095, 4096, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 17])
def test_every_kind_of_end(tmp_path, way, size):
    data = random.Random(size).randbytes(size)
    assert write(tmp_path / "x", [data[:100], data[100:]]) == (size, digests_of(data))
    assert (tmp_path / "x").read_bytes() == data


def test_aligned_memory_is_written_from_where_it_is(tmp_path, way):
    memory = memoryview(mmap.mmap(-1, 3 * BLOCK))
    memory[:] = random.Random(1).randbytes(3 * BLOCK)
    assert write(tmp_path / "x", [memory])[1] == digests_of(bytes(memory))
    assert (tmp_path / "x").read_bytes() == bytes(memory)


def test_a_file_system_that_refuses_direct_writes_gets_ordinary_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "DIRECT_FROM_BYTES", 0)
    real, refused = os.pwrite, []

    def pwrite(fd, data, at):
        import fcntl

        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT:
            refused.append(at)
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(fd, data, at)

    monkeypatch.setattr(blocks.os, "pwrite", pwrite)
    data = random.Random(2).randbytes(3 * BLOCK + 5)
    assert write(tmp_path / "x", [data]) == (len(data), digests_of(data))
    assert (tmp_path / "x").read_bytes() == data
    assert refused


def test_a_full_disk_is_an_error_of_the_file_system(tmp_path, way, monkeypatch):
    def pwrite(fd, data, at):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(blocks.os, "pwrite", pwrite)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path / "x", [bytes(3 * BLOCK)])


def test_no_thread_is_left(tmp_path, monkeypatch):
    import threading

    before = set(threading.enumerate())
    monkeypatch.setattr(blocks, "DIRECT_FROM_BYTES", 0)
    write(tmp_path / "x", [bytes(5 * BLOCK)])
    assert set(threading.enumerate()) <= before
