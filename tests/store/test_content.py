"""Reading large files: past the page cache where that is possible, in blocks of any size, into any places."""

import errno
import fcntl
import os
import time
from pathlib import Path

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from lastgood.core import layout, tensorfile
from lastgood.core.errors import DamagedError
from lastgood.core.manifest import DataFile
from lastgood.core.tensorfile import ArraySpec
from lastgood.store import content as content_module
from lastgood.store import threads
from lastgood.store.content import StoredContent
from lastgood.store.places import chunk_bytes, fresh_memory, scatter
from lastgood.store.reader import open_checkpoint
from lastgood.store.verified import VerifiedFile
from lastgood.store.writer import CheckpointWriter

NAME = layout.checkpoint_name(5, 1)
SIZES = {"a": 3_000_001, "b": 17, "c": 0, "d": 1_500_000, "e": 4096}


def content_of(name: str) -> bytes:
    return bytes((ord(name) + at) % 251 for at in range(251)) * (SIZES[name] // 251 + 1)


CONTENT = {name: content_of(name)[:size] for name, size in SIZES.items()}


def file_with(path: Path, block_bytes: int) -> DataFile:
    """A data file of all arrays; what a part would say of it."""
    plan = tensorfile.plan([ArraySpec(name, "U8", (size,)) for name, size in SIZES.items()])
    data = plan.header + b"".join(CONTENT[placed.spec.name] for placed in plan.arrays)
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    digests = [xxhash.xxh3_64_hexdigest(data[at : at + block_bytes]) for at in range(0, len(data), block_bytes)]
    return DataFile(path.name, len(data), block_bytes, "".join(digests))


def drop_from_cache(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def is_cached(path: Path) -> bool:
    fd = os.open(path, os.O_RDONLY)
    try:
        return content_module._is_cached(fd, path.stat().st_size)
    finally:
        os.close(fd)


def bytes_from_device() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("read_bytes")))


def has_direct_reads(directory: Path) -> bool:
    path = directory / "probe"
    path.write_bytes(bytes(4096))
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        return False
    drop_from_cache(path)
    return True


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> tuple[Path, DataFile]:
    path = tmp_path_factory.mktemp("content") / "rank-00000.safetensors"
    return path, file_with(path, 2**20)


@settings(max_examples=40)
@given(
    block_bytes=st.integers(4096, 5_000_000),
    names=st.sets(st.sampled_from(sorted(SIZES))),
    way=st.sampled_from(["fast", "device", "cache"]),
)
def test_blocks_of_any_size_bring_each_array_to_its_place(tmp_path_factory, block_bytes, names, way):
    path = tmp_path_factory.mktemp("blocks") / "rank-00000.safetensors"
    expected = file_with(path, block_bytes)
    opened = VerifiedFile(StoredContent(path, expected.bytes, way), expected)
    places = {name: [bytearray(SIZES[name]), bytearray(SIZES[name])] for name in names}
    opened.load({name: [memoryview(place) for place in both] for name, both in places.items()})
    assert places == {name: [CONTENT[name], CONTENT[name]] for name in names}
    assert {name: bytes(data) for name, data in opened.read(names).items()} == {name: CONTENT[name] for name in names}
    assert opened.problems() == []
    path.unlink()


def test_what_was_not_in_the_page_cache_is_not_brought_there(file):
    path, expected = file
    if not has_direct_reads(path.parent):
        pytest.skip("this file system has no direct reads")
    drop_from_cache(path)
    before = bytes_from_device()
    opened = VerifiedFile(StoredContent(path, expected.bytes), expected)
    assert bytes(opened.read(["a"])["a"]) == CONTENT["a"]
    assert not is_cached(path)
    assert bytes_from_device() - before >= SIZES["a"]


def test_what_is_in_the_page_cache_is_read_from_there(file):
    path, expected = file
    path.read_bytes()
    assert is_cached(path)
    before = bytes_from_device()
    opened = VerifiedFile(StoredContent(path, expected.bytes), expected)
    assert bytes(opened.read(["a"])["a"]) == CONTENT["a"]
    assert bytes_from_device() - before < SIZES["a"] // 2


