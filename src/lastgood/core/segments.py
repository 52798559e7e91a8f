"""How many jobs of a limited length a long computation needs. Pure."""

import math

START_S = 60.0
"""What a job loses at its begin and at a time limit, which Slurm keeps to the minute: imports, reading, a last save."""


MOST_SEGMENTS = 1000
"""Jobs that are submitted for one computation."""


def usable_s(limit_s: float, grace_s: float) -> float:
    """Seconds of work in a job with a time limit, which is stopped the grace time before its end; 0 if there are none.

    Of a short time limit no more than half of the rest is taken to be lost.

    >>> usable_s(86400, 30), usable_s(60, 30), usable_s(60, 60)
    (86310.0, 15.0, 0.0)
    """
    rest = limit_s - grace_s
    return max(rest - START_S, rest / 2, 0.0)


def segments_for(work_s: float, limit_s: float, grace_s: float) -> int:
    """Jobs that are needed for that much work. Raises ValueError if none of them could do any.

    >>> segments_for(36 * 3600, 24 * 3600, 30), segments_for(48 * 3600, 24 * 3600, 30), segments_for(3600, 24 * 3600, 30)
    (2, 3, 1)
    """
    usable = usable_s(limit_s, grace_s)
    if usable <= 0:
        raise ValueError("no time is left for work")
    return max(math.ceil(work_s / usable), 1)
