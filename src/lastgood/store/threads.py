"""Threads of ours in a process that belongs to somebody else: whatever its signal handlers raise, they can be waited for.

Python runs a signal handler in the main thread, between any two instructions, and the program's handler may raise. The
threads and pools of the standard library are Python code there: an exception in the wrong moment leaves a lock half taken
(`RuntimeError: cannot release un-acquired lock`), a thread that nobody may wait for, or one that dies in its first line.
Here the main thread waits in single calls that the interpreter makes whole or not at all.
"""

import _thread
import ctypes
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Self, TypeVar

T = TypeVar("T")

_NONE: Any = object()

_PR_SET_NAME = 15
_libc = ctypes.CDLL(None)


class Latch:
    """Opened once, by one thread; others wait for it."""

    def __init__(self) -> None:
        self.is_open = False
        self._lock = _thread.allocate_lock()
        self._lock.acquire()

    def open(self) -> None:
        """Opening it again is fine for the thread that has opened it."""
        if not self.is_open:
            self.is_open = True
            self._lock.release()

    def wait(self, limit_s: float = -1.0) -> bool:
        """True when it is open, False after the limit."""
        try:
            return self.is_open or self._lock.acquire(timeout=limit_s)
        finally:
            if self.is_open:
                # Others wait, too: the lock is no more than what wakes one after the other now.
                with suppress(RuntimeError):
                    self._lock.release()


class Beside:
    """Runs `work`, which must not raise, in a thread that does not keep the process alive.

    `join` returns when it is over, and also, where `start` was left by an exception, when it can no longer begin.
    `name` is what `ps -L` and debuggers show; the kernel keeps 15 bytes of it.
    """

    def __init__(self, work: Callable[[], None], name: str) -> None:
        self._work = work
        self._name = name
        self._end = Latch()
        self._is_started = False
        self._pid = os.getpid()
        self._claims = [None]
        """Who takes it decides: the thread, to begin, or who waits for a thread of which it is not known whether it
        was started."""

    def start(self) -> None:
        _thread.start_new_thread(self._run, ())
        self._is_started = True

    @property
    def is_over(self) -> bool:
        return self._end.is_open

    def join(self) -> None:
        """May be called again after an exception, and by several threads if `start` was not left by one."""
        if os.getpid() != self._pid:
            # A forked child has none of its parent's threads.
            return
        if not self._is_started and self._claim():
            self._end.open()
        self._end.wait()

    def _claim(self) -> bool:
        with suppress(IndexError):
            self._claims.pop()
            return True
        return False

    def _run(self) -> None:
        if not self._claim():
            return
        try:
            _libc.prctl(_PR_SET_NAME, self._name.encode(), 0, 0, 0)
            self._work()
        finally:
            # What it refers to is free when it is over, not when somebody forgets this object.
            del self._work
            self._end.open()


class Team:
    """Several threads that call `work` with one item after the other, in order, until a call returns True or raises.

    What is taken is finished: when a thread meets the last item, no earlier one is left out. As a context manager it
    takes no more items at the end, and no thread outlives it. `enter` is called first in each thread.
    """

    def __init__(
        self,
        items: Iterable[T],
        work: Callable[[T], object],
        threads: int,
        name: str,
        enter: Callable[[], None] = lambda: None,
    ) -> None:
        waiting = iter(items)
        self._is_over = False
        self._errors: list[BaseException] = []

        def go_on() -> None:
            try:
                enter()
                while not self._is_over and (item := next(waiting, _NONE)) is not _NONE:
                    if work(item) is True:
                        self._is_over = True
            except BaseException as error:  # noqa: BLE001 - raised again by `join`
                self._is_over = True
                self._errors.append(error)

        self._threads = [Beside(go_on, name) for _ in range(threads)]

    def start(self) -> None:
        """To be called in the block of which this is the context."""
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Wait until all is done. Raises what the first call raised that did."""
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        interruption: BaseException | None = None
        while True:
            # No exception gets past this: threads that went on would use what their caller gives away.
            try:
                self._is_over = True
                for thread in self._threads:
                    thread.join()
                break
            except BaseException as error:  # noqa: BLE001 - raised below
                interruption = error
        if interruption is not None:
            raise interruption


def each(
    items: Sequence[T],
    work: Callable[[T], object],
    threads: int,
    name: str,
    enter: Callable[[], None] = lambda: None,
) -> None:
    """Call `work` with each item, in order, in several threads. Raises what the first call raised that did; after
    that, and after one that returned True, no more items are taken. For the rest, see Team."""
    with Team(items, work, min(threads, len(items)), name, enter) as team:
        team.start()
        team.join()
