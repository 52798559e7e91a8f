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

    def install(self) -> None:
        if hasattr(sys, "ps1"):
            # At an interactive prompt an error must not end the session.
            return
        self._previous = sys.excepthook
        sys.excepthook = self

    def remove(self) -> None:
        self._on_exception = _say_nothing
        if sys.excepthook is self and self._previous is not None:
            sys.excepthook = self._previous

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
