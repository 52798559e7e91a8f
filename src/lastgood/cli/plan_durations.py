"""Durations as options give them. A mistake names its option."""

from lastgood.core.errors import UsageError
from lastgood.core.units import parse_duration

LONGEST_S = 10 * 365 * 86400.0


def duration_of(option: str, text: str) -> float:
    """Seconds. Raises UsageError, also for a duration that nobody lives to see."""
    try:
        seconds = parse_duration(text)
    except UsageError as error:
        raise UsageError(f"{option}: {error.what}", remedy=error.remedy) from None
    if seconds > LONGEST_S:
        raise UsageError(f"{option} {text}: longer than ten years")
    return seconds


def optional_duration(option: str, text: str | None) -> float | None:
    return None if text is None else duration_of(option, text)


def positive_duration(option: str, text: str | None) -> float | None:
    seconds = optional_duration(option, text)
    if seconds is not None and seconds <= 0:
        raise UsageError(f"{option} {text}: must be more than nothing")
    return seconds
