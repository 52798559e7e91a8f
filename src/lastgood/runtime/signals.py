"""Signals raise a flag, nothing else; the loop looks at it at its next safe point.

Saving inside a handler would run between two arbitrary bytecodes: half a step done, locks held.
"""

import signal
import threading
from types import FrameType
from typing import Any

STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
"""Save and stop. USR1 is the usual early warning of batch scripts."""

SAVE_SIGNALS = (signal.SIGUSR2,)
"""Save and carry on."""


class SignalFlags:
    """Installed handlers and what they have seen."""

    def __init__(self) -> None:
        self.stop_signal = ""
        """Name of the first signal that asked to stop; empty if none did."""
        self.is_save_asked = False
        self._previous: dict[int, Any] = {}

    def install(self) -> bool:
        """Take over the signals; False where that is not possible (not the main thread)."""
        if threading.current_thread() is not threading.main_thread():
            return False
        for number in (*STOP_SIGNALS, *SAVE_SIGNALS):
            # An ignored signal (nohup, a parent that ignores USR1) is somebody's decision: but a stop
            # request that is ignored would lose work, so only SIGINT in the background keeps being ignored.
            if number == signal.SIGINT and signal.getsignal(number) is signal.SIG_IGN:
                continue
            self._previous[number] = signal.signal(number, self._handle)
        return True

    def restore(self) -> None:
        """Give the signals back to whoever had them. (Also in a forked child, for which a flag that nobody
        looks at would mean that `terminate()` does not end it.)"""
        for number, handler in self._previous.items():
            if signal.getsignal(number) == self._handle:
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        self._previous.clear()

    def take_save(self) -> bool:
        """True once for each request to save and carry on."""
        asked, self.is_save_asked = self.is_save_asked, False
        return asked

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number in SAVE_SIGNALS:
            self.is_save_asked = True
        else:
            if number == signal.SIGINT and self.stop_signal == "SIGINT":
                # The second Ctrl-C: the person will not wait for the safe point.
                raise KeyboardInterrupt
            self.stop_signal = self.stop_signal or signal.Signals(number).name
        previous = self._previous.get(number)
        # A handler that the program had installed is called too; Python's own would interrupt it.
        if callable(previous) and previous is not signal.default_int_handler:
            previous(number, frame)
