"""The line to the keeper of this node: made at the start, broken by whatever becomes of either end, made again."""

import threading
from collections.abc import Callable

from lastgood.keeper.client import ANSWER_LIMIT_S, Keeper, NoKeeperError
from lastgood.runtime.finding import Home, find_keeper, occupy_standard_descriptors
from lastgood.store.jobdir import JobDirectory
from lastgood.store.threads import Beside

START_LIMIT_S = 30.0
SHORT_ANSWER_S = 1.0
"""How long an answer is waited for where there is probably no keeper."""

_MOST_LOSSES = 3
"""Keepers that are lost one after the other, without having done anything, have a cause that another one does not
mend."""


class Line:
    def __init__(self, job: JobDirectory, home: Home, greet: Callable[[Keeper], None]) -> None:
        """Connect to a keeper that is there, or have one started meanwhile; `greet` has the first word with it."""
        self._job = job
        self._home = home
        self._greet = greet
        self.keeper: Keeper | None = None
        self.talking = threading.Lock()
        """Held while the keeper is talked to: a thread that copies may do so, too."""
        self.why_not = ""
        """Why there is no keeper."""
        self.losses = 0
        """Keepers that were lost since one has done something."""
        self._starter: Beside | None = None
        occupy_standard_descriptors()
        try:
            self.keeper = find_keeper(job, home, greet, 0.0, may_start=False)
        except NoKeeperError as error:
            self.why_not = str(error)
            # It is ready before anybody waits for it.
            self._starter = Beside(self._start, "lastgood-keeper")
            if not self._starter.start():
                self._start()

    def _start(self) -> None:
        # A launcher's is there before the program is, or never.
        limit_s = SHORT_ANSWER_S if self._home.is_keeper_held else START_LIMIT_S
        try:
            self.keeper = find_keeper(self._job, self._home, self._greet, limit_s, max(limit_s, ANSWER_LIMIT_S))
            self.why_not = ""
        except OSError as error:
            self.why_not = str(error)

    def await_start(self) -> None:
        if self._starter is not None:
            self._starter.join()
            self._starter = None

    def lose(self) -> Keeper | None:
        """Let go of the keeper without a word."""
        with self.talking:
            lost, self.keeper = self.keeper, None
            if lost is not None:
                lost.close()
        return lost

    def remake(self, greet: Callable[[Keeper], None], limit_s: float, answer_s: float = ANSWER_LIMIT_S) -> bool:
        """Get a keeper that `greet` has talked to. False if there is none within the limit."""
        if self.losses >= _MOST_LOSSES:
            self.why_not = f"{self.losses} were lost, one after the other"
            return False
        try:
            self.keeper = find_keeper(self._job, self._home, greet, limit_s, answer_s)
        except NoKeeperError as error:
            self.why_not = str(error)
        return self.keeper is not None

    def close(self, *, is_expected_back: bool = False) -> None:
        """Take leave. Under a launcher, which lets go of the keeper itself, what is held can be left to the next attempt."""
        if self.keeper is not None:
            if is_expected_back and self._home.is_keeper_held:
                self.keeper.close()
            else:
                self.keeper.bye()
            self.keeper = None

    def disown(self) -> None:
        """In a child that was forked from us: the connection must end with us, not with it."""
        if self.keeper is not None:
            # Not under the lock: a thread that is no more may have held it.
            self.keeper.close()
            self.keeper = None
