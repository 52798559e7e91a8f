"""How long a job may stand still before it counts as hung, learned from its own steps. Pure."""

import msgspec

UNWATCHED_PHASES = ("finished",)
"""Phases in which a rank owes no sign of life: its steps are done, and what follows is the program's own."""


class HangPolicy(msgspec.Struct, frozen=True):
    """`limit_s` given: that long in any phase. Otherwise learned: `factor` times the longest step seen,
    at least `floor_s`; until a first step is done, `start_s` (imports, compilation, restore)."""

    limit_s: float | None = None
    factor: float = 10.0
    floor_s: float = 300.0
    start_s: float = 1800.0


class Learned(msgspec.Struct):
    """What the heartbeats of one rank have taught so far."""

    step: int | None = None
    longest_s: float = 0.0
    steps_seen: int = 0
    since: float = 0.0
    """Monotonic time of the last sign of life."""


def observe(learned: Learned, step: int, at: float) -> None:
    """Note a heartbeat: the rank has finished `step` at the monotonic time `at`."""
    if learned.step is not None and step != learned.step:
        # Several steps may lie between two looks; together they took no less than the longest of them.
        learned.longest_s = max(learned.longest_s, at - learned.since)
        learned.steps_seen += 1
    learned.step = step
    learned.since = at


def limit_s(learned: Learned, policy: HangPolicy) -> float:
    """How long this rank may be silent now.

    >>> limit_s(Learned(step=7, longest_s=60.0, steps_seen=5), HangPolicy())
    600.0
    """
    if policy.limit_s is not None:
        return policy.limit_s
    if learned.steps_seen == 0:
        return policy.start_s
    return max(policy.floor_s, policy.factor * learned.longest_s)
