"""Signals that wait while a job is ended and faults are undone: a second Ctrl-C must not leave a process, or a full disk."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class EndedError(BaseException):
    """The drill itself was told to end, by a signal. Not an Exception: nobody is to go on after it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def ending_by_exception() -> Iterator[None]:
    """SIGTERM and SIGHUP end what is inside like an exception does, with all that has to be undone. In the main thread."""

    def end(number: int, frame: FrameType | None) -> None:
        raise EndedError(number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Signals that end a program are acted on after the block. In threads other than the main one there are none to defer."""
    came: list[int] = []
    try:
        before = {number: signal.signal(number, lambda number, frame: came.append(number)) for number in _ENDING}
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            os.kill(os.getpid(), came[0])
