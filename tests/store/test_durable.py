"""Durable files: whole under their name or not there, never through links, errors with a way out."""

import errno
import os
import threading

import pytest

from lastgood.core.errors import DamagedError, PermissionDeniedError, StorageError
from lastgood.store import durable


def test_a_file_has_no_name_until_it_is_published(tmp_path):
    path = tmp_path / "x"
    with durable.NewFile(path) as new:
        new.write(b"abc")
        new.flush()
        assert not path.exists()
        new.publish()
        assert path.read_bytes() == b"abc"
    assert os.listdir(tmp_path) == ["x"]


def test_leaving_early_leaves_nothing_and_keeps_the_old_one(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), durable.NewFile(path) as new:
        new.write(b"half of the n")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]


def test_what_a_dead_process_left_is_written_over(tmp_path):
    (tmp_path / "x.part").write_bytes(b"much longer than what comes now")
    durable.write_file(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"new"


def test_a_link_in_the_place_of_the_temporary_file_is_not_followed(tmp_path):
    (tmp_path / "victim").write_bytes(b"precious")
    (tmp_path / "x.part").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError):
        durable.write_file(tmp_path / "x", b"new")
    assert (tmp_path / "victim").read_bytes() == b"precious"


def test_everything_is_flushed_before_it_has_a_name(tmp_path, monkeypatch):
    calls = []
    real_fsync, real_replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (calls.append(os.readlink(f"/proc/self/fd/{fd}")), real_fsync(fd)))
    monkeypatch.setattr(os, "replace", lambda a, b: (calls.append("rename"), real_replace(a, b)))
    durable.write_file(tmp_path / "x", b"abc")
    assert calls == [str(tmp_path / "x.part"), "rename", str(tmp_path)]


def test_large_writes_are_whole_even_if_the_system_takes_less_at_a_time(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, bytes(data[:7])))
    durable.write_file(tmp_path / "x", bytes(range(100)))
    assert (tmp_path / "x").read_bytes() == bytes(range(100))


@pytest.mark.parametrize("has_links", [True, False])
def test_one_of_many_creators_wins(tmp_path, monkeypatch, has_links):
    if not has_links:

        def no_links(*_):
            raise OSError(errno.EPERM, "no hard links here")

        monkeypatch.setattr(os, "link", no_links)
    results = []
    start = threading.Barrier(8)

    def create(number):
        start.wait(100)
        results.append((durable.create_file(tmp_path / "x", b"%d" % number), number))

    threads = [threading.Thread(target=create, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    winners = [number for won, number in results if won]
    assert len(winners) == 1
    assert (tmp_path / "x").read_bytes() == b"%d" % winners[0]
    assert os.listdir(tmp_path) == ["x"]
    assert not durable.create_file(tmp_path / "x", b"late")


def test_directories_are_made_with_those_above_and_again_is_fine(tmp_path):
    for _ in range(2):
        durable.make_directory(tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        durable.make_directory(tmp_path / "file" / "below")


def test_a_new_directory_appears_whole_or_not_at_all(tmp_path):
    with durable.NewDirectory(tmp_path / "d", "7") as new:
        (new.staging / "deep").mkdir()
        (new.staging / "deep" / "f").write_text("x")
        assert not (tmp_path / "d").exists()
        new.publish()
    assert (tmp_path / "d" / "deep" / "f").read_text() == "x"
    with pytest.raises(RuntimeError), durable.NewDirectory(tmp_path / "e", "7") as new:
        (new.staging / "f").write_text("x")
        raise RuntimeError
    with pytest.raises(OSError), durable.NewDirectory(tmp_path / "d", "7") as new:
        new.publish()
    assert os.listdir(tmp_path) == ["d"]
    assert (tmp_path / "d" / "deep" / "f").read_text() == "x"


def test_appended_lines_do_not_mix(tmp_path):
    files = [durable.AppendFile(tmp_path / "log") for _ in range(4)]

    def append(number):
        for _ in range(200):
            files[number].append(b"%d" % number * 50 + b"\n")

    threads = [threading.Thread(target=append, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    for file in files:
        file.flush()
        file.close()
    lines = (tmp_path / "log").read_bytes().splitlines()
    assert len(lines) == 800
    assert {bytes(line) for line in lines} == {b"%d" % n * 50 for n in range(4)}


def test_a_line_after_a_torn_one_is_not_lost_with_it(tmp_path, monkeypatch):
    real = os.write
    file = durable.AppendFile(tmp_path / "log")
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:3]))
    with pytest.raises(OSError):
        file.append(b"first line\n")
    monkeypatch.undo()
    file.append(b"second line\n")
    file.close()
    assert (tmp_path / "log").read_bytes() == b"fir\nsecond line\n"


def test_deleting_what_is_gone_is_fine_and_what_is_not_ours_stays(tmp_path):
    durable.delete_file(tmp_path / "gone")
    durable.delete_directory(tmp_path / "gone")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_text("x")
    durable.delete_directory(tmp_path / "d")
    durable.delete_file(tmp_path / "d")
    assert (tmp_path / "d" / "f").exists()


def test_reading_refuses_what_is_no_file_of_ours(tmp_path):
    (tmp_path / "real").write_bytes(b"x" * 100)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "dir").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "dir", "pipe"):
        with pytest.raises(DamagedError, match=name):
            durable.read_file(tmp_path / name, 1000)
    with pytest.raises(DamagedError, match="100 bytes, more than it can have"):
        durable.read_file(tmp_path / "real", 99)
    assert durable.read_file(tmp_path / "real", 100) == b"x" * 100
    with pytest.raises(FileNotFoundError):
        durable.read_file(tmp_path / "none", 100)


@pytest.mark.parametrize(
    ("number", "kind", "word"),
    [
        (errno.ENOSPC, StorageError, "free space"),
        (errno.EDQUOT, StorageError, "quota"),
        (errno.EROFS, StorageError, "read-only"),
        (errno.EIO, StorageError, "check it"),
        (errno.EXDEV, StorageError, "check the file system"),
        (errno.EACCES, PermissionDeniedError, "who may write"),
        (errno.EPERM, PermissionDeniedError, "who may write"),
    ],
)
def test_errors_say_where_and_what_to_do(tmp_path, number, kind, word):
    with pytest.raises(kind) as caught, durable.explained("write", tmp_path / "x", safe="older ones"):
        raise OSError(number, os.strerror(number))
    assert str(tmp_path / "x") in caught.value.what
    assert os.strerror(number) in caught.value.what
    assert word in caught.value.remedy
    assert caught.value.safe == "older ones"
