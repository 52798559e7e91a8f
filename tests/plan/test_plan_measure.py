"""A real save is timed, by our own writer; nothing stays; what cannot be is said."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastgood.core.errors import PermissionDeniedError, StorageError
from lastgood.plan import measure
from lastgood.plan.measure import Measured, copy_speed, measure_writes


def ticking(step_s: float = 0.5) -> Iterator[float]:
    now = 0.0
    while True:
        yield now
        now += step_s


def clock(step_s: float = 0.5):  # type: ignore[no-untyped-def]
    ticks = ticking(step_s)
    return lambda: next(ticks)


def test_whole_saves_are_timed_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    real = measure.CheckpointWriter.commit

    def commit(self, *arguments, **named):  # type: ignore[no-untyped-def]
        written.append(sum(path.stat().st_size for path in self.directory.iterdir()))
        return real(self, *arguments, **named)

    monkeypatch.setattr(measure.CheckpointWriter, "commit", commit)
    found = measure_writes(tmp_path, 3_000_000, clock=clock())
    assert (found.bytes, found.seconds, found.small_s) == (3_000_000, [0.5] * 3, 0.5)
    assert [size > 3_000_000 for size in written] == [False, True, True, True], "one small save, three whole ones"
    assert list(tmp_path.iterdir()) == []
    assert found.write_s == 0.5
    assert "3 saves of 3 MB" in str(found)
    assert "scaled" not in str(found)


def test_what_is_too_much_is_scaled_and_that_is_said(tmp_path: Path) -> None:
    found = measure_writes(tmp_path, 14 * 7e9, most_bytes=2_000_000, clock=clock())
    assert found.bytes == 2_000_000
    assert "scaled to 98 GB" in str(found)


def test_the_fixed_part_of_a_save_is_not_scaled() -> None:
    found = Measured("/d", 1_000_000_000, [3.0, 1.5, 2.0], 1.0, 10e9, 1)
    assert found.median_s == 2.0
    assert found.bytes_per_s == 1e9
    assert found.write_s == pytest.approx(1.0 + 10)
    several = Measured("/d", 1_000_000_000, [3.0, 1.5, 2.0], 1.0, 10e9, 5)
    assert several.write_s == pytest.approx(1.0 + 2)
    assert "5 writers at once" in str(several)


def test_a_slow_write_is_not_repeated(tmp_path: Path) -> None:
    found = measure_writes(tmp_path, 3_000_000, clock=clock(200.0))
    assert len(found.seconds) == 1
    assert "1 save of" in str(found)


def test_no_room_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    free = os.statvfs(tmp_path)
    too_much = free.f_bavail * free.f_frsize + 10**9
    with pytest.raises(StorageError, match="are free there") as caught:
        measure_writes(tmp_path, too_much, most_bytes=too_much, clock=clock())
    assert "nothing was written" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_meanwhile_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StorageError, match="No space left"):
        measure_writes(tmp_path, 3_000_000, clock=clock())
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_none_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, word in (("absent", "no such directory"), ("file", "no directory")):
        with pytest.raises(StorageError, match=word):
            measure_writes(tmp_path / name, 1000, clock=clock())
    assert not (tmp_path / "absent").exists()


def test_a_directory_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, *arguments: object, **named: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(PermissionDeniedError, match="cannot measure a save in"):
        measure_writes(tmp_path, 1000, clock=clock())


def test_a_copy_in_memory_has_a_speed() -> None:
    assert copy_speed(clock(0.1)) == pytest.approx(256 * 2**20 / 0.1)
