"""One run of a user's command, from its start to its end: started, watched, started again, and ended without a rest."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil

from lastgood.core.accounting import Record
from lastgood.core.errors import EXIT_SAVED_RUN_AGAIN, LastgoodError
from lastgood.core.events import Event
from lastgood.core.heartbeat import Heartbeat
from lastgood.core.layout import Env
from lastgood.trial import place as places
from lastgood.trial import processes
from lastgood.trial.deferring import deferred_signals
from lastgood.trial.following import JobView
from lastgood.trial.guard import Guard
from lastgood.trial.lines import Follower, TellingSteps, attempt_in
from lastgood.trial.place import Place
from lastgood.trial.target import Target, Way, environment_for, launcher_words, step_finder, step_in

LOOK_S = 0.01
"""Between two looks at a trial."""
AGAIN_LIMIT = 50
"""So often a command line is given at most."""
AGAIN_CODES = (EXIT_SAVED_RUN_AGAIN, -9, 137)
"""Exit codes of our launcher after which a scheduler starts the job again: it asked for that, or it was killed."""


class Sight(msgspec.Struct, frozen=True):
    """What a look at a trial shows."""

    at: float
    """Seconds since 1970, as journals have it."""
    start: int
    """How often the command line was given so far."""
    attempt: int
    """Of the job, under our launcher; the same as `start` otherwise."""
    step: int | None
    """The newest step that is done in this attempt, the least of all ranks; None if nothing tells yet."""
    saved_step: int | None
    """The newest that is known to be committed, where our library or our launcher tells; otherwise None."""
    phase: str
    """What our library says it is doing: "start", "step", "save" or a name of the program's own; empty otherwise."""
    is_running: bool
    """The command line that was given last has not ended."""
    from_step: int | None = None
    """The step after which this attempt began, by its journal, or as the first lines of its output have it."""
    blur_steps: int = 0
    """`from_step` may be off by as much as this: the distance of the steps that the output tells; 0 if it is exact."""


def _saved_step(event: Event) -> int | None:
    step = event.data.get("step") if event.kind == "committed" else None
    return step if isinstance(step, int) else None


def _from_step(record: Record | None, lines: TellingSteps) -> tuple[int | None, int]:
    """The step after which an attempt goes on, and how much that may be off."""
    told = (lines.from_step, lines.stride)
    started = record.first("started") if record is not None else None
    if record is None or started is None:
        return told
    step = started.data.get("step")
    if record.is_wrapped:
        # A command with checkpoints of its own may resume from another than the one that it was handed; and where their
        # names have no numbers, nobody has told the launcher the step.
        is_told = bool(step) or started.data.get("how") == "fresh"
        return (step, 0) if lines.first is None and is_told else told
    return (step, 0) if isinstance(step, int) else (None, 0)


class Rank(msgspec.Struct, frozen=True):
    number: int
    pid: int


