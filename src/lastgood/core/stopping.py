"""What a signal to the launcher means, and what each process of the job is sent for it. Pure.

| signal | meaning | ranks get |
|---|---|---|
| SIGTERM, SIGUSR1, SIGINT | save and stop | the same signal |
| SIGHUP | the terminal is gone: save and stop | SIGTERM, because few programs handle SIGHUP by saving |
| SIGUSR2 | save and carry on | the same signal |

A process that does not catch a stop signal gets SIGTERM in its place: torchrun would die of SIGUSR1 without
stopping its workers, and a shell's background jobs ignore SIGINT. A process that does not catch the signal to save
is left alone: "carry on" must not end it. An application whose signal to stop is known gets that one as it is.
"""

from enum import StrEnum

import msgspec

from lastgood.core.signals import SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, signal_name

STOP_SIGNALS = (SIGTERM, SIGUSR1, SIGINT, SIGHUP)
SAVE_SIGNAL = SIGUSR2
FORWARDED = (*STOP_SIGNALS, SAVE_SIGNAL)

TIME_LIMIT = "time limit"
"""The cause of a stop that launcher and program know by the same name; other causes are names of signals."""

LEFTOVER_GRACE_S = 10.0
"""How long processes may live on after the command itself has ended unasked."""


class Manner(StrEnum):
    """How a signal is passed on."""

    STOP = "stop"
    SAVE = "save"
    """And carry on."""
    AS_IS = "as it is"


class Stop(msgspec.Struct, frozen=True):
    """The command was asked to stop: why, and when it is killed if it has not ended by then (monotonic)."""

    cause: str
    kill_at: float
    is_hurried: bool = False
    """Ctrl-C was pressed again: there is no more grace."""


def stop_on_signal(current: Stop | None, number: int, now: float, grace_s: float) -> Stop:
    """The stop after another stop signal. The first one gives the cause; a second SIGINT ends the grace.

    >>> first = stop_on_signal(None, SIGINT, 100.0, 30.0)
    >>> first.cause, first.kill_at, stop_on_signal(first, SIGINT, 101.0, 30.0).kill_at
    ('SIGINT', 130.0, 101.0)
    """
    if current is None:
        return Stop(signal_name(number), now + grace_s)
    if number == SIGINT:
        return Stop(current.cause, now, is_hurried=True)
    return current


def signal_for(number: int, manner: Manner, *, is_caught: bool) -> int | None:
    """Which signal a process of the job gets when `number` is passed on; None if it gets none.

    >>> signal_for(SIGUSR1, Manner.STOP, is_caught=False) == SIGTERM, signal_for(SIGUSR1, Manner.SAVE, is_caught=False)
    (True, None)
    """
    if manner is Manner.AS_IS:
        return number
    if manner is Manner.SAVE:
        return number if is_caught else None
    if number == SIGHUP or not is_caught:
        return SIGTERM
    return number


def stop_time(deadline: float, started: float, grace_s: float) -> float:
    """When to ask the command to stop before a time limit: the grace time before it, and never before
    three quarters of the time have been used. All in seconds on the same clock.

    >>> stop_time(1000.0, 0.0, 30.0), stop_time(20.0, 0.0, 30.0)
    (970.0, 15.0)
    """
    return deadline - min(grace_s, max(deadline - started, 0.0) / 4)
