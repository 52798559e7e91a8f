"""What the machine can do at best: copies in memory, and raw reads and writes past the page cache."""

import json
import mmap
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

BLOCK_BYTES = 16 * 2**20
ALIGNMENT = 4096


def memcpy_s(size: int, threads: int) -> float:
    """Copying `size` bytes between two places whose pages are there, best of three."""
    source, target = (np.frombuffer(mmap.mmap(-1, size), np.uint8) for _ in range(2))
    source[:] = 1
    target[:] = 0
    step = -(-size // threads)
    with ThreadPoolExecutor(threads) as pool:

        def copy() -> None:
            # NumPy lets other threads run while it copies.
            list(pool.map(lambda at: np.copyto(target[at : at + step], source[at : at + step]), range(0, size, step)))

        return min(_timed(copy) for _ in range(3))


def raw_write_s(directory: Path, size: int, threads: int) -> float:
    """Writing `size` bytes to a new file with direct I/O, flushed with its directory."""
    path = directory / "raw"
    size = -(-size // ALIGNMENT) * ALIGNMENT
    block = memoryview(mmap.mmap(-1, BLOCK_BYTES))
    block[:] = os.urandom(2**20) * (BLOCK_BYTES // 2**20)

    def write() -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_DIRECT)
        try:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(lambda at: os.pwrite(fd, block[: min(BLOCK_BYTES, size - at)], at), _blocks(size)))
            os.fsync(fd)
        finally:
            os.close(fd)
        parent = os.open(directory, os.O_RDONLY)
        os.fsync(parent)
        os.close(parent)

    try:
        return _timed(write)
    finally:
        path.unlink(missing_ok=True)


def raw_read_s(path: Path, threads: int) -> float:
    """Reading a file with direct I/O into memory whose pages are there."""
    size = path.stat().st_size
    target = memoryview(mmap.mmap(-1, -(-size // BLOCK_BYTES) * BLOCK_BYTES))
    np.frombuffer(target, np.uint8)[:: mmap.PAGESIZE] = 1

    def read() -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
        try:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(lambda at: os.preadv(fd, [target[at : at + BLOCK_BYTES]], at), _blocks(size)))
        finally:
            os.close(fd)

    return _timed(read)


def make_file(path: Path, size: int) -> None:
    """A file to be read, whose content does not compress, and which is not in the page cache."""
    with path.open("wb") as file:
        for at in _blocks(size):
            file.write(os.urandom(min(BLOCK_BYTES, size - at)))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def fio_s(directory: Path, size: int, kind: str) -> float | None:
    """Seconds that fio takes to `write` (flushed) or `read` `size` bytes with direct I/O; None without fio."""
    if shutil.which("fio") is None:
        return None
    size = -(-size // ALIGNMENT) * ALIGNMENT
    path = directory / "fio"
    options = {
        "name": kind,
        "filename": path,
        "rw": kind,
        "bs": min(BLOCK_BYTES, size),
        "size": size,
        "direct": 1,
        "ioengine": "libaio",
        "iodepth": 4,
        "end_fsync": 1,
        "invalidate": 1,
        "output-format": "json",
    }
    command = ["fio", *(f"--{name}={value}" for name, value in options.items())]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, timeout=600)
    finally:
        path.unlink(missing_ok=True)
    job = json.loads(done.stdout)["jobs"][0]
    # In whole milliseconds.
    return max(1.0, float(job["job_runtime"])) / 1000


def _blocks(size: int) -> range:
    return range(0, size, BLOCK_BYTES)


def _timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
