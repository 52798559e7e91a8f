"""One attempt: the command from its start until the last of its processes is gone."""

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from lastgood.core.errors import EXIT_SAVED_RUN_AGAIN, LastgoodError
from lastgood.core.events import Event
from lastgood.core.hang import HangPolicy
from lastgood.core.layout import Env
from lastgood.core.outcome import Evidence
from lastgood.core.progress import progress_line
from lastgood.core.quoting import shown
from lastgood.core.signals import SIGKILL, SIGTERM, SIGUSR1
from lastgood.core.stopping import LEFTOVER_GRACE_S, SAVE_SIGNAL, TIME_LIMIT, Manner, Stop, stop_on_signal
from lastgood.core.units import duration
from lastgood.keeper.node import this_node
from lastgood.launch.agents import NodeAgents
from lastgood.launch.awaited import AwaitedSave
from lastgood.launch.evidence import exceptions, has_stopped, oom_kills, ran_library
from lastgood.launch.heartbeats import heartbeat_directory
from lastgood.launch.history import events_since
from lastgood.launch.inbox import SignalInbox
from lastgood.launch.keeping import Memory
from lastgood.launch.known_commands import is_srun
from lastgood.launch.members import Members
from lastgood.launch.output import Console
from lastgood.launch.ports import Application, LastGood, StopRequest
from lastgood.launch.process import Command, start_process
from lastgood.launch.standby import Standby
from lastgood.launch.step_command import StepCommand
from lastgood.launch.time_limit import TimeLimit
from lastgood.launch.told import Told
from lastgood.launch.watch import Beats, LocalBeats, Progress, Watch
from lastgood.store.attempts import Journal, read_attempt
from lastgood.store.jobdir import JobDirectory
from lastgood.store.lock import JobLock
from lastgood.store.processes import birth_of

_TURN_S = 0.5
"""How often heartbeats are looked at; signals and output are attended to at once."""

_STATUS_EVERY_S = 60.0
_NOTE_EVERY_S = 15.0
_STACKS_S = 5.0
"""Time for ranks to write their stacks before a hung job is ended."""

_UNKILLABLE_S = 20.0
"""How long after SIGKILL a process is given up on; it can only be inside the kernel, in a hanging file system say."""

_DRAIN_S = 5.0

_EARLY_S = 60.0
"""A notice of the time limit comes up to so much earlier than it was asked for (sbatch --signal)."""


class Limits(msgspec.Struct, frozen=True):
    """How an attempt may be ended from outside."""

    grace_s: float = 30.0
    time: TimeLimit | None = None
    """None if there is no limit, or none is known."""
    hang: HangPolicy | None = HangPolicy()
    """None switches hang detection off."""
    window_s: float | None = None
    """How long the scheduler gives after a signal of its own; None: as long as it takes."""