def test_what_others_read_too_is_brought_into_the_page_cache(file):
    path, expected = file
    drop_from_cache(path)
    opened = VerifiedFile(StoredContent(path, expected.bytes, "cache"), expected)
    assert bytes(opened.read(["a"])["a"]) == CONTENT["a"]
    assert is_cached(path)


def test_verifying_asks_the_device_and_leaves_the_page_cache_alone(job):
    if not has_direct_reads(job.path):
        pytest.skip("this file system has no direct reads")
    writer = CheckpointWriter(job, 5, 1)
    writer.write_part(0, [(ArraySpec("a", "U8", (SIZES["a"],)), memoryview(CONTENT["a"]))], {})
    writer.commit(1)
    path = job.checkpoints / NAME / layout.data_file(0)
    drop_from_cache(path)
    assert open_checkpoint(job, NAME).verify() == []
    assert not is_cached(path)
    path.read_bytes()
    before = bytes_from_device()
    assert open_checkpoint(job, NAME).verify() == []
    assert bytes_from_device() - before >= SIZES["a"]


def test_a_file_system_that_takes_the_flag_and_refuses_the_read(file, monkeypatch):
    path, expected = file
    drop_from_cache(path)
    real, refused = os.preadv, []

    def preadv(fd, views, at):
        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT:
            refused.append(at)
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(fd, views, at)

    monkeypatch.setattr(os, "preadv", preadv)
    opened = VerifiedFile(StoredContent(path, expected.bytes, "device"), expected)
    assert {name: bytes(data) for name, data in opened.read(SIZES).items()} == CONTENT
    assert refused


def test_an_invalid_argument_that_direct_reads_do_not_explain_is_an_error(file, monkeypatch):
    path, expected = file

    def preadv(fd, views, at):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "preadv", preadv)
    with pytest.raises(OSError, match="Invalid argument"):
        VerifiedFile(StoredContent(path, expected.bytes), expected).arrays()


def test_damage_leaves_out_no_block_before_the_first_that_is_named(file, tmp_path):
    _, expected = file
    path = tmp_path / "rank-00000.safetensors"
    expected = file_with(path, 4096)
    content = bytearray(path.read_bytes())
    for block in range(100, 200):
        content[block * 4096] ^= 1
    path.write_bytes(content)
    opened = VerifiedFile(StoredContent(path, expected.bytes), expected)
    assert [int(line.split("block ")[1].split(")")[0]) for line in opened.problems()] == list(range(100, 120))


def test_damage_is_certain_also_where_another_block_cannot_be_read(file, tmp_path, monkeypatch):
    path = tmp_path / "rank-00000.safetensors"
    expected = file_with(path, 2**16)
    content = bytearray(path.read_bytes())
    content[5] ^= 1
    path.write_bytes(content)
    real = os.preadv

    def preadv(fd, views, at):
        if at > 2**20:
            raise OSError(errno.EIO, "Input/output error")
        return real(fd, views, at)

    opened = VerifiedFile(StoredContent(path, expected.bytes), expected)
    monkeypatch.setattr(os, "preadv", preadv)
    assert len(opened.problems()) == 1
    content[5] ^= 1
    path.write_bytes(content)
    with pytest.raises(OSError, match="Input/output"):
        opened.problems()


def test_only_what_has_passed_its_check_reaches_a_place(file, tmp_path):
    path = tmp_path / "rank-00000.safetensors"
    expected = file_with(path, 2**16)
    content = bytearray(path.read_bytes())
    content[2**20] ^= 1
    path.write_bytes(content)
    opened = VerifiedFile(StoredContent(path, expected.bytes), expected)
    place = bytearray(SIZES["a"])
    with pytest.raises(DamagedError, match="block 16"):
        opened.load({"a": [memoryview(place)]})
    begin = next(placed.begin for placed in opened.arrays() if placed.spec.name == "a")
    bad = slice(16 * 2**16 - begin, 17 * 2**16 - begin)
    assert place[bad] == bytes(2**16)


