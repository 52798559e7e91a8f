"""Signals that wait while a job is ended and faults are undone: a second Ctrl-C must not leave a process, or a full disk."""

import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ONE_WISH_S = 1.0
"""Signals that come within it of one another are one wish to end. Not for ever: an exception can get lost in a callback."""


class EndedError(BaseException):
    """The drill itself was told to end, by a signal. Not an Exception: nobody is to go on after it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def ending_by_exception(clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """SIGTERM, SIGHUP and Ctrl-C end what is inside like an exception does, with all that has to be undone. In the main thread.

    A signal right after another is dropped: it would end what the first one has only begun to undo.
    """
    raised_at = -math.inf

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal raised_at
        now = clock()
        if now - raised_at < _ONE_WISH_S:
            return
        raised_at = now
        raise KeyboardInterrupt if number == signal.SIGINT else EndedError(number)

    numbers = [signal.SIGTERM, signal.SIGHUP]
    # Where it is ignored, as in the background of a shell, it stays so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        numbers.append(signal.SIGINT)
    before = {number: signal.signal(number, end) for number in numbers}
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
