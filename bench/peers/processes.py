"""All processes of one measurement, whoever started them: what they write and how much memory they hold.

They are known by a variable in their environment, which every descendant inherits, also one in a session of its own.
"""

import ctypes
import mmap
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

VARIABLE = "LASTGOOD_BENCH_TOKEN"

_SHARED = re.compile(r"/memfd:|/dev/shm/|/dev/zero|/SYSV")


def members(token: str) -> Iterator[int]:
    wanted = f"{VARIABLE}={token}".encode()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                if wanted in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                    yield int(name)


def written_bytes(token: str) -> int:
    """What they have caused to be written to devices so far."""
    total = 0
    for pid in members(token):
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/io").read_text().splitlines():
                if line.startswith("write_bytes:"):
                    total += int(line.split()[1])
    return total


def memory_bytes(token: str) -> int:
    """Memory that belongs to them: private pages, their share of files' pages, and all shared memory once.

    Pages of shared memory that nobody maps at the moment are in no process's share, so shared memory is counted
    by its objects (memfd, /dev/shm), whoever holds them.
    """
    total = 0
    objects: dict[tuple[int, int], int] = {}
    for pid in members(token):
        with suppress(OSError):
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            total += sum(1024 * int(found) for found in re.findall(r"^Pss_(?:Anon|File): +(\d+)", rollup, re.MULTILINE))
            for path in _shared_objects(pid):
                with suppress(OSError):
                    status = os.stat(path)
                    objects[status.st_dev, status.st_ino] = 512 * status.st_blocks
    return total + sum(objects.values())


def _shared_objects(pid: int) -> Iterator[str]:
    for kind in ("fd", "map_files"):
        for name in os.listdir(f"/proc/{pid}/{kind}"):
            path = f"/proc/{pid}/{kind}/{name}"
            with suppress(OSError):
                if _SHARED.match(os.readlink(path)):
                    yield path


def wait_for_end(token: str, limit_s: float) -> list[str]:
    """Wait until none is left; those that stay longer are ended, and their command lines returned."""
    until = time.monotonic() + limit_s
    while left := list(members(token)):
        if time.monotonic() > until:
            break
        time.sleep(0.05)
    names = []
    for pid in left:
        with suppress(OSError):
            names.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip())
            os.kill(pid, signal.SIGKILL)
    return names


def cached_bytes(fd: int) -> int:
    """How much of a file is in the page cache."""
    size = os.fstat(fd).st_size
    if size == 0:
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    with mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ) as view:
        pages = -(-size // mmap.PAGESIZE)
        states = (ctypes.c_ubyte * pages)()
        # A read-only mapping gives no address to ctypes; another one of ours does.
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        address = libc.mmap(None, len(view), mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
        libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), states)
        libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(size))
        return mmap.PAGESIZE * sum(state & 1 for state in states)
