"""How long a save takes here: a real one, by our own writer, into a directory that is removed afterwards."""

import mmap
import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from lastgood.core.errors import StorageError
from lastgood.core.tensorfile import ArraySpec
from lastgood.core.units import byte_size
from lastgood.store import durable
from lastgood.store.jobdir import create_job
from lastgood.store.writer import CheckpointWriter

REPETITIONS = 3
MOST_BYTES = 4_000_000_000
"""More is not written: the time for the rest follows from the speed."""

LONG_S = 120.0
"""A write that took so long is not repeated."""

_SMALL_BYTES = 4096
_BLOCK_BYTES = 64 * 2**20
_SPARE_BYTES = 10_000_000
"""Stays free, with a tenth of what is written: a file system that is full to the last byte troubles others."""
_COPY_BYTES = 256 * 2**20


class Measured(msgspec.Struct, frozen=True):
    """Times of whole saves: data with checksums, flushed, and committed."""

    directory: str
    bytes: int
    """Written each time."""
    seconds: list[float]
    small_s: float
    """A save of next to nothing: what each one costs beside its bytes."""
    wanted_bytes: float
    """The state's size."""
    writers: int
    """That write at once, each at this speed."""

    @property
    def median_s(self) -> float:
        return sorted(self.seconds)[len(self.seconds) // 2]

    @property
    def bytes_per_s(self) -> float:
        return self.bytes / max(self.median_s - self.small_s, self.median_s / 10, 1e-6)

    @property
    def write_s(self) -> float:
        """Of the whole state: the fixed part, and each writer's share of the bytes at the measured speed."""
        if self.bytes == round(self.wanted_bytes) and self.writers == 1:
            return self.median_s
        return self.small_s + self.wanted_bytes / self.writers / self.bytes_per_s

    def __str__(self) -> str:
        times = f"{min(self.seconds):.3g} to {max(self.seconds):.3g} s"
        count = f"{len(self.seconds)} save{'s' if len(self.seconds) > 1 else ''}"
        text = f"measured: {count} of {byte_size(self.bytes)} took {times}, {byte_size(self.bytes_per_s)}/s"
        if self.bytes != round(self.wanted_bytes):
            text += f"; scaled to {byte_size(self.wanted_bytes)}"
        return text + (f" in {self.writers} writers at once" if self.writers > 1 else "")


def measure_writes(
    directory: Path, wanted_bytes: float, *, writers: int = 1, most_bytes: int = MOST_BYTES, clock: Callable[[], float]
) -> Measured:
    """Save several times what one writer has to save, at most `most_bytes`, into a directory of its own below `directory`.

    Raises StorageError where there is no room or the write fails, PermissionDeniedError where nothing may be written.
    Nothing stays, except where the process is killed meanwhile: `lastgood-measure-*.part` may be deleted.
    """
    size = max(min(round(wanted_bytes / writers), most_bytes), _SMALL_BYTES)
    with durable.explained("measure a save in", directory, safe="nothing of it stays there"):
        if not directory.is_dir():
            raise StorageError(
                f"--measure {directory}: {'no directory' if directory.exists() else 'there is no such directory'}",
                remedy="give the directory that the job will save to, or the one above it",
            )
        _check_room(directory, size)
        with durable.NewDirectory(directory / "lastgood-measure", os.urandom(4).hex()) as place:
            job = create_job(place.staging / "job")
            block = _noise(min(size, _BLOCK_BYTES))
            step = 0

            def save(count: int) -> float:
                nonlocal step
                step += 1
                began = clock()
                pieces = _pieces(block, count)
                writer = CheckpointWriter(job, step, 1, fence=lambda: None)
                arrays = [(ArraySpec(f"a{i}", "U8", (len(piece),)), piece) for i, piece in enumerate(pieces)]
                writer.write_part(0, arrays, {})
                writer.commit(1)
                took_s = clock() - began
                # One at a time is there, so that no more room is needed than was looked for.
                for path in writer.directory.iterdir():
                    durable.delete_file(path)
                return took_s

            small_s = save(_SMALL_BYTES)
            seconds = [save(size)]
            while len(seconds) < REPETITIONS and sum(seconds) < LONG_S:
                seconds.append(save(size))
    return Measured(os.fspath(directory), size, seconds, min(small_s, *seconds), wanted_bytes, writers)


def copy_speed(clock: Callable[[], float]) -> float:
    """Bytes a second of one thread that copies memory into memory which has been used before: what a snapshot is.

    From a GPU it is the bus that decides, which nothing here measures.
    """
    source, target = mmap.mmap(-1, _COPY_BYTES), mmap.mmap(-1, _COPY_BYTES)
    with memoryview(source) as data, memoryview(target) as into:
        into[:] = data
        times = []
        for _ in range(3):
            began = clock()
            into[:] = data
            times.append(clock() - began)
    source.close()
    target.close()
    return _COPY_BYTES / max(sorted(times)[1], 1e-6)


def now_s() -> float:
    return time.perf_counter()


def _check_room(directory: Path, size: int) -> None:
    room = os.statvfs(directory)
    free = room.f_bavail * room.f_frsize
    spare = _SPARE_BYTES + size // 10
    if free < size + spare:
        raise StorageError(
            f"--measure {directory}: {byte_size(free)} are free there, and {byte_size(size)} would be written, with "
            f"{byte_size(spare)} to spare",
            safe="nothing was written",
            remedy="free space, measure elsewhere on the same storage, or write less: --measure-most SIZE",
        )


def _noise(size: int) -> memoryview:
    """Bytes that no file system can compress, on a page of their own as direct I/O wants them."""
    block = memoryview(mmap.mmap(-1, size))
    for begin in range(0, size, 2**20):
        part = os.urandom(min(2**20, size - begin))
        block[begin : begin + len(part)] = part
    return block


def _pieces(block: memoryview, size: int) -> list[memoryview]:
    whole, rest = divmod(size, len(block))
    return [block] * whole + ([block[:rest]] if rest else [])
