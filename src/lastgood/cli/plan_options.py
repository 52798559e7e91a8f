"""What options give: durations, and files. A mistake names its option."""

from pathlib import Path

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


def content_of(option: str, name: str, most_bytes: int, safe: str = "") -> bytes:
    """Of a file that was named. Raises UsageError if there is none, DamagedError, StorageError, PermissionDeniedError."""
    from lastgood.store import durable

    with durable.explained(f"read {option}", name, safe=safe):
        try:
            return durable.read_file(Path(name), most_bytes)
        except FileNotFoundError:
            raise UsageError(f"{option} {name}: there is no such file", safe=safe) from None