class Trial:
    """A command in a place of its own. Use it as a context manager: leaving it ends whatever is left of it."""

    def __init__(self, target: Target, place: Place, way: Way, *, python: str = sys.executable) -> None:
        self.target = target
        self.place = place
        self.way = way
        self.token = processes.own_token()
        """Every process of the trial was given it to know."""
        self.starts = 0
        self.exit_codes: list[int] = []
        """Of each start that has ended; minus the signal if one ended it."""
        self._python = python
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: Guard | None = None
        self._follower = Follower(place.output)
        self._job = JobView(place.job, place.heartbeats)
        self._finder = step_finder(target.step_pattern)
        self._told = TellingSteps()
        self._told_attempt = 0
        self._wrappers: list[str] = []
        self._before_all: list[str] = []
        self.environment: dict[str, str] = {}
        """More of it, for the starts to come."""
        self.began = 0.0

    def __enter__(self) -> "Trial":
        return self

    def __exit__(self, *exc: object) -> None:
        # Whoever is told to end twice ends what he has started first.
        with deferred_signals():
            self.end()

    def wrap(self, words: list[str]) -> None:
        """Put words before the command, in each start to come: a program that runs it."""
        self._wrappers = words

    def precede(self, words: list[str]) -> None:
        """Put words before the whole command line, our launcher included, in each start to come: a program that becomes
        it, so that all of the trial inherits what that program has set up."""
        self._before_all = words

    def words(self) -> list[str]:
        """The command line of the next start."""
        command = [*self._wrappers, *self.target.command_in(self.place.work, self.starts + 1)]
        if self.way is not Way.LASTGOOD:
            return [*self._before_all, *command]
        before = [
            *self._before_all,
            *launcher_words(self._python, self.place.job, self.target.options_in(self.place.work)),
        ]
        return [*before, "--", *command]

    def start(self) -> None:
        """Give the command line, for the first time or again. Raises LastgoodError if it cannot be started."""
        if self.starts and self.way is Way.FROM_NOTHING:
            processes.end_all(self.token)
            places.clear(self.place, self.target)
        # What the start before has said at its end is not the new one's.
        for _ in self._follower.new_lines(time.time(), is_over=True):
            pass
        own = {Env.TRIAL: self.token, Env.STATE_DIR: str(self.place.state), **self.environment}
        if self.way is not Way.LASTGOOD:
            # A program that uses our library is seen without our launcher, too.
            own |= {Env.JOB: str(self.place.job), Env.HEARTBEATS: str(self.place.heartbeats)}
            places.forget_heartbeats(self.place)
        self._told = TellingSteps()
        self._guard = self._guard or Guard(self.token)
        with self.place.output.open("ab") as output:
            try:
                self._process = subprocess.Popen(
                    self.words(),
                    cwd=self.place.work,
                    env=environment_for(self.target, os.environ, own),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise LastgoodError(
                    f"cannot start {self.words()[0]}: {error.strerror}", safe="nothing was started"
                ) from None
        self.starts += 1
        self.began = self.began or time.time()

    @property
    def pid(self) -> int:
        """Of what was started: the launcher, or the command itself."""
        assert self._process is not None
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Of the last start; None while it runs."""
        if self._process is None:
            return None
        code = self._process.poll()
        if code is not None and len(self.exit_codes) < self.starts:
            self.exit_codes.append(code)
        return code

    def look(self) -> Sight:
        now = time.time()
        # Asked before its output is read: what it said last is there by then.
        is_running = self.exit_code is None
        for line in self._follower.new_lines(now, is_over=not is_running):
            attempt = attempt_in(line.text) if self.way is Way.LASTGOOD else None
            if attempt is not None and attempt != self._told_attempt:
                # What follows are the lines of another attempt of the same launcher.
                self._told, self._told_attempt = TellingSteps(), attempt
            self._told.note(step_in(self._finder, line.text))
        record, beats = self._job.seen()
        steps = [beat.step for beat in beats.values()]
        saved = [beat.last_good_step for beat in beats.values() if beat.last_good_step >= 0]
        if record is not None and not beats:
            saved += [step for event in record.events if (step := _saved_step(event)) is not None]
        phases = {beat.phase for beat in beats.values()}
        told = self._told
        if self.way is Way.LASTGOOD and record is not None and record.number != self._told_attempt:
            # The journal knows of an attempt before its first line is read.
            told = TellingSteps()
        from_step, blur_steps = _from_step(record, told)
        return Sight(
            at=now,
            start=self.starts,
            # Where all is taken away, attempts are counted anew.
            attempt=record.number if record is not None and self.way is not Way.FROM_NOTHING else self.starts,
            step=min(steps) if steps else told.newest,
            saved_step=max(saved, default=None),
            phase=phases.pop() if len(phases) == 1 else "",
            is_running=is_running,
            from_step=from_step,
            blur_steps=blur_steps,
        )

    def records(self) -> list[Record]:
        """The journals of the job, oldest attempt first; empty where our launcher does not run the command."""
        return self._job.records()

    def newest_record(self) -> Record | None:
        """The journal of the newest attempt."""
        return self._job.newest()

    def heartbeats(self) -> dict[int, Heartbeat]:
        """What each rank of the newest attempt said last, where our library is in the program."""
        return self._job.heartbeats()

    def heartbeat_directory(self) -> Path | None:
        return self._job.heartbeat_directory()

    def wait_until(self, condition: Callable[[Sight], bool], limit_s: float) -> Sight | None:
        """Look until it is so; None if the start ends before, or the limit passes."""
        end = time.monotonic() + limit_s
        while True:
            sight = self.look()
            if condition(sight):
                return sight
            if not sight.is_running or time.monotonic() > end:
                return None
            time.sleep(LOOK_S)

    def finish(self, limit_s: float, *, look: Callable[[Sight], None] | None = None) -> int | None:
        """Wait for the end of the work, giving the command line again where `way` says so; its last exit code, or None if
        the limit passes, or it was given too often. `look` sees every sight."""
        end = time.monotonic() + limit_s
        while True:
            sight = self.look()
            if look is not None:
                look(sight)
            if not sight.is_running:
                if not self.is_to_start_again:
                    return self.exit_codes[-1]
                if self.starts >= AGAIN_LIMIT:
                    return None
                self.start()
            if time.monotonic() > end:
                return None
            time.sleep(LOOK_S)

    @property
    def is_to_start_again(self) -> bool:
        """The last start has ended, and `way` has somebody who gives the command line again after such an end."""
        code = self.exit_code
        if code is None or code == 0 or self.way is Way.BARE:
            return False
        return self.way is not Way.LASTGOOD or code in AGAIN_CODES

    def processes(self) -> list[psutil.Process]:
        """All that live, parents first."""
        return processes.processes_of(self.token)

    def ranks(self) -> list[Rank]:
        """The processes that compute: by their heartbeats where our library tells, by the variables of torchrun, MPI and
        Slurm, or else those of the command that have no children."""
        beats = self._job.heartbeats()
        alive = [Rank(number, beat.pid) for number, beat in sorted(beats.items()) if processes.is_alive(beat.pid)]
        if alive:
            return alive
        command = self.of_command()
        numbered = [(rank, process) for process in command if (rank := processes.rank_of(process)) is not None]
        if numbered:
            return [Rank(rank, process.pid) for rank, process in sorted(dict(numbered).items())]
        return [Rank(number, process.pid) for number, process in enumerate(processes.leaves(command))]

    def of_command(self) -> list[psutil.Process]:
        """The processes of the command, without ours."""
        return [process for process in self.processes() if not processes.is_of_ours(process)]

    def keeper(self) -> psutil.Process | None:
        return next((process for process in self.processes() if processes.is_keeper(process)), None)

    def launcher(self) -> psutil.Process | None:
        """Our launcher; None if none runs."""
        return next((process for process in self.processes() if processes.is_launcher(process)), None)

    def end(self) -> None:
        """Kill what is left of it. Raises LastgoodError naming what would not die."""
        left = processes.end_all(self.token)
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
        if self._guard is not None:
            self._guard.let_go()
            self._guard = None
        if left:
            raise LastgoodError(
                f"processes {', '.join(map(str, left))} of a trial do not die", remedy="end them by hand"
            )
