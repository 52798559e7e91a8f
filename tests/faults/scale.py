"""How much of a campaign is tried: evenly chosen points of it each time, all of them where that is asked for."""

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

IS_FULL = os.environ.get("LASTGOOD_TESTS_CAMPAIGNS") == "full"


MANY = 120
"""More points are not tried in one campaign of a single process, unless all are asked for."""


def scaled(full: int, usual: int) -> int:
    """How many points to try."""
    return full if IS_FULL else usual


def evenly(points: Sequence[T], most: int) -> list[T]:
    """At most so many, the first and the last among them, and the others at even distances; all where that is asked for.

    >>> evenly(range(11), 3)
    [0, 5, 10]
    """
    if IS_FULL or len(points) <= most:
        return list(points)
    return [points[round(at * (len(points) - 1) / (most - 1))] for at in range(most)]
