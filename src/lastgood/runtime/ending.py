"""How a program ends when an exception reaches the top: the user's is shown as it is, with one line of ours
after it; an error of ours is shown as a message, and becomes its exit code."""

import os
import sys
from collections.abc import Callable
from types import TracebackType

from lastgood.core.errors import LastgoodError
from lastgood.runtime.talk import say

Hook = Callable[[type[BaseException], BaseException, TracebackType | None], object]


class ExceptionHook:
    """Installed as sys.excepthook; calls the one that was there before."""

    def __init__(self, on_exception: Callable[[BaseException], str]) -> None:
        """`on_exception` is told of an exception, and answers with the line to show after a user's; empty for
        none."""
        self._on_exception = on_exception
        self._previous: Hook | None = None
        self._owner_pid = os.getpid()
        self._is_waiting = self._is_in_place = False

    def install(self) -> None:
        if hasattr(sys, "ps1"):
            # At an interactive prompt an error must not end the session.
            return
        self._previous = sys.excepthook
        while isinstance(self._previous, ExceptionHook) and self._previous._is_waiting:
            # The program went on, so what that one waits for was caught.
            self._previous = self._previous._previous
        sys.excepthook = self
        self._is_in_place = True

    def wait_for(self, error: BaseException, line: str) -> None:
        """After `remove`: on its way out `error` has closed the job. Should nobody catch it, it ends the
        program as if the job were open."""
        self._on_exception = lambda raised: line if raised is error else ""
        self._is_waiting = True
        # Where somebody else's hook has come before ours and calls it, it is called still.
        if not self._is_in_place:
            self.install()

    def remove(self) -> None:
        self._on_exception = _say_nothing
        if sys.excepthook is self and self._previous is not None:
            sys.excepthook = self._previous
            self._is_in_place = False

    def __call__(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, LastgoodError):
            say(str(error))
            if os.getpid() == self._owner_pid:
                self._on_exception(error)
            # The interpreter lets a SystemExit that an exception hook raises decide the exit code.
            raise SystemExit(error.exit_code)
        if self._previous is not None:
            self._previous(kind, error, trace)
        # A forked child's end is not the job's.
        line = self._on_exception(error) if os.getpid() == self._owner_pid else ""
        if line:
            say(line)


def _say_nothing(error: BaseException) -> str:
    return ""
