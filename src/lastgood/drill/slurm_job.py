"""A job of a drill under Slurm: submitted by `lastgood submit`, looked at from outside, cancelled in any case."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from lastgood.core.accounting import Record
from lastgood.core.errors import LastgoodError, SchedulerError
from lastgood.core.layout import Env
from lastgood.schedulers.slurm_commands import SlurmCommands
from lastgood.store.catalogue import list_checkpoints
from lastgood.store.jobdir import open_job
from lastgood.trial.deferring import deferred_signals
from lastgood.trial.following import JobView
from lastgood.trial.lines import Follower, TellingSteps
from lastgood.trial.place import Place
from lastgood.trial.target import OUR_OWN, Target, environment_for, step_finder, step_in
from lastgood.trial.trial import Sight

_SUBMIT_LIMIT_S = 300.0
_ASK_S = 0.5
"""Between two questions to slurmctld."""
_ENDED_LIMIT_S = 120.0
_ATTEMPT = re.compile(rf"{OUR_OWN}attempt (\d+) of .* on \S+ at ")
_SUBMITTED = re.compile(r"submitted .* as job (\d+)$", re.MULTILINE)

ALIVE = (
    "PENDING",
    "CONFIGURING",
    "RUNNING",
    "COMPLETING",
    "SUSPENDED",
    "REQUEUED",
    "STOPPED",
    "SIGNALING",
    "STAGE_OUT",
)
"""States in which Slurm is not done with a job."""


class SlurmState(msgspec.Struct, frozen=True):
    name: str = "PENDING"
    restarts: int = 0
    nodes: str = ""
    """As Slurm writes a list of them; empty while it has none."""

    @property
    def is_over(self) -> bool:
        return self.name not in ALIVE


class SlurmJob:
    """Use it as a context manager: leaving it cancels the job and waits until Slurm is done with it."""

    def __init__(self, target: Target, place: Place, sbatch: Sequence[str]) -> None:
        self.target = target
        self.place = place
        self.commands = SlurmCommands(os.environ)
        self.id = ""
        self.state = SlurmState()
        self._sbatch = sbatch
        self._asked_at = 0.0
        self._view = JobView(place.job, place.heartbeats)
        self._follower: Follower | None = None
        self._finder = step_finder(target.step_pattern)
        self._told = TellingSteps()
        self._told_attempt = 1

    def __enter__(self) -> "SlurmJob":
        return self

    def __exit__(self, *exc: object) -> None:
        with deferred_signals():
            self.cancel()

    def submit(self) -> None:
        """Raises LastgoodError with what was said."""
        words = [sys.executable, "-m", "lastgood", "submit", "--job", str(self.place.job)]
        words += [
            *self.target.options_in(self.place.work),
            *self._sbatch,
            "--",
            *self.target.command_in(self.place.work),
        ]
        try:
            done = subprocess.run(
                words,
                cwd=self.place.work,
                env=environment_for(self.target, os.environ, {Env.STATE_DIR: str(self.place.state)}),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_SUBMIT_LIMIT_S,
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SchedulerError(
                "`lastgood submit` did not end", remedy="`squeue --me` shows whether it is there"
            ) from None
        match = _SUBMITTED.search(done.stdout)
        if match is None:
            said = (done.stderr or done.stdout).strip()
            raise SchedulerError(f"the job could not be submitted: {said}", safe="nothing runs")
        self.id = match[1]
        self._follower = Follower(self.place.job / f"slurm-{self.id}.out")

    def look(self) -> Sight:
        now = time.time()
        self._ask(now)
        for line in self._follower.new_lines(now) if self._follower is not None else ():
            if match := _ATTEMPT.match(line.text):
                self._told, self._told_attempt = TellingSteps(), int(match[1])
            self._told.note(step_in(self._finder, line.text))
        record = self._view.newest()
        beats = self._view.heartbeats()
        # On other nodes heartbeats cannot be seen, and the output comes a little later than the journal.
        told = self._told if record is None or record.number == self._told_attempt else TellingSteps()
        steps = [beat.step for beat in beats.values()]
        saved = (
            [step for event in record.events if (step := event.data.get("step")) and event.kind == "committed"]
            if record
            else []
        )
        started = record.first("started") if record is not None else None
        from_step = started.data.get("step") if started is not None else told.from_step
        known = [step for step in (min(steps, default=None), told.newest, *saved) if isinstance(step, int)]
        return Sight(
            at=now,
            start=self.state.restarts + 1,
            attempt=record.number if record is not None else 1,
            # Ranks say where they are a moment before the journal says where they began.
            step=max(known, default=None) if isinstance(from_step, int) else None,
            saved_step=max(saved, default=None),
            phase="",
            is_running=self.state.name == "RUNNING",
            from_step=from_step if isinstance(from_step, int) else None,
        )

    def records(self) -> list[Record]:
        return self._view.records()

    def newest_checkpoint(self) -> int | None:
        """Its step."""
        with suppress(LastgoodError, OSError):
            return max(
                (each.step for each in list_checkpoints(open_job(self.place.job)) if each.is_committed), default=None
            )
        return None

    def started_again_at(self, after: float) -> float | None:
        """When Slurm started it next, by its accounting; None if it did not, or there is no accounting."""
        rows, _ = self.commands.history([self.id])
        starts = sorted(int(row["Start"]) for row in rows if row.get("Start", "").isdigit())
        return next((float(start) for start in starts if start >= after), None)

    def ask_now(self) -> SlurmState:
        self._asked_at = 0.0
        self._ask(time.time())
        return self.state

    def cancel(self) -> None:
        """Whatever state it is in. Raises LastgoodError if Slurm does not end it: it is named then."""
        if not self.id:
            return
        end = time.monotonic() + _ENDED_LIMIT_S
        while not self.ask_now().is_over:
            # Again: one that is just being requeued comes back from the first.
            self.commands.cancel(self.id)
            if time.monotonic() > end:
                raise SchedulerError(f"job {self.id} of the drill does not end", remedy=f"scancel {self.id}")
            time.sleep(_ASK_S)

    def _ask(self, now: float) -> None:
        if not self.id or now - self._asked_at < _ASK_S:
            return
        self._asked_at = now
        try:
            shown = self.commands.show_job(self.id)
        except SchedulerError:
            return
        except LastgoodError:
            # Slurm forgets a job some time after its end.
            self.state = msgspec.structs.replace(self.state, name="COMPLETED" if self._is_finished() else "FORGOTTEN")
            return
        restarts = shown.get("Restarts", "0")
        nodes = shown.get("NodeList", "")
        self.state = SlurmState(
            shown.get("JobState", "").split(",")[0],
            int(restarts) if restarts.isdigit() else 0,
            "" if nodes == "(null)" else nodes,
        )

    def _is_finished(self) -> bool:
        with suppress(LastgoodError, OSError):
            return open_job(self.place.job).finished() is not None
        return False