class Running:
    """Runs one claimed attempt. `run` returns when no process of it is left."""

    def __init__(
        self,
        job: JobDirectory,
        number: int,
        journal: Journal,
        application: Application,
        console: Console,
        inbox: SignalInbox,
        limits: Limits,
        last_good: LastGood | None,
        standby: Standby | None = None,
        keeper: Memory | None = None,
        agents: NodeAgents | None = None,
    ) -> None:
        """`agents`: where the ranks may be on other nodes; then they are the `keeper`, too."""
        self._job = job
        self._number = number
        self._journal = journal
        self._application = application
        self._console = console
        self._inbox = inbox
        self._limits = limits
        self._standby = standby
        self._keeper = keeper
        self._agents = agents
        self.leave_by: float | None = None
        """When everything is ended, if it was the scheduler that asked to stop (monotonic)."""
        self._stop: Stop | None = None
        self._kill_at: float | None = None
        self._killed_at: float | None = None
        self._awaited: AwaitedSave | None = None
        self._has_saved = False
        self._hang = ""
        self._has_ended = False
        self._is_standby = False
        self._good_step = last_good.step if last_good else None
        self._good_at = last_good.at if last_good else None
        self._next_look = self._next_status = self._next_note = 0.0

    def run(self, command: Sequence[str], environment: Mapping[str, str], lock: JobLock) -> Evidence:
        kills_before = oom_kills()
        with heartbeat_directory() as directory:
            environment = {**environment, Env.HEARTBEATS: os.fspath(directory)}
            if node := this_node():
                environment[Env.LAUNCHER_NODE] = node
            beats = self._beats_in(directory, environment)
            self._watch = Watch(beats, self._limits.hang or HangPolicy())
            self._told = Told(self._application, self._console, directory)
            self._given, self._directory, self._lock_fd = environment, directory, lock.fd
            self._command = self._command_of(command)
            self._console.attach(self._command.stdout, self._command.stderr)
            self._journal.write(
                "launched",
                command=[shown(word) for word in command],
                pid=self._command.pid,
                birth=birth_of(self._command.pid),
                heartbeats=os.fspath(directory),
                host=os.uname().nodename,
                is_standby=self._is_standby,
            )
            self._attend()
            self._watch.look()
            self._told.listen(time.monotonic())
            has_ranks = beats.has_ranks()
            if self._agents is not None and (left := self._agents.finish()):
                self._say(f"{left} process(es) of the command still ran on the nodes: ended them")
        kills = (oom_kills() or 0) - (kills_before or 0)
        if self._standby is not None:
            kills -= self._standby.take_kills(self._command.stranger_statuses)
        return self._evidence(kills, has_ranks=has_ranks)

    def _beats_in(self, directory: Path, environment: Mapping[str, str]) -> Beats:
        if self._agents is None:
            return LocalBeats(directory)
        self._agents.begin(environment.get(Env.LAUNCH, ""), self._number, directory, self._limits.grace_s)
        return self._agents if self._agents.are_there else LocalBeats(directory)

    def _command_of(self, command: Sequence[str]) -> Command:
        if is_srun(command):
            return StepCommand(lambda: self._start(command), self._agents)
        return Command(lambda: self._start(command))

    def _start(self, command: Sequence[str]) -> "subprocess.Popen[bytes]":
        if self._standby is not None:
            process = self._standby.take(command, self._given)
            if process is not None:
                self._is_standby = True
                return process
        return start_process(command, self._given, (self._lock_fd,))

    def _attend(self) -> None:
        started = time.monotonic()
        self._next_status = started + (1.0 if self._console.is_terminal else _STATUS_EVERY_S)
        self._next_note = started + _NOTE_EVERY_S
        try:
            while not self._is_over():
                self._console.wait(self._patience_s(), self._inbox.fileno())
                for number in self._inbox.take():
                    self._on_signal(number)
                self._command.reap()
                self._on_time(time.monotonic())
        finally:
            self._command.kill_now()
            self._console.clear_status()
            self._console.drain(_DRAIN_S)
            self._console.detach()
            self._command.reap()

    def _is_over(self) -> bool:
        now = time.monotonic()
        if self._killed_at is not None and now - self._killed_at > _UNKILLABLE_S:
            pids = ", ".join(str(process.pid) for process in self._command.processes())
            self._say(f"process(es) {pids} cannot be ended (they wait inside the kernel)", is_important=True)
            return True
        if self._command.status is None:
            return False
        if self._command.is_gone():
            return True
        if not self._has_ended:
            self._has_ended = True
            if self._stop is None and self._kill_at is None:
                self._end_leftovers(now)
        return False

    def _end_leftovers(self, now: float) -> None:
        """The command itself has ended unasked; what it started has no reason to live on."""
        count = self._command.send(SIGTERM)
        if count:
            self._say(f"the command has ended, {count} process(es) of it still run: ending them")
        self._kill_at = now + min(self._limits.grace_s, LEFTOVER_GRACE_S)

    def _patience_s(self) -> float:
        if self._command.status is not None:
            return 0.05
        if self._kill_at is not None:
            return min(_TURN_S, max(self._kill_at - time.monotonic(), 0.05))
        return _TURN_S

    def _on_signal(self, number: int) -> None:
        if number == SAVE_SIGNAL:
            self._ask_to_save()
            return
        was_asked = self._stop is not None
        grace_s = self._limits.grace_s
        if number == SIGTERM and self._limits.window_s is not None:
            grace_s = min(grace_s, self._limits.window_s)
            if self.leave_by is None:
                self.leave_by = time.monotonic() + self._limits.window_s
        self._stop = stop_on_signal(self._stop, number, time.monotonic(), grace_s)
        if not was_asked and self._is_notice(number):
            self._stop = msgspec.structs.replace(self._stop, cause=TIME_LIMIT)
        self._kill_at = self._stop.kill_at
        if self._stop.is_hurried:
            self._say("Ctrl-C again: no more grace, killing it", is_important=True)
        elif not was_asked:
            self._ask_to_stop(number, self._stop.cause)

    def _is_notice(self, number: int) -> bool:
        """True for the notice of the time limit that a script has asked the scheduler for."""
        limit = self._limits.time
        is_asked_for = number == SIGUSR1 and self._limits.window_s is not None
        return is_asked_for and limit is not None and limit.left_s() < self._limits.grace_s + _EARLY_S

    def _ask_to_stop(self, number: int, cause: str) -> None:
        self._journal.write("stopping", cause=cause)
        request = self._application.ask_to_stop(number)
        self._send(request, Manner.AS_IS if request.is_exact else Manner.STOP)
        within_s = max((self._kill_at or 0.0) - time.monotonic(), 0.0)
        hint = "; Ctrl-C again kills it at once" if cause == "SIGINT" else ""
        how = "asked the command to save and stop, within"
        if request.is_ended_at_save:
            self._awaited = AwaitedSave(self._last_good())
            how = "the command cannot be asked to save: it is ended at its next checkpoint, or after"
        self._say(f"{cause}: {how} {duration(within_s)}{hint}")

    def _ask_to_save(self) -> None:
        request = self._application.ask_to_stop(SAVE_SIGNAL)
        if request.refusal:
            self._say(f"SIGUSR2: nothing was sent: {request.refusal}")
            return
        passed = "" if request.signal is None else f"; passed to {self._send(request, Manner.SAVE)} process(es)"
        self._say(f"SIGUSR2: save and carry on{passed}")

    def _send(self, request: StopRequest, manner: Manner) -> int:
        if request.signal is None:
            return 0
        count = self._command.send(request.signal, request.only_to, manner)
        if not count and request.only_to:
            # Below a scheduler mpirun may have started its ranks in a step, also those on this node.
            count = Members(self._given.get(Env.LAUNCH, ""), self._number).send(request.signal, request.only_to, manner)
        return count

    def _last_good(self) -> LastGood | None:
        try:
            return self._application.last_good()
        except (OSError, LastgoodError):
            return None

    def _end_if_saved(self, now: float) -> None:
        if self._awaited is not None and self._killed_at is None and self._awaited.is_there(self._last_good()):
            self._has_saved = True
            self._kill(now)

    def _on_time(self, now: float) -> None:
        limit = self._limits.time
        if limit is not None and self._stop is None and self._kill_at is None and limit.is_stop_due():
            self._stop = Stop(TIME_LIMIT, now + min(self._limits.grace_s, limit.left_s()))
            self._kill_at = self._stop.kill_at
            self._ask_to_stop(SIGTERM, TIME_LIMIT)
        if self._kill_at is not None and now >= self._kill_at:
            self._kill(now)
        if now >= self._next_look:
            self._next_look = now + _TURN_S
            self._look(now)
            self._end_if_saved(now)
            if self._keeper is not None:
                self._keeper.look(self._command, self._journal)
            if self._agents is not None and self._agents.was_terminated and self._stop is None:
                self._note_scheduler_stop(now)
        if now >= self._next_note:
            self._next_note = now + _NOTE_EVERY_S
            self._application.note_progress(self._journal)
        if complaint := self._console.log.take_complaint():
            self._say(complaint, is_important=True)

    def _note_scheduler_stop(self, now: float) -> None:
        """Slurm has asked the steps to end, and with them the ranks; a launcher in the batch script hears nothing."""
        self._stop = Stop("SIGTERM", now + self._limits.grace_s)
        self._kill_at = self._stop.kill_at
        self._journal.write("stopping", cause=self._stop.cause)
        self._say(f"Slurm asked the steps to end: they save and stop, within {duration(self._limits.grace_s)}")

    def _kill(self, now: float) -> None:
        if self._killed_at is None:
            self._killed_at = now
            if not self._hang and not self._has_saved and not (self._stop and self._stop.is_hurried):
                self._say("the grace time is over: killing what is left", is_important=True)
        self._command.kill()
        self._kill_at = now + 0.5

    def _look(self, now: float) -> None:
        self._watch.look()
        progress = self._watch.progress() or self._told.look(now)
        if progress is not None and progress.last_good_step not in (None, self._good_step):
            self._good_step, self._good_at = progress.last_good_step, progress.last_good_at or time.time()
        if self._limits.hang is not None and self._kill_at is None and self._command.status is None:
            self._check_hang(now)
        if progress is not None and now >= self._next_status:
            self._show(progress)
            self._next_status = now + (1.0 if self._console.is_terminal else _STATUS_EVERY_S)
        if self._standby is not None and self._stop is None and self._kill_at is None:
            self._standby.look(self._command, self._directory, self._given, self._lock_fd, self._journal)

    def _check_hang(self, now: float) -> None:
        found = self._watch.find_hang(self._console.last_output_at)
        if found is None:
            return
        self._hang = found.what
        self._say(f"hang: {self._hang}", is_important=True)
        asked = self._watch.ask_for_stacks()
        self._journal.write("hang", what=self._hang, ranks=asked, silent_s=round(found.silent_s, 3))
        self._kill_at = now + _STACKS_S

    def _show(self, progress: Progress) -> None:
        age_s = None if self._good_at is None else time.time() - self._good_at
        line = progress_line(
            progress.step,
            progress.total_steps,
            progress.steps_per_s,
            self._good_step,
            age_s,
            self._console.width,
        )
        if self._console.is_terminal:
            self._console.show_status(line)
        else:
            self._say(line)

    def _evidence(self, kills: int, *, has_ranks: bool) -> Evidence:
        status = self._command.status
        if status is None:
            # It has been killed, and will end as soon as the kernel lets it.
            status = -SIGKILL
        if self._stop is not None and EXIT_SAVED_RUN_AGAIN in self._command.orphan_statuses:
            # A shell in between ended in its own way; the program below it saved and said so.
            status = EXIT_SAVED_RUN_AGAIN
        progress = self._watch.progress() or self._told.look(0.0)
        events, is_finished = self._what_the_program_wrote()
        if isinstance(self._command, StepCommand) and has_stopped(events):
            # Of ranks that end one after the other srun ends the later ones, and reports how.
            status = EXIT_SAVED_RUN_AGAIN
        stop_cause = self._stop.cause if self._stop else ""
        if not stop_cause and any(e.kind == "stopping" and e.data.get("cause") == TIME_LIMIT for e in events):
            stop_cause = TIME_LIMIT
        return Evidence(
            exit_code=status if status >= 0 else None,
            signal=-status if status < 0 else None,
            stop_cause=stop_cause,
            was_forced=self._killed_at is not None and not self._has_saved,
            hang=self._hang,
            oom_kills=max(kills, 0),
            log_tail=self._console.tail.decode("utf-8", "replace"),
            exceptions=exceptions(events),
            has_library=ran_library(events, has_ranks=has_ranks),
            is_finished=is_finished,
            step=progress.step if progress else None,
            total_steps=progress.total_steps if progress else None,
        )

    def _what_the_program_wrote(self) -> tuple[list[Event], bool]:
        """Its events, and whether the job is marked as finished. What cannot be read now is no evidence."""
        try:
            finished = self._job.finished()
            # The mark of an earlier attempt says nothing about this one, nor does that of another launcher's.
            is_finished = finished is not None and finished.attempt >= self._number
            if finished is not None and finished.attempt > self._number:
                inner = read_attempt(self._job, finished.attempt)
                is_finished = inner is not None and inner.launch == self._given.get(Env.LAUNCH)
            return events_since(self._job, self._number), is_finished
        except (OSError, LastgoodError):
            return [], False

    def _say(self, text: str, *, is_important: bool = False) -> None:
        self._console.say(text, is_important=is_important)
