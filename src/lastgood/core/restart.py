"""Who retries after an attempt has ended: exactly one owner, from a table. Pure.

| ended by | who | |
|---|---|---|
| killed, hang, communication timeout, storage error, out of memory once | the launcher, in place | failures count towards the limit |
| preempted, time limit, node failure | the scheduler (exit code 75) | never counted as failures |
| the program itself asked (75) with no stop from outside | the launcher | a planned segment |
| program error, refused, out of memory twice at the same place, no progress twice, limit reached | nobody | its own exit code |
| finished, cancelled | nobody | 0, 130 |
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
    """How many failures are restarted in all. Preemptions and time limits are not failures."""
    max_without_progress: int = 2
    """Attempts in a row without a newer last good checkpoint after which the job stops."""
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


_MAY_PASS = {
    Outcome.KILLED,
    Outcome.HANG,
    Outcome.COMMUNICATION,
    Outcome.STORAGE_ERROR,
    Outcome.OUT_OF_MEMORY,
    Outcome.LAUNCHER_LOST,
}
_SCHEDULERS = {Outcome.PREEMPTED, Outcome.TIME_LIMIT, Outcome.NODE_FAILURE}


def decide_restart(past: list[Past], policy: Policy, *, was_stop_asked: bool) -> Decision:
    """What to do after the newest attempt in `past`.

    `was_stop_asked` says that somebody outside told the launcher to stop, or its time is up: then
    nothing is started again here.

    >>> killed = Past(Ending(Outcome.KILLED, "ended by SIGKILL", 137), True)
    >>> decide_restart([killed], Policy(), was_stop_asked=False).action
    <Action.RESTART: 'restart'>
    """
    now = past[-1]
    outcome = now.ending.outcome
    if outcome is Outcome.FINISHED:
        return Decision(Action.DONE, now.ending.reason)
    if outcome is Outcome.CANCELLED:
        return Decision(Action.GIVE_UP, f"cancelled: {now.ending.reason}", errors.EXIT_INTERRUPTED)
    is_listed = now.ending.exit_code in policy.restart_on and outcome is Outcome.PROGRAM_ERROR
    if outcome not in _MAY_PASS and outcome not in _SCHEDULERS and not is_listed:
        return Decision(Action.GIVE_UP, f"{outcome.value}: {now.ending.reason}", now.ending.exit_code or 1)
    if _is_same_memory_failure(past):
        return Decision(
            Action.GIVE_UP,
            f"out of memory twice at {_place(now)}: it would happen again",
            errors.OutOfMemoryTwiceError.exit_code,
        )
    idle = _without_progress(past)
    if idle >= policy.max_without_progress:
        return Decision(
            Action.GIVE_UP,
            f"{idle} attempts in a row ended without a newer checkpoint (the last one: {now.ending.reason})",
            errors.NoProgressError.exit_code,
        )
    if was_stop_asked:
        return Decision(Action.HAND_BACK, f"{outcome.value}: {now.ending.reason}", errors.EXIT_SAVED_RUN_AGAIN)
    failures = sum(1 for p in past if p.ending.outcome not in _SCHEDULERS)
    if failures > policy.max_restarts:
        return Decision(
            Action.GIVE_UP,
            f"failed {failures} times; the limit is {policy.max_restarts} restarts",
            errors.RestartLimitError.exit_code,
        )
    return Decision(Action.RESTART, f"{outcome.value}: {now.ending.reason}", delay_s=_delay_s(past, policy))


def _without_progress(past: list[Past]) -> int:
    count = 0
    for p in reversed(past):
        if p.made_progress is not False:
            break
        count += 1
    return count


def _is_same_memory_failure(past: list[Past]) -> bool:
    if len(past) < 2 or any(p.ending.outcome is not Outcome.OUT_OF_MEMORY for p in past[-2:]):
        return False
    return past[-1].step == past[-2].step


def _place(p: Past) -> str:
    return "the same place" if p.step is None else f"step {p.step}"


def _delay_s(past: list[Past], policy: Policy) -> float:
    """Nothing to wait for after progress; otherwise doubling, so that a broken node is not hammered."""
    if past[-1].made_progress or past[-1].ending.outcome in _SCHEDULERS:
        return 0.0
    failures = 0
    for p in reversed(past):
        if p.made_progress:
            break
        failures += 1
    return float(min(policy.longest_delay_s, policy.first_delay_s * 2 ** min(failures - 1, 30)))
