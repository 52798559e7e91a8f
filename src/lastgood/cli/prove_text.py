"""What `lastgood prove` shows while it runs: on a terminal one line that changes, elsewhere a line now and then."""

import sys
import time
from typing import TYPE_CHECKING

from lastgood.cli import output
from lastgood.core.units import duration

if TYPE_CHECKING:
    from lastgood.trial.trial import Sight

_PAUSE_S = 0.2
_LINE_S = 30.0
"""Where nothing can be written over: a sign of life as often as that."""
_WIDTH = 78


class Progress:
    def __init__(self, is_terminal: bool) -> None:
        self._is_terminal = is_terminal
        self._shown_at = time.monotonic()
        self._name = ""
        self._began = time.monotonic()
        self._has_line = False

    def look(self, name: str, sight: "Sight") -> None:
        now = time.monotonic()
        if name != self._name:
            self._name, self._began = name, now
            self._shown_at = now if not self._is_terminal else 0.0
        if now - self._shown_at < (_PAUSE_S if self._is_terminal else _LINE_S):
            return
        self._shown_at = now
        step = f", step {sight.step:,}" if sight.step is not None else ""
        attempt = f", attempt {sight.attempt}" if sight.attempt > 1 else ""
        text = f"{name}: {duration(now - self._began)}{attempt}{step}"
        if self._is_terminal:
            sys.stderr.write("\r" + output.shorten(text, _WIDTH).ljust(_WIDTH))
            sys.stderr.flush()
            self._has_line = True
        else:
            output.note(text)

    def tell(self, text: str) -> None:
        self.end()
        output.note(output.plain(text))

    def end(self) -> None:
        """Clear the line that changes."""
        if self._has_line:
            sys.stderr.write("\r" + " " * _WIDTH + "\r")
            sys.stderr.flush()
            self._has_line = False
