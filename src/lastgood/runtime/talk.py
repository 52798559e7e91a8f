"""What a run says to the person who reads its output. Standard error, one prefix, rank 0 only."""

import sys
import time

from lastgood.core.progress import progress_line
from lastgood.core.start import StartKind
from lastgood.core.units import byte_size, duration
from lastgood.runtime.results import Saved
from lastgood.runtime.resume import Found

PLAIN_LINE_S, TERMINAL_LINE_S = 60.0, 10.0
"""How often a progress line appears, in a file and on a terminal."""


def say(text: str) -> None:
    """One message. A closed standard error must not end the job."""
    _write(f"lastgood: {text}\n")


def _write(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        # Full, gone with its terminal, closed; None where the program was started with it closed.
        return


def describe_start(attempt: int, path: str, found: Found, took_s: float) -> str:
    """What a start found, in one line.

    It names which of fresh and resumed it is, from where, how large and how old, and why.
    """
    start = found.start
    if start.kind is StartKind.FRESH or found.restored is None:
        return f"attempt {attempt} of {path} starts from zero: {start.reason}"
    manifest = found.restored.manifest
    age = duration(max(0.0, time.time() - manifest.created))
    place = " from memory" if found.restored.is_from_memory else f" from the stage {found.stage}" if found.stage else ""
    return (
        f"attempt {attempt} of {path} resumed from step {start.step} ({manifest.name}, {byte_size(manifest.bytes)}, "
        f"saved {age} ago, verified and read{place} in {duration(took_s)})"
    )


class ProgressDisplay:
    """A progress line now and then, for a program that runs without a launcher (which shows it otherwise).

    It is a line of its own, never rewritten: what the program prints goes to the same terminal, and only a
    launcher, which sees all output, can keep a bar below it.
    """

    def __init__(self, *, is_shown: bool) -> None:
        self._is_shown = is_shown
        is_terminal = is_shown and sys.stderr is not None and sys.stderr.isatty()
        self._every_s = TERMINAL_LINE_S if is_terminal else PLAIN_LINE_S
        self._shown_at = time.monotonic()
        self._first: tuple[float, int] | None = None
        self._saved: tuple[int, float] | None = None

    def note_saved(self, saved: Saved) -> None:
        self._saved = (saved.step, time.monotonic())

    def note_resumed(self, step: int, age_s: float) -> None:
        self._saved = (step, time.monotonic() - age_s)

    def show(self, step: int, total: int | None) -> None:
        if not self._is_shown:
            return
        now = time.monotonic()
        if self._first is None:
            self._first = (now, step)
        if now - self._shown_at < self._every_s:
            return
        self._shown_at = now
        began, first = self._first
        rate = (step - first) / (now - began) if step > first else None
        good, age = (self._saved[0], now - self._saved[1]) if self._saved else (None, None)
        say(progress_line(step, total, rate, good, age, 79 - len("lastgood: ")))
