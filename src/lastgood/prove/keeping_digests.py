"""Digests of the checkpoints of a job of ours, taken while it runs: retention deletes most of them before its end."""

import time
from contextlib import suppress

from lastgood.core.errors import LastgoodError
from lastgood.prove.checkpoint_state import StateDigest, digests_of_job
from lastgood.trial.place import Place
from lastgood.trial.trial import Sight

_MOST_S = 0.25
"""A state whose digest takes longer is looked at in the end only: to read it each time would slow the job down."""


class Digests:
    """Call it with every sight."""

    def __init__(self, place: Place) -> None:
        self.found: dict[int, StateDigest] = {}
        self._job = place.job
        self._saved_step: int | None = None
        self._is_quick = True

    def __call__(self, sight: Sight) -> None:
        if sight.saved_step is None or sight.saved_step == self._saved_step or not self._is_quick:
            return
        self._saved_step = sight.saved_step
        began = time.monotonic()
        self.take()
        self._is_quick = time.monotonic() - began < _MOST_S

    def take(self) -> None:
        """Of all checkpoints that are there now. One that cannot be read says nothing here: a start would refuse it."""
        with suppress(LastgoodError, OSError):
            self.found = digests_of_job(self._job, known=self.found)
