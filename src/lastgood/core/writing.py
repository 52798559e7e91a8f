"""How hard checkpoints are written while the job computes. Pure."""

import re
from typing import Literal

import msgspec

from lastgood.core.errors import UsageError

_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kMGT]?B)(?:/s)?\Z")
_UNITS = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
MAX_THREADS = 64


class Writing(msgspec.Struct, frozen=True):
    """How gently the background writes: at most `limit` ("200MB/s"; None: as fast as the device takes it), with
    the kernel's I/O priority `"idle"` (whatever else the machine reads and writes goes first) or `"normal"`, by
    that many `threads` (None: two, or one on fewer than four cores, which the job needs itself). The save before a stop knows no gentleness: there the job waits for it.

    >>> Writing(limit="200MB/s").bytes_per_s
    200000000.0
    >>> Writing(limit="fast")
    Traceback (most recent call last):
    lastgood.core.errors.UsageError: Writing(limit='fast') is not a rate
    """

    limit: str | None = None
    priority: Literal["idle", "normal"] = "idle"
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and not self.bytes_per_s:
            raise UsageError(
                f"Writing(limit={self.limit!r}) is not a rate", remedy='write bytes per second, such as "200MB/s"'
            )
        if self.priority not in ("idle", "normal"):
            raise UsageError(f"Writing(priority={self.priority!r}): 'idle' or 'normal'")
        if self.threads is not None and (isinstance(self.threads, bool) or not 1 <= self.threads <= MAX_THREADS):
            raise UsageError(f"Writing(threads={self.threads!r}): a number from 1 to {MAX_THREADS}")

    @property
    def bytes_per_s(self) -> float | None:
        """None if there is no limit."""
        match = _RATE.match(self.limit.strip()) if isinstance(self.limit, str) else None
        return float(match[1]) * _UNITS[match[2]] if match else None
