"""How far an application has come by its own words: for the line of progress, for `lastgood status` and, where it was
killed, for what that has cost. It sends no heartbeats; it prints its steps, or writes them into its own log.
"""

import os
from pathlib import Path

from lastgood.core.heartbeat import TOLD, Heartbeat
from lastgood.launch.heartbeats import leave_told
from lastgood.launch.output import Console
from lastgood.launch.ports import Application
from lastgood.launch.watch import Progress, Rate

_EVERY_S = 2.0
"""Reading its words costs less than a millisecond."""


class Told:
    """Of one attempt. What it has heard is left beside the heartbeats of other programs, for others on this node."""

    def __init__(self, application: Application, console: Console, directory: Path) -> None:
        self._application = application
        self._console = console
        self._directory = directory
        self._rate = Rate()
        self._progress: Progress | None = None
        self._heard_at = 0.0
        self._next = 0.0
        self._sequence = 0

    def look(self, now: float) -> Progress | None:
        """The newest that is known, at most some seconds old."""
        return self.listen(now) if now >= self._next else self._progress

    def listen(self, now: float) -> Progress | None:
        """The newest there is. None if it says nothing of its steps."""
        self._next = now + _EVERY_S
        told = self._application.told(self._console.tail.decode("utf-8", "replace"))
        if told is None:
            return self._progress
        if self._progress is None or told.step != self._progress.step:
            self._heard_at = now
        self._rate.note(now, told.step)
        self._progress = Progress(
            told.step, told.total_steps, self._rate.per_s(), told.last_good_step, told.last_good_at
        )
        self._leave(told.step, told.total_steps, told.last_good_step)
        return self._progress

    def _leave(self, step: int, total: int | None, good: int | None) -> None:
        self._sequence += 1
        beat = Heartbeat(
            os.getpid(),
            step,
            -1 if total is None else total,
            -1 if good is None else good,
            self._heard_at,
            TOLD,
            self._sequence,
        )
        leave_told(self._directory, beat)
