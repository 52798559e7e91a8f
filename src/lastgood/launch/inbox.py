"""Signals to the launcher, taken as messages: the handlers themselves do nothing."""

import os
import signal
import socket
from types import FrameType
from typing import Any

from lastgood.core.stopping import FORWARDED


class SignalInbox:
    """Collects signals in order of arrival. `fileno()` becomes readable when one is there.

    SIGHUP and SIGINT stay ignored where they were ignored at our start (nohup, a shell's background job).
    SIGCHLD only wakes the reader. Use as a context manager, in the main thread.
    """

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._previous: dict[int, Any] = {}
        self._previous_fd = -1
        self._seen: list[int] = []

    def __enter__(self) -> "SignalInbox":
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._previous_fd = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in (*FORWARDED, signal.SIGCHLD):
            may_be_ignored = number in (signal.SIGHUP, signal.SIGINT)
            if may_be_ignored and signal.getsignal(number) is signal.SIG_IGN:
                continue
            self._previous[number] = signal.signal(number, _do_nothing)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        signal.set_wakeup_fd(self._previous_fd)
        self._reader.close()
        self._writer.close()

    def fileno(self) -> int:
        return self._reader.fileno()

    def take(self) -> list[int]:
        """Numbers of the signals that have arrived since the last call, SIGCHLD left out."""
        self._read()
        found, self._seen = self._seen, []
        return found

    def is_empty(self) -> bool:
        """True if `take` would give nothing."""
        self._read()
        return not self._seen

    def _read(self) -> None:
        while True:
            try:
                numbers = os.read(self._reader.fileno(), 4096)
            except BlockingIOError:
                return
            self._seen += [number for number in numbers if number in FORWARDED]


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """The number itself arrives through the wakeup descriptor."""
