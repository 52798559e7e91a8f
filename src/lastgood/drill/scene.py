"""The scene of a drill: one trial with what its faults may touch, and the measurements that see every look."""

import random
import time
from collections.abc import Callable, Collection
from pathlib import Path

import psutil

from lastgood.drill.checkpoints import checkpoints_of
from lastgood.drill.fault import Calm, DrillJournal, Hooks, Saved
from lastgood.drill.measure import StepLog, Watch
from lastgood.drill.stopped import let_go
from lastgood.trial.trial import LOOK_S, Sight, Trial


class TrialScene:
    """Implements the port `fault.Scene`."""

    def __init__(
        self, trial: Trial, journal: DrillJournal, *, calm: Calm, hooks: Hooks, chance: random.Random, directory: Path
    ) -> None:
        self.trial = trial
        self.journal = journal
        self.calm = calm
        self.hooks = hooks
        self.random = chance
        self.directory = directory
        self.steps = StepLog()
        self.watches: list[Watch] = []
        self.listed: list[Saved] = []
        """The checkpoints when they were last asked for."""
        self.standing: list[psutil.Process] = []
        """Processes that the drill has stopped in a phase, and lets go when the fault is caused."""

    def look(self) -> Sight:
        sight = self.trial.look()
        self.steps.note(sight)
        for watch in self.watches:
            watch.note(sight)
        return sight

    def wait_until(self, condition: Callable[[Sight], bool], limit_s: float) -> Sight | None:
        end = time.monotonic() + limit_s
        while not condition(sight := self.look()):
            if time.monotonic() > end:
                return None
            time.sleep(LOOK_S)
        return sight

    def checkpoints(self) -> list[Saved]:
        self.listed = checkpoints_of(self.trial)
        return self.listed

    def step_of(self, saved: Saved) -> int | None:
        return saved.step if saved.step is not None else self.steps.step_at(saved.at)

    def go_on(self, but: Collection[int] = ()) -> None:
        let_go([process for process in self.standing if process.pid not in but])
        self.standing.clear()

    def start_again(self, why: str) -> None:
        self.journal.note("started_again", why=why, start=self.trial.starts + 1)
        self.trial.start()
