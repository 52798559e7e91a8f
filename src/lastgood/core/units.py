"""Durations and byte counts as people write them, parsed and printed, always with their unit."""

import math
import re

from lastgood.core.errors import UsageError

_SECONDS = {"ms": 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"": 1, "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BYTES |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGT]?i?B?)\Z")
_PIECE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):(\d{2})(?::(\d{2}))?\Z")


def parse_duration(text: str) -> float:
    """Seconds in a duration: "90s", "10min", "1h30m", or Slurm's "2-12:00:00" and "MM:SS".

    A bare number is refused, because its unit would be a guess.

    >>> parse_duration("1h30m"), parse_duration("2-00:00:30"), parse_duration("05:30")
    (5400.0, 172830.0, 330.0)
    """
    stripped = text.strip().lower()
    clock = _CLOCK.match(stripped)
    if clock:
        days, first, second, third = (int(group) if group else 0 for group in clock.groups())
        if clock[4] is None and clock[1] is None:
            return float(first * 60 + second)
        return float(((days * 24 + first) * 60 + second) * 60 + third)
    if stripped and not _PIECE.sub("", stripped).strip():
        pieces = _PIECE.findall(stripped)
        if all(unit in _SECONDS for _, unit in pieces):
            return sum(float(number) * _SECONDS[unit] for number, unit in pieces)
    raise UsageError(
        f"{text!r} is not a duration",
        remedy='write a number with its unit, such as "90s", "10min" or "1h30m"',
    )


def duration(seconds: float) -> str:
    """A duration for reading: two units at most; "unknown" for one that is not finite.

    >>> duration(1e-5), duration(0.25), duration(42), duration(3725), duration(200000)
    ('<1 ms', '0.25 s', '42 s', '1 h 2 min', '2 d 7 h')
    """
    if not math.isfinite(seconds):
        return "unknown"
    if seconds < 0:
        return "-" + duration(-seconds)
    if 0 < seconds < 0.001:
        return "<1 ms"
    if seconds < 10:
        return f"{seconds:.2g} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min {int(seconds % 60)} s"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"


def parse_byte_size(text: str) -> int:
    """Bytes in a size: "200MB", "1.5GiB", "4096". Raises UsageError.

    >>> parse_byte_size("200MB"), parse_byte_size("1.5GiB"), parse_byte_size("4096")
    (200000000, 1610612736, 4096)
    """
    match = _SIZE.match(text.strip())
    if match is None or match[2] not in _BYTES:
        raise UsageError(f"{text!r} is not a size", remedy='write bytes with their unit, such as "200MB" or "1GiB"')
    return int(float(match[1]) * _BYTES[match[2]])


def byte_size(count: float) -> str:
    """A number of bytes for reading, in powers of 1000 as storage vendors and `ls --si` count.

    >>> byte_size(512), byte_size(3_600_000)
    ('512 B', '3.6 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
