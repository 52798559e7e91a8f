"""Who retries after an attempt has ended: exactly one owner, from a table. Pure.

| ended by | who | |
|---|---|---|
| killed, hang, communication timeout, storage error, hardware error, out of memory once | the launcher, in place | failures count towards the limit |
| preempted, time limit, node failure | the scheduler (exit code 75) | never counted as failures |
| cancelled with Ctrl-C | the person (exit code 130) | never counted as a failure |
| the program itself asked (75) with no stop from outside | the launcher | a planned segment |
| program error, refused, out of memory twice at the same place, no progress twice, limit reached | nobody | its own exit code |
| finished | nobody | 0 |

An attempt without a newer checkpoint counts against the job, unless it was stopped from outside (preempted,
its launcher lost): that says nothing about the job, and only many of those in a row end it.
"""

from enum import StrEnum

import msgspec

from lastgood.core import errors
from lastgood.core.outcome import Ending, Outcome


class Action(StrEnum):
    DONE = "done"
    RESTART = "restart"
    HAND_BACK = "hand back"
    GIVE_UP = "give up"


class Decision(msgspec.Struct, frozen=True):
    action: Action
    reason: str
    exit_code: int = 0
    delay_s: float = 0.0


class Policy(msgspec.Struct, frozen=True):
    max_restarts: int = 100
    """How many failures are restarted in all; 0 leaves restarts to others. Preemptions and time limits are
    no failures."""
    max_without_progress: int = 2
    """Attempts in a row without a newer last good checkpoint after which the job stops."""
    max_stopped_without_progress: int = 6
    """The same for attempts that were stopped from outside before they could save."""
    first_delay_s: float = 1.0
    longest_delay_s: float = 60.0
    restart_on: tuple[int, ...] = ()
    """Exit codes of the command that are to be restarted although they look like program errors."""


class Past(msgspec.Struct, frozen=True):
    """One ended attempt, as the decision needs it, oldest first in a list."""

    ending: Ending
    made_progress: bool | None
    """A newer last good checkpoint than before it; None where checkpoints cannot be seen."""
    step: int | None = None
    was_stop_asked: bool = False
    """Somebody outside told it to stop, or its time was up."""

    @property
    def is_from_outside(self) -> bool:
        """Its end says nothing about the job itself."""
        outcome = self.ending.outcome
        if outcome in (Outcome.LAUNCHER_LOST, Outcome.NODE_FAILURE, Outcome.CANCELLED):
            return True
        return outcome is Outcome.PREEMPTED and self.was_stop_asked

    @property
    def is_failure(self) -> bool:
        """It counts towards the restart limit. A request to be run again counts where nothing shows that it
        gets on, so that it cannot go on for ever."""
        if self.ending.outcome in (Outcome.FINISHED, Outcome.CANCELLED):
            return False
        if self.ending.outcome in _SCHEDULERS:
            return self.made_progress is None and not self.was_stop_asked
        return True


_MAY_PASS = {
    Outcome.KILLED,
    Outcome.HANG,
    Outcome.COMMUNICATION,
    Outcome.STORAGE_ERROR,
    Outcome.HARDWARE_ERROR,
    Outcome.OUT_OF_MEMORY,
    Outcome.LAUNCHER_LOST,
}
_SCHEDULERS = {Outcome.PREEMPTED, Outcome.TIME_LIMIT, Outcome.NODE_FAILURE}


def decide_restart(past: list[Past], policy: Policy) -> Decision:
    """What to do after the newest attempt in `past`. After a stop from outside nothing is started again here.

    >>> killed = Past(Ending(Outcome.KILLED, "ended by SIGKILL", 137), True)
    >>> decide_restart([killed], Policy()).action
    <Action.RESTART: 'restart'>
    """
    now = past[-1]
    outcome = now.ending.outcome
    if outcome is Outcome.FINISHED:
        return Decision(Action.DONE, now.ending.reason)
    if outcome is Outcome.CANCELLED:
        return Decision(Action.HAND_BACK, f"cancelled: {now.ending.reason}", errors.EXIT_INTERRUPTED)
    is_listed = now.ending.exit_code in policy.restart_on and outcome is Outcome.PROGRAM_ERROR
    if outcome not in _MAY_PASS and outcome not in _SCHEDULERS and not is_listed:
        return Decision(Action.GIVE_UP, f"{outcome.value}: {now.ending.reason}", now.ending.exit_code or 1)
    if _is_same_memory_failure(past):
        return Decision(
            Action.GIVE_UP,
            f"out of memory twice at {_place(now)}: it would happen again",
            errors.EXIT_OUT_OF_MEMORY_TWICE,
        )
    if problem := _no_progress(past, policy):
        return Decision(Action.GIVE_UP, problem, errors.EXIT_NO_PROGRESS)
    if now.was_stop_asked or (policy.max_restarts == 0 and outcome in _SCHEDULERS):
        return Decision(Action.HAND_BACK, f"{outcome.value}: {now.ending.reason}", errors.EXIT_SAVED_RUN_AGAIN)
    if policy.max_restarts == 0:
        reason = f"{outcome.value}: {now.ending.reason}; restarts are switched off"
        return Decision(Action.GIVE_UP, reason, now.ending.exit_code or 1)
    failures = sum(1 for p in past if p.is_failure)
    if failures > policy.max_restarts:
        return Decision(
            Action.GIVE_UP,
            f"failed {failures} times; the limit is {policy.max_restarts} restarts",
            errors.EXIT_RESTART_LIMIT,
        )
    return Decision(Action.RESTART, f"{outcome.value}: {now.ending.reason}", delay_s=_delay_s(past, policy))


def restarts_left(past: list[Past], policy: Policy) -> int:
    """How many more failures would be restarted."""
    return max(policy.max_restarts - sum(1 for p in past if p.is_failure), 0)


def _no_progress(past: list[Past], policy: Policy) -> str:
    """Why the job does not get on; empty if it does, or if that cannot be seen."""
    own = stopped = 0
    for p in reversed(past):
        if p.ending.outcome is Outcome.CANCELLED:
            # Whoever pressed Ctrl-C was there, and has started it again.
            continue
        if p.made_progress is not False:
            break
        if p.is_from_outside:
            stopped += 1
        else:
            own += 1
    if own < policy.max_without_progress and stopped < policy.max_stopped_without_progress:
        return ""
    return (
        f"{own + stopped} attempts in a row ended without a newer checkpoint (the last one: {past[-1].ending.reason})"
    )


def _is_same_memory_failure(past: list[Past]) -> bool:
    own = [p for p in past if not p.is_from_outside]
    if past[-1].is_from_outside or len(own) < 2:
        return False
    before, now = own[-2:]
    if before.ending.outcome is not Outcome.OUT_OF_MEMORY or now.ending.outcome is not Outcome.OUT_OF_MEMORY:
        return False
    return before.step == now.step and not (now.step is None and now.made_progress)


def _place(p: Past) -> str:
    return "the same place" if p.step is None else f"step {p.step}"


def _delay_s(past: list[Past], policy: Policy) -> float:
    """Nothing to wait for after progress; otherwise doubling, so that a broken node is not hammered."""
    idle = 0
    for p in reversed(past):
        if p.made_progress:
            break
        idle += 1
    return float(min(policy.longest_delay_s, policy.first_delay_s * 2 ** min(idle - 1, 30))) if idle else 0.0
