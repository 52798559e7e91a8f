"""The launcher's loop: attempt after attempt, until the job is finished or another start does not help."""

import os
import socket
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from lastgood.core.accounting import Record, joined
from lastgood.core.chain import (
    ChainEnd,
    allocation_of,
    chain_end,
    is_before_in_chain,
    is_begun_in_chain,
    is_cause_unknown,
)
from lastgood.core.errors import EXIT_INTERRUPTED, EXIT_NO_PROGRESS, EXIT_SAVED_RUN_AGAIN, LastgoodError
from lastgood.core.handback import Interruption
from lastgood.core.hang import HangPolicy
from lastgood.core.layout import Env
from lastgood.core.outcome import Outcome, classify
from lastgood.core.quoting import shown_command
from lastgood.core.restart import Action, Decision, Past, Policy, decide_restart, restarts_left
from lastgood.core.signals import SIGINT
from lastgood.core.stopping import STOP_SIGNALS
from lastgood.core.suspects import failed_node
from lastgood.core.units import duration
from lastgood.launch.agents import NodeAgents
from lastgood.launch.attempt import Limits, Running
from lastgood.launch.ground import Ground
from lastgood.launch.history import past_of, read_records, recent_write_s
from lastgood.launch.inbox import SignalInbox
from lastgood.launch.keeping import Memory
from lastgood.launch.leaving import Leaving
from lastgood.launch.output import Console
from lastgood.launch.ports import Application, LastGood, Scheduler
from lastgood.launch.standby import Standby
from lastgood.launch.storage_check import check_seen
from lastgood.launch.time_limit import TimeLimit
from lastgood.store.attempts import Journal, check_launcher, claim_attempt
from lastgood.store.durable import explained
from lastgood.store.jobdir import JobDirectory
from lastgood.store.lock import JobLock

_OURS_PER_ATTEMPT = (Env.FRESH, Env.EXPECT_STEP, Env.CHECKPOINT, Env.DEADLINE, Env.STANDBY)
"""What the launcher says to one attempt only must not come from its own environment."""


_LEAVE_BEFORE_S = 5.0
"""Before the end of the allocation nothing is waited for any more: the launcher itself has to leave."""


class Settings(msgspec.Struct, frozen=True):
    """What the user asked for."""

    policy: Policy = Policy()
    grace_s: float = 30.0
    hang: HangPolicy | None = HangPolicy()
    """None switches hang detection off."""
    is_fresh: bool = False


