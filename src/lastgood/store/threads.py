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
from typing import Any, Self, TypeVar

T = TypeVar("T")

_NONE: Any = object()

_PR_SET_NAME = 15
_libc = ctypes.CDLL(None)


class Latch:
    """Opened once; others wait for it."""

    def __init__(self) -> None:
        self.is_open = False
        self._lock = _thread.allocate_lock()
        self._lock.acquire()

    def open(self) -> None:
        self.is_open = True
        self._wake()

    def wait(self, limit_s: float = -1.0) -> bool:
        """True when it is open, False after the limit."""
        try:
            return self.is_open or self._lock.acquire(timeout=limit_s)
        finally:
            if self.is_open:
                self._wake()

    def _wake(self) -> None:
        """Once it is open the lock is no more than what wakes those who wait, one after the other."""
        try:
            self._lock.release()
        except RuntimeError:
            # Somebody else has just done it. (Not `suppress`, which is Python: a handler may raise in it.)
            return


class Beside:
    """Runs `work`, which must not raise, in a thread that does not keep the process alive.

    `join` returns when it is over, and also, where `start` failed or was left by an exception, when it can no longer begin.
    `name` is what `ps -L` and debuggers show; the kernel keeps 15 bytes of it.
    """

    def __init__(self, work: Callable[[], None], name: str) -> None:
        self._work = work
        self._name = name
        self._end = Latch()
        self._is_started = False
        self._pid = os.getpid()
        self._owner: dict[str, str] = {}
        """Who comes first has it: the thread, which begins, or who would wait for a thread of which it is not known
        whether it was started. It can be asked again after an exception."""

    def start(self) -> bool:
        """False if no thread can be had (a limit of processes, or the interpreter ends)."""
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError:
            return False
        self._is_started = True
        return True

    def join(self) -> None:
        """May be called again after an exception, and by several threads at once."""
        # A forked child has none of its parent's threads.
        if os.getpid() == self._pid and (self._is_started or not self.call_off()):
            self._end.wait()

    def call_off(self) -> bool:
        """Do not begin any more. False if it has begun."""
        return self._owner.setdefault("is", "nobody") == "nobody"

    def _run(self) -> None:
        if self._owner.setdefault("is", "thread") != "thread":
            # It was started and called off: who knows of its start waits.
            self._end.open()
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
        self._waiting = iter(items)
        self._work = work
        self._is_over = False
        self._is_alone = False
        self._errors: list[BaseException] = []

        def go_on() -> None:
            try:
                enter()
                self._take_all()
            except BaseException as error:  # noqa: BLE001 - raised again by `join`
                self._is_over = True
                self._errors.append(error)

        self._threads = [Beside(go_on, name) for _ in range(threads)]

    def start(self) -> bool:
        """To be called in the block of which this is the context. False if no thread at all can be had: `join` does all
        of it then."""
        self._is_alone = sum([thread.start() for thread in self._threads]) == 0
        return not self._is_alone

    def join(self) -> None:
        """Wait until all is done. Raises what the first call raised that did."""
        if self._is_alone:
            self._take_all()
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _take_all(self) -> None:
        while not self._is_over and (item := next(self._waiting, _NONE)) is not _NONE:
            if self._work(item) is True:
                self._is_over = True

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
