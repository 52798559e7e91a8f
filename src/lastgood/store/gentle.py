"""Writing no faster and no more urgently than asked: a bandwidth limit, and the kernel's I/O priority."""

import ctypes
import os
import threading
import time
from collections.abc import Callable

from lastgood.core.writing import Writing

_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "riscv64": 30, "ppc64le": 273, "s390x": 282}
_WHO_PROCESS = 1
_IDLE_CLASS = 3 << 13
_BEST_EFFORT_CLASS = (2 << 13) | 4


class Pacer:
    """One write's share of the device. `take` is called by each writing thread before each block."""

    def __init__(
        self,
        writing: Writing,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self.threads = writing.threads or default_threads()
        self._is_idle = writing.priority == "idle"
        self._bytes_per_s = writing.bytes_per_s
        self._clock = clock
        self._hurried = threading.Event()
        self._sleep = sleep or self._hurried.wait
        self._lock = threading.Lock()
        self._free_at = clock()
        self._entered = threading.local()

    def enter(self) -> None:
        """The calling thread begins to write: give it the priority."""
        self._entered.is_idle = self._is_idle
        set_io_priority(is_idle=self._is_idle)

    def hurry(self) -> None:
        """From now on there is no limit, and no thread writes idly."""
        self._is_idle = False
        self._bytes_per_s = None
        self._hurried.set()

    def take(self, size: int) -> None:
        """Wait until `size` bytes may be written."""
        if not self._is_idle and getattr(self._entered, "is_idle", False):
            self.enter()
        bytes_per_s = self._bytes_per_s
        if bytes_per_s is None:
            return
        with self._lock:
            now = self._clock()
            begin = max(now, self._free_at)
            self._free_at = begin + size / bytes_per_s
        if begin > now:
            self._sleep(begin - now)


class FullSpeed(Pacer):
    """As fast as it goes, at the priority that the thread has: the job waits for it."""

    def __init__(self, threads: int | None = None) -> None:
        super().__init__(Writing(priority="normal", threads=threads or 2))

    def enter(self) -> None:
        pass


def default_threads() -> int:
    """How many threads write beside the job: on few cores a second one takes from the loop what it gives the write."""
    return 2 if len(os.sched_getaffinity(0)) >= 4 else 1


def set_io_priority(*, is_idle: bool) -> None:
    """Set the I/O priority of the calling thread; a machine that has none is left as it is."""
    number = _IOPRIO_SET.get(os.uname().machine)
    if number is not None:
        ctypes.CDLL(None).syscall(number, _WHO_PROCESS, 0, _IDLE_CLASS if is_idle else _BEST_EFFORT_CLASS)
