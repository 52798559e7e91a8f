"""Watching a running command through the heartbeats of its ranks: progress, and hangs."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec

from lastgood.core import hang
from lastgood.core.hang import HangPolicy, Learned
from lastgood.core.heartbeat import STACK_SIGNAL, Heartbeat
from lastgood.core.units import duration
from lastgood.launch.heartbeats import has_ranks_in, read_heartbeats
from lastgood.launch.process import catches

_RATE_WINDOW_S = 60.0


class Progress(msgspec.Struct, frozen=True):
    """What the ranks say of the job as a whole."""

    step: int
    """Last step that every rank has finished."""
    total_steps: int | None
    steps_per_s: float | None
    last_good_step: int | None
    last_good_at: float | None = None
    """When that was written, in seconds since 1970; None if only its step is known."""


class Rate:
    """Steps per second over the last minute. Times are monotonic."""

    def __init__(self) -> None:
        self._history: list[tuple[float, int]] = []

    def note(self, at: float, step: int) -> None:
        if self._history and step <= self._history[-1][1]:
            if step < self._history[-1][1]:
                self._history.clear()
            return
        self._history.append((at, step))
        while len(self._history) > 2 and at - self._history[0][0] > _RATE_WINDOW_S:
            del self._history[0]

    def per_s(self) -> float | None:
        if len(self._history) < 2:
            return None
        (begin, first), (end, last) = self._history[0], self._history[-1]
        return (last - first) / (end - begin) if end > begin else None


class Beats(Protocol):
    """Where heartbeats come from."""

    def read(self) -> dict[int, Heartbeat]:
        """The newest of every rank, with times of this process's clock."""

    def has_ranks(self) -> bool:
        """True if some rank keeps one."""

    def listens(self, rank: int) -> bool:
        """True if a rank is known to live, and to write its stacks when asked."""

    def ask_for_stacks(self) -> list[int]:
        """Make every rank that listens write its Python stacks to its standard error; the ranks asked."""


class LocalBeats:
    """Of ranks on this node, from the directory in which they keep them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._pids: dict[int, int] = {}

    def read(self) -> dict[int, Heartbeat]:
        found = read_heartbeats(self._directory)
        self._pids |= {rank: beat.pid for rank, beat in found.items()}
        return found

    def has_ranks(self) -> bool:
        return has_ranks_in(self._directory)

    def listens(self, rank: int) -> bool:
        return rank in self._pids and catches(self._pids[rank], STACK_SIGNAL)

    def ask_for_stacks(self) -> list[int]:
        asked = []
        for rank, pid in sorted(self._pids.items()):
            if self.listens(rank):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, STACK_SIGNAL)
                    asked.append(rank)
        return asked


class Standstill(msgspec.Struct, frozen=True):
    """What has shown no sign of life for too long, in words, and for how long."""

    what: str
    silent_s: float


class Watch:
    """Judges the heartbeats of the ranks. All times are monotonic."""

    def __init__(self, source: Beats, policy: HangPolicy) -> None:
        self._source = source
        self._policy = policy
        self._started = time.monotonic()
        self._learned: dict[int, Learned] = {}
        self._beats: dict[int, Heartbeat] = {}
        self._rate = Rate()

    def look(self) -> None:
        """Read every rank's record. A torn one is read at the next look."""
        for rank, beat in self._source.read().items():
            before = self._beats.get(rank)
            if before is not None and before.sequence == beat.sequence and before.pid == beat.pid:
                continue
            if before is None or before.pid != beat.pid:
                # A new process (a restarted worker) has its own start-up to go through.
                self._learned[rank] = Learned()
            self._beats[rank] = beat
            hang.observe(self._learned[rank], beat.step, beat.at)
        if self._beats:
            self._rate.note(max(beat.at for beat in self._beats.values()), min(b.step for b in self._beats.values()))

    def progress(self) -> Progress | None:
        """None if no rank has sent a heartbeat."""
        if not self._beats:
            return None
        beats = self._beats.values()
        total = max(beat.total_steps for beat in beats)
        good = max(beat.last_good_step for beat in beats)
        return Progress(
            min(beat.step for beat in beats),
            total if total >= 0 else None,
            self._rate.per_s(),
            good if good >= 0 else None,
        )

    def find_hang(self, last_output_at: float) -> "Standstill | None":
        """What has stood still for too long; None if nothing has.

        Only ranks that still listen count: one whose loop has ended, or which is gone, may be silent.
        A command without heartbeats is judged by its output, and only if a limit was given.
        """
        now = time.monotonic()
        if not self._beats:
            limit = self._policy.limit_s
            silent = now - max(last_output_at, self._started)
            if limit is None or silent <= limit:
                return None
            return Standstill(f"no heartbeat, and no output for {duration(silent)} (limit {duration(limit)})", silent)
        for rank, beat in sorted(self._beats.items()):
            limit = hang.limit_s(self._learned[rank], self._policy)
            if beat.phase in hang.UNWATCHED_PHASES:
                continue
            silent = now - beat.at
            if silent > limit and self._source.listens(rank):
                return Standstill(
                    f"rank {rank} has stood still for {duration(silent)} after step {beat.step} "
                    f'in phase "{beat.phase}" (limit {duration(limit)})',
                    silent,
                )
        return None

    def ask_for_stacks(self) -> list[int]:
        """Make every rank that listens write its Python stacks to its standard error; the ranks asked."""
        return self._source.ask_for_stacks()
