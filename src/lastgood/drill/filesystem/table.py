"""What a file system has been told to do wrong, and how often each operation was asked for.

A table counts operations by the names of FUSE's calls: "write", "fsync", "rename", "create", "open", "read" ...; all that
change or flush something also count as "change".
"""

import errno
import os
import threading
import time
from collections.abc import Callable

import msgspec

KILL = -1
"""As the error of a failure: the process that asks is killed, before its operation takes effect."""
ANY_CHANGE = "change"


class Failure(msgspec.Struct, frozen=True):
    operation: str
    """Name of a call, or "change" for any that changes or flushes something."""
    error: int
    nth: int
    """Which one fails, counted from when the failure was set."""
    count: int
    """How many fail from there on."""


class FaultTable:
    """The faults of one file system. Calls that it holds back wait in their own threads; methods may be called by any."""

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._failures: list[tuple[int, Failure]] = []
        self._delay_s = 0.0
        self._bytes_per_s = 0.0
        self._free_at = 0.0
        """When the disk has done all that it was given, at its bandwidth."""
        self._left_bytes: int | None = None
        self._faults = self._slow = self._full = 0
        """How many there were; the number of the one that makes it slow, and of the one that fills it."""
        self._felt: set[int] = set()

    # what is told, each with the number that the fault gets

    def fail(self, failure: Failure) -> int:
        """Answer `count` calls of that name with an error, from the nth on, counted from now."""
        with self._lock:
            done = self._counts.get(failure.operation, 0)
            self._faults += 1
            self._failures.append((self._faults, msgspec.structs.replace(failure, nth=done + failure.nth)))
            return self._faults

    def slow(self, delay_s: float, bytes_per_s: float = 0.0) -> int:
        """Each change takes that much longer; reads and writes have that bandwidth together (0: as it is)."""
        with self._lock:
            self._delay_s, self._bytes_per_s, self._free_at = delay_s, bytes_per_s, self._clock()
            self._faults += 1
            self._slow = self._faults
            return self._slow

    def fill(self, left_bytes: int) -> int:
        """The disk has that much space left. What is deleted from now on is free again."""
        with self._lock:
            self._left_bytes = left_bytes
            self._faults += 1
            self._full = self._faults
            return self._full

    def heal(self) -> None:
        """No more faults; counting begins anew. What came of them stays known."""
        with self._lock:
            self._failures.clear()
            self._counts.clear()
            self._delay_s = self._bytes_per_s = 0.0
            self._left_bytes = None

    def counts(self) -> dict[str, int]:
        """How often each call was asked for since it was made, or healed."""
        with self._lock:
            return dict(self._counts)

    def was_felt(self, fault: int) -> bool:
        """A call was refused, or held back, by the fault of that number."""
        with self._lock:
            return fault in self._felt

    # what a file system asks

    def enter(self, operation: str, *, changes: bool = False) -> int:
        """Count a call, hold it back, and say the error that it is to be answered with; 0 if with none."""
        with self._lock:
            delay_s = self._delay_s if changes else 0.0
            if delay_s:
                self._felt.add(self._slow)
        if delay_s:
            self._sleep(delay_s)
        with self._lock:
            for name in (operation, ANY_CHANGE) if changes else (operation,):
                self._counts[name] = number = self._counts.get(name, 0) + 1
                for fault, failure in self._failures:
                    if failure.operation == name and failure.nth <= number < failure.nth + failure.count:
                        self._felt.add(fault)
                        return failure.error
        return 0

    def move(self, size: int) -> None:
        """Wait as long as so many bytes take at the bandwidth."""
        with self._lock:
            if not self._bytes_per_s or not size:
                return
            now = self._clock()
            self._free_at = max(self._free_at, now) + size / self._bytes_per_s
            wait_s = self._free_at - now
            self._felt.add(self._slow)
        self._sleep(wait_s)

    def take(self, size: int) -> int:
        """How many of these bytes there is space for, which are then used. Raises OSError if there is for none."""
        with self._lock:
            if self._left_bytes is None or size <= 0:
                return size
            given = min(size, max(self._left_bytes, 0))
            if not given:
                self._felt.add(self._full)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._left_bytes -= given
            return given

    def give_back(self, size: int) -> None:
        with self._lock:
            if self._left_bytes is not None:
                self._left_bytes += size

    def left_bytes(self) -> int | None:
        """Space that is left; None if the disk has not been told to be full."""
        with self._lock:
            return None if self._left_bytes is None else max(self._left_bytes, 0)