class Supervisor:
    """Runs a job's command in this allocation. The caller holds the job's lock and reads the signals."""

    def __init__(
        self,
        job: JobDirectory,
        lock: JobLock,
        application: Application,
        scheduler: Scheduler,
        settings: Settings,
        console: Console,
        inbox: SignalInbox,
        standby: Standby | None = None,
        keeper: Memory | None = None,
        agents: NodeAgents | None = None,
        ground: Ground | None = None,
    ) -> None:
        """`agents`: on the nodes of an allocation; they have the keepers, and there is no other `keeper`."""
        self._job = job
        self._lock = lock
        self._application = application
        self._scheduler = scheduler
        self._settings = settings
        self._console = console
        self._inbox = inbox
        self._standby = standby
        self._keeper = keeper if agents is None else agents
        self._agents = agents
        self._ground = ground
        self._launch = uuid.uuid4().hex[:16]
        self._newest = 0
        """The attempt that this launcher claimed last."""
        self._past: list[Past] = []
        self._leave_by: float | None = None
        """By when the scheduler ends this allocation; None if it does not, or leaves as long as it takes (monotonic)."""
        self._leaving = Leaving(job, scheduler, console)

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        """Run the command until it is finished or must not be started again; the launcher's exit code."""
        with explained("read the history of", self._job.attempts, safe="nothing was changed"):
            records = read_records(self._job)
        is_fresh = self._settings.is_fresh
        if is_fresh and is_begun_in_chain(records, self._scheduler.allocation()):
            self._say("the new start that --fresh asks for was made when this job began: going on")
            is_fresh = False
        if not is_fresh:
            self._past = past_of(records)
            self._tell_of_lost_launcher()
        for line in self._scheduler.introduction(recent_write_s(records)):
            self._say(line)
        if not is_fresh and (over := self._chain_end(records)) is not None:
            return self._leaving.end(f"nothing is left to do for this segment: {over.reason}", over.exit_code)
        if records and not is_fresh and (reason := self._leave_at_start(records[-1].number)):
            return self._hand_back("to be run again", reason)
        limits = self._limits()
        if (code := self._pause(0.0, limits)) is not None:
            return self._leave_unbegun(code, limits)
        try:
            return self._run_attempts(command, environment, limits, is_fresh=is_fresh)
        except LastgoodError as error:
            # It would be met by the next start, too.
            self._leaving.end("", error.exit_code)
            raise
        finally:
            if self._standby is not None:
                self._standby.close()
            if self._keeper is not None:
                self._keeper.await_promoted(self._patience(limits))
                self._keeper.close()

    def _leave_at_start(self, newest: int) -> str:
        """An attempt of which nobody saw the end may have died here, with its launcher."""
        journal = Journal(self._job, newest)
        try:
            return self._leaving.because_of_nodes(self._scheduler.allocation(), journal)
        finally:
            journal.close()

    def _run_attempts(
        self, command: Sequence[str], environment: Mapping[str, str], limits: Limits, *, is_fresh: bool
    ) -> int:
        while True:
            if self._ground is not None and (problem := self._ground.problem(is_fresh=is_fresh)):
                return self._leaving.for_other_gpus(problem, self._scheduler.allocation())
            decision = self._attempt(command, environment, limits, is_fresh=is_fresh)
            is_fresh = False
            if decision.action is not Action.RESTART:
                return self._leave(decision)
            when = f"in {duration(decision.delay_s)}" if decision.delay_s else "now"
            left = restarts_left(self._past, self._settings.policy)
            self._say(f"restarting {when} ({left} restart(s) left after this one): {decision.reason}")
            if (code := self._pause(decision.delay_s, limits)) is not None:
                return self._leave_unbegun(code, limits)

    def _tell_of_lost_launcher(self) -> None:
        if self._past and self._past[-1].ending.outcome is Outcome.LAUNCHER_LOST:
            self._say(f"the last attempt ended without its launcher: {self._past[-1].ending.reason}")

    def _limits(self) -> Limits:
        deadline = self._scheduler.deadline()
        time_limit = None if deadline is None else TimeLimit(deadline, self._settings.grace_s)
        return Limits(self._settings.grace_s, time_limit, self._settings.hang, self._scheduler.window_s())

    def _chain_end(self, records: list[Record]) -> ChainEnd | None:
        """Whether the work that this allocation was to go on with was ended on purpose."""
        here = self._scheduler.allocation()
        records = joined(records)
        if over := chain_end(records, here):
            return over
        if records and is_before_in_chain(records[-1], here) and is_cause_unknown(records[-1]):
            before = str(allocation_of(records[-1]).get("job_id", ""))
            if self._scheduler.was_cancelled(before):
                return ChainEnd(f"Slurm says that job {before} was cancelled", EXIT_INTERRUPTED)
        return None

    def _await_keeper(self, limits: Limits) -> None:
        """What a dead attempt has left in memory becomes a checkpoint before anything is decided or claimed."""
        if self._keeper is not None:
            self._keeper.await_written(self._patience(limits))

    def _patience(self, limits: Limits) -> Callable[[], bool]:
        """Whether there is time to wait, and nobody asks for something else."""

        def has_time() -> bool:
            if self._leave_by is not None and time.monotonic() >= self._leave_by:
                return False
            return self._inbox.is_empty() and (limits.time is None or limits.time.left_s() > _LEAVE_BEFORE_S)

        return has_time

    def _attempt(
        self, command: Sequence[str], environment: Mapping[str, str], limits: Limits, *, is_fresh: bool
    ) -> Decision:
        """Run one attempt, write down how it ended, and decide what follows."""
        self._await_keeper(limits)
        if self._newest:
            # On a node that is cut off, the scheduler may have started the job elsewhere meanwhile.
            check_launcher(self._job, self._newest, self._launch)
        claim = claim_attempt(self._job, self._launch, fresh=is_fresh, restarts=self._scheduler.restart_counts())
        self._newest = claim.attempt
        journal = Journal(self._job, claim.attempt)
        try:
            return self._run_claimed(claim.attempt, journal, command, environment, limits, is_fresh=is_fresh)
        except LastgoodError as error:
            # It did not come to a start, or the start was refused: trying again would meet the same.
            journal.write("ended", outcome=Outcome.REFUSED.value, reason=error.what, exit_code=error.exit_code)
            journal.write("decided", action=Action.GIVE_UP.value, reason=error.what, exit_code=error.exit_code)
            raise
        finally:
            journal.close()

    def _run_claimed(
        self,
        number: int,
        journal: Journal,
        command: Sequence[str],
        environment: Mapping[str, str],
        limits: Limits,
        *,
        is_fresh: bool,
    ) -> Decision:
        allocation = self._scheduler.allocation()
        if allocation:
            journal.write("allocation", **allocation)
        if self._ground is not None:
            self._ground.note(journal)
        self._scheduler.before_attempt()
        prepared = self._application.prepare(number, is_fresh=is_fresh, journal=journal)
        if prepared.done:
            return self._end_done(number, journal, prepared.done)
        before = self._last_good()
        arguments = [*(command if prepared.command is None else prepared.command), *prepared.arguments]
        self._announce(number, prepared.message, arguments)
        standby = self._standby
        if standby is not None:
            standby.is_wanted = restarts_left(self._past, self._settings.policy) > 0
        running = Running(
            self._job,
            number,
            journal,
            self._application,
            self._console,
            self._inbox,
            limits,
            before,
            standby,
            self._keeper,
            self._agents,
        )
        began = time.monotonic()
        inherited = {name: value for name, value in environment.items() if name not in _OURS_PER_ATTEMPT}
        given = {**inherited, **self._environment(number, limits, environment), **prepared.environment}
        if self._keeper is not None:
            self._keeper.start()
        if self._agents is not None:
            check_seen(self._job.path, self._agents.sees_job)
        evidence = running.run(arguments, given, self._lock)
        if evidence.exit_code != 0 or not evidence.is_finished:
            evidence = msgspec.structs.replace(evidence, interruption=self._scheduler.interruption())
        if evidence.interruption:
            self._leave_by = running.leave_by
        self._await_keeper(limits)
        self._application.note_progress(journal)
        ending = self._application.judge(evidence) or classify(evidence)
        stop_cause = evidence.interruption or evidence.stop_cause
        after = self._last_good()
        made_progress = self._made_progress(number, before, after)
        journal.write(
            "ended",
            outcome=ending.outcome.value,
            reason=ending.reason,
            exit_code=ending.exit_code if ending.exit_code is not None else evidence.exit_code,
            step=evidence.step,
            last_good_step=after.step if after else None,
            made_progress=made_progress,
            stop_cause=stop_cause,
            node=failed_node(ending.outcome, evidence.log_tail, allocation.get("nodes", [])),
        )
        self._past.append(Past(ending, made_progress, evidence.step, bool(stop_cause)))
        self._tell_end(number, time.monotonic() - began, after)
        decision = self._decide()
        if decision.action is Action.RESTART and (reason := self._leaving.because_of_nodes(allocation, journal)):
            decision = Decision(Action.HAND_BACK, f"{decision.reason}; {reason}", EXIT_SAVED_RUN_AGAIN)
        journal.write(
            "decided",
            action=decision.action.value,
            reason=decision.reason,
            delay_s=decision.delay_s,
            exit_code=decision.exit_code,
            restarts_left=restarts_left(self._past, self._settings.policy),
        )
        if journal.failure is not None:
            self._say(f"the journal of attempt {number} has a hole: {journal.failure}", is_important=True)
        return decision

    def _end_done(self, number: int, journal: Journal, reason: str) -> Decision:
        """An attempt that had nothing to do."""
        journal.write("ended", outcome=Outcome.FINISHED.value, reason=reason, exit_code=0)
        decision = Decision(Action.DONE, reason)
        journal.write("decided", action=decision.action.value, reason=reason, delay_s=0.0, exit_code=0)
        self._say(f"attempt {number} of {self._job.path} has nothing to do: {reason}")
        return decision

    def _decide(self) -> Decision:
        decision = decide_restart(self._past, self._settings.policy)
        if decision.exit_code == EXIT_NO_PROGRESS and (hint := self._application.explain_no_progress()):
            return msgspec.structs.replace(decision, reason=f"{decision.reason}; {hint}")
        return decision

    def _environment(self, attempt: int, limits: Limits, given: Mapping[str, str]) -> dict[str, str]:
        found = {
            Env.JOB: os.fspath(self._job.path),
            Env.ATTEMPT: str(attempt),
            Env.LAUNCH: self._launch,
            Env.LAUNCHER_PID: str(os.getpid()),
            # Behind a pipe Python holds its output back; the last lines before a death are the ones that matter.
            "PYTHONUNBUFFERED": given.get("PYTHONUNBUFFERED", "1"),
        }
        if self._standby is not None:
            found[Env.STANDBY] = "1"
        if limits.time is not None:
            found[Env.DEADLINE] = f"{limits.time.deadline_by_wall_clock():.3f}"
        return found

    def _last_good(self) -> LastGood | None:
        try:
            return self._application.last_good()
        except (OSError, LastgoodError):
            return None

    def _made_progress(self, attempt: int, before: LastGood | None, after: LastGood | None) -> bool | None:
        if after is not None and after.is_newer_than(before):
            return True
        return False if self._application.can_see_checkpoints(attempt) else None

    def _announce(self, attempt: int, message: str, arguments: Sequence[str]) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._say(
            f"attempt {attempt} of {self._job.path} on {socket.gethostname()} at {now}: {message}\n"
            f"$ {shown_command(arguments)}"
        )

    def _tell_end(self, attempt: int, took_s: float, good: LastGood | None) -> None:
        ending = self._past[-1].ending
        place = "" if good is None else f"; last good: step {good.step}"
        if ending.outcome is Outcome.FINISHED:
            self._say(f"attempt {attempt} finished after {duration(took_s)}: {ending.reason}{place}")
        else:
            how = f"{ending.outcome.value} ({ending.reason})"
            self._say(f"attempt {attempt} ended after {duration(took_s)}: {how}{place}")

    def _leave(self, decision: Decision) -> int:
        if decision.action is Action.GIVE_UP:
            return self._leaving.end(f"not started again: {decision.reason}", decision.exit_code)
        if decision.exit_code != EXIT_SAVED_RUN_AGAIN:
            return self._leaving.end(
                "" if decision.action is Action.DONE else f"stopped: {decision.reason}", decision.exit_code
            )
        return self._hand_back("stopped, to be run again", decision.reason)

    def _hand_back(self, what: str, reason: str) -> int:
        last = self._past[-1] if self._past else None
        is_unasked = last is None or last.ending.outcome is Outcome.TIME_LIMIT or not last.was_stop_asked
        return self._leaving.hand_back(what, reason, is_unasked=is_unasked)

    def _leave_unbegun(self, exit_code: int, limits: Limits) -> int:
        """Leave while no attempt runs; `exit_code` as `_pause` has it."""
        if exit_code != EXIT_SAVED_RUN_AGAIN or self._scheduler.interruption() == Interruption.CANCELLED.value:
            return self._leaving.end("", exit_code)
        is_unasked = limits.time is not None and limits.time.is_stop_due()
        return self._leaving.hand_back("to be run again", "", is_unasked=is_unasked)

    def _pause(self, delay_s: float, limits: Limits) -> int | None:
        """Wait before the next attempt; an exit code if somebody asks to stop meanwhile, or the time is up."""
        end = time.monotonic() + delay_s
        while True:
            for number in self._inbox.take():
                if number in STOP_SIGNALS:
                    self._say("asked to stop while no attempt was running", is_important=True)
                    return EXIT_INTERRUPTED if number == SIGINT else EXIT_SAVED_RUN_AGAIN
            if limits.time is not None and limits.time.is_stop_due():
                self._say("the time limit leaves no room for an attempt")
                return EXIT_SAVED_RUN_AGAIN
            left_s = end - time.monotonic()
            if left_s <= 0:
                return None
            self._console.wait(min(left_s, 1.0), self._inbox.fileno())

    def _say(self, text: str, *, is_important: bool = False) -> None:
        self._console.say(text, is_important=is_important)
