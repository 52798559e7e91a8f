"""How long a batch script may run, by what it asks for. Pure."""

import math

from lastgood.audit.batch.script import BatchScript
from lastgood.audit.policy import Policy
from lastgood.schedulers.slurm_text import parse_slurm_duration

SHORT_S = 30 * 60.0
"""What is lost with a job of this length is started again and forgotten."""
LONG_S = 12 * 3600.0
_UNLIMITED = ("unlimited", "infinite", "-1")


def time_limit_s(script: BatchScript) -> float | None:
    """The limit that the script asks for; infinity for none at all; None where it asks for nothing, or unclearly."""
    text = script.header.value("time").strip()
    if text.lower() in _UNLIMITED:
        return math.inf
    seconds = parse_slurm_duration(text)
    # A limit of zero is no limit.
    return math.inf if seconds == 0 else seconds


def is_short(script: BatchScript) -> bool:
    """True if the script says that the job is over soon."""
    limit = time_limit_s(script)
    return limit is not None and limit <= SHORT_S


def is_long(script: BatchScript) -> bool:
    """True if the script says that the job is long."""
    limit = time_limit_s(script)
    return limit is not None and limit >= LONG_S


def partitions(script: BatchScript, policy: Policy) -> list[str]:
    """The partitions that the job can run in; empty if that is not known."""
    asked = script.header.value("partition")
    names = asked.split(",") if asked else [policy.default_partition]
    return [name.strip() for name in names if name.strip()]


def in_words(seconds: float) -> str:
    """
    >>> [in_words(s) for s in (90, 2700, 7200, 5400, 259200, 356400, math.inf)]
    ['2 min', '45 min', '2 h', '1.5 h', '3 days', '99 h', 'no limit']
    """
    if seconds == math.inf:
        return "no limit"
    if seconds < 3600:
        return f"{math.ceil(seconds / 60)} min"
    if seconds < 48 * 3600 or seconds % 86400:
        return f"{seconds / 3600:.3g} h"
    return f"{seconds / 86400:.0f} days"