@settings(max_examples=40)
@given(block_bytes=st.integers(4096, 2_000_000), names=st.lists(st.sampled_from(sorted(SIZES)), unique=True))
def test_what_is_streamed_is_put_together_again_elsewhere(tmp_path_factory, block_bytes, names):
    path = tmp_path_factory.mktemp("stream") / "rank-00000.safetensors"
    expected = file_with(path, block_bytes)
    opened = VerifiedFile(StoredContent(path, expected.bytes), expected)
    portion = opened.portion(names)
    places = {name: [bytearray(SIZES[name])] for name in names}
    views = {name: [memoryview(place) for place in both] for name, both in places.items()}
    for slices, chunk in zip(portion.blocks().values(), streamed(opened, portion), strict=True):
        assert chunk_bytes(slices) == len(chunk) <= block_bytes
        scatter(memoryview(bytearray(chunk)), slices, views)
    assert places == {name: [CONTENT[name]] for name in names}
    assert b"".join(streamed(opened, portion, skip=2)) == b"".join(streamed(opened, portion)[2:])
    path.unlink()


def streamed(opened, portion, skip=0):
    chunks = []
    opened.stream(portion, lambda chunk: chunks.append(bytes(chunk)), skip)
    return chunks


def test_a_stream_ends_before_the_block_that_is_damaged(tmp_path):
    path = tmp_path / "rank-00000.safetensors"
    expected = file_with(path, 2**16)
    content = bytearray(path.read_bytes())
    content[20 * 2**16] ^= 1
    path.write_bytes(content)
    opened = VerifiedFile(StoredContent(path, expected.bytes), expected)
    chunks = []
    with pytest.raises(DamagedError, match="block 20"):
        opened.stream(opened.portion(SIZES), lambda chunk: chunks.append(len(chunk)))
    assert len(chunks) == 20


def test_a_stream_whose_receiver_fails_ends_at_once(file):
    path, expected = file
    opened = VerifiedFile(StoredContent(path, expected.bytes), expected)
    seen = []

    def refuse(chunk):
        seen.append(len(chunk))
        raise ConnectionError("nobody listens")

    with pytest.raises(ConnectionError, match="nobody listens"):
        opened.stream(opened.portion(SIZES), refuse)
    assert len(seen) == 1


def test_readers_end_although_the_receiver_that_fails_is_held_up_before_it_says_so(file, monkeypatch):
    # As a handler of the program, or another thread that keeps Python's lock, may hold it up.
    path, expected = file
    opened = VerifiedFile(StoredContent(path, expected.bytes), expected)

    def end_late(team, *rest, real=threads.Team.__exit__):
        time.sleep(0.05)
        return real(team, *rest)

    def refuse(chunk):
        raise ConnectionError("nobody listens")

    monkeypatch.setattr(threads.Team, "__exit__", end_late)
    for _ in range(5):
        with pytest.raises(ConnectionError):
            opened.stream(opened.portion(SIZES), refuse)


def test_where_no_thread_can_be_had_the_caller_reads(file, monkeypatch):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads._thread, "start_new_thread", refuse)
    path, expected = file
    opened = VerifiedFile(StoredContent(path, expected.bytes), expected)
    assert not opened.problems()
    portion = opened.portion(SIZES)
    assert b"".join(streamed(opened, portion)) == b"".join(CONTENT[placed.spec.name] for placed in portion.arrays)


def test_fresh_memory_is_writable_aligned_and_apart():
    sizes = [1, 0, 64, 5000, 3]
    views = fresh_memory(sizes)
    for number, view in enumerate(views):
        view[:] = bytes([number]) * len(view)
    assert [bytes(view) for view in views] == [bytes([number]) * size for number, size in enumerate(sizes)]
    assert fresh_memory([]) == []
    assert [len(view) for view in fresh_memory([0, 0])] == [0, 0]


def test_fresh_memory_goes_with_its_last_view():
    def kilobytes() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("VmSize")))

    before = kilobytes()
    views = fresh_memory([2**28, 2**28])
    assert kilobytes() - before >= 2**19
    last = views.pop()
    del views
    assert kilobytes() - before >= 2**19
    del last
    assert kilobytes() - before < 2**18
