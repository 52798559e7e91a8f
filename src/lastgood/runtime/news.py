"""What an attempt tells people while it runs, each thing when it is new."""

import time
from collections.abc import Callable

from lastgood.core.pace import NOTHING_SAID, pace_news
from lastgood.core.schedule import has_changed
from lastgood.core.units import duration
from lastgood.runtime.results import Saved
from lastgood.runtime.stopping import StopWatch
from lastgood.runtime.talk import say
from lastgood.store.attempts import Journal

PATIENCE_S = 15.0
"""After how long it says that it waits for storage, and then again."""


class News:
    """Says, on rank 0, what has changed since it was last said."""

    def __init__(self, journal: Journal, *, is_told: bool) -> None:
        self._journal = journal
        self._is_told = is_told
        self._told_pace = NOTHING_SAID
        self._told_trouble = ""
        self._told_late = -1
        self._written_interval_s: float | None = None
        self._has_stepped = False

    def tell_pace(self, watch: StopWatch) -> None:
        """How often it saves and how long a stop takes, when either is known first or has changed."""
        text, self._told_pace = pace_news(
            watch.pace, watch.margin_s, has_time_limit=watch.has_time_limit, said=self._told_pace
        )
        if text and self._is_told:
            say(text)
        interval_s = watch.pace.interval_s
        is_new = interval_s is not None and has_changed(self._written_interval_s, interval_s)
        if self._is_told and (text or is_new):
            # Also what the user has stated: `lastgood status` compares the age of the last good with it.
            self._written_interval_s = interval_s
            stall_s = watch.pace.stall_s
            self._journal.write("paced", interval_s=interval_s, margin_s=self._told_pace.margin_s, stall_s=stall_s)

    def note_first_step(self, step: int) -> None:
        """A step is done: how long a restart takes is counted up to the first."""
        if not self._has_stepped:
            self._has_stepped = True
            if self._is_told:
                self._journal.write("stepped", step=step)

    def note_stall(self, saved: Saved) -> None:
        """How long the loop stood still for a save: the keeper, which notes the commit, does not know it."""
        if self._is_told and saved.name:
            self._journal.write("stalled", step=saved.step, stall_s=round(saved.stall_s, 6))

    def tell_late(self, under_way: tuple[int, float] | None, interval_s: float | None) -> None:
        """A save is due while another, which began so many seconds ago, is not written yet."""
        if under_way is None or under_way[0] == self._told_late:
            return
        self._told_late = under_way[0]
        promised = "" if interval_s is None else f", longer than the interval of {duration(interval_s)}"
        if self._is_told:
            step, since_s = under_way
            say(f"note: the checkpoint of step {step} has been written for {duration(since_s)} by now{promised}")
            self._journal.write("late", step=step, since_s=round(since_s, 3), interval_s=interval_s)

    def tell_trouble(self, trouble: str) -> None:
        """Why older checkpoints stay, if they do."""
        if trouble and trouble != self._told_trouble and self._is_told:
            say(f"note: older checkpoints could not be deleted, and take space: {trouble}")
        self._told_trouble = trouble

    def tell_stillness(self, since: int | None, step: int) -> None:
        """`since`: the state is the same as it was saved at that step."""
        if since is not None and self._is_told:
            say(
                f"note: nothing in the state has changed from step {since} to step {step}. "
                "A loop that writes `w = w + ...` makes a new array, which is not the one that is saved: "
                "write `w += ...` or `w[:] = ...`"
            )

    def patience(self, show_life: Callable[[], None]) -> Callable[[], None]:
        """What to do now and then while storage is waited for: show life, and after a while say so."""
        began = told_at = time.monotonic()

        def beat() -> None:
            nonlocal told_at
            show_life()
            now = time.monotonic()
            if now - told_at >= PATIENCE_S and self._is_told:
                told_at = now
                say(f"waiting for a checkpoint to be written, {duration(now - began)} so far")

        return beat
