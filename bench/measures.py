"""What follows from the times of a loop. Pure."""

import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

WINDOW = 4
"""The step that saves and the three after it."""


class Stalls(NamedTuple):
    """Seconds of extra time for each save, the first one first, and of an ordinary step."""

    saves: list[float]
    step_s: float


def stalls(tops: Sequence[float], every: int) -> Stalls:
    """How long the loop stood still for each save.

    `tops[k]` is when step k + 1 began; the last one is when the loop ended. Step n saves at its end if n is a
    multiple of `every`. The stall of a save is the extra time of its step and of the three that follow, against
    the median of the steps that neither save nor follow a save (nor, being the fifth, wait for one).

    >>> stalls([0, 1, 2, 3, 4, 7, 8, 9.5, 10.5, 12, 13, 14], every=5)
    Stalls(saves=[2.5], step_s=1.0)
    """
    took = [after - before for before, after in pairwise(tops)]
    # The first two steps warm up, and the loop's last save is followed by too few steps.
    ordinary = [seconds for step, seconds in enumerate(took, 1) if step > 2 and (step < every or step % every > WINDOW)]
    step_s = statistics.median(ordinary)
    found = []
    for step in range(every, len(took) - WINDOW + 2, every):
        window = took[step - 1 : step - 1 + WINDOW]
        found.append(sum(window) - WINDOW * step_s)
    return Stalls(found, step_s)


def stretch_s(tops: Sequence[float], every: int, saves: int) -> float:
    """The time of a stretch of the loop with `saves` saves in it, each with all the steps that it may slow.

    It begins in the middle between the first save and the second.

    >>> stretch_s(list(range(100)), every=10, saves=3)
    30
    """
    begin = every + every // 2
    return tops[begin + saves * every] - tops[begin]


def extra_bytes(samples: Sequence[tuple[float, int]], ready: float) -> int:
    """The most memory after `ready`, above the last sample before it."""
    before = [size for at, size in samples if at <= ready]
    after = [size for at, size in samples if at > ready]
    return max(after) - before[-1] if before and after else 0
