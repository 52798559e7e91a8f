"""What a rank does with its keeper, step by step, without a training loop around it."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from lastgood.core.retention import Keep
from lastgood.core.tensorfile import ArraySpec, plan
from lastgood.core.writing import Writing
from lastgood.keeper.arena import Arena
from lastgood.keeper.client import Keeper
from lastgood.keeper.protocol import Cleared, Event, Order
from lastgood.store.jobdir import JobDirectory

LIMIT_S = 180.0
"""Nothing that is waited for takes nearly as long."""


def until(is_so: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    end = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.002)


class Rank:
    """A connection, and slots. What it saves as step n is `floats` numbers n + rank."""

    def __init__(
        self,
        job: JobDirectory,
        rank: int = 0,
        world_size: int = 1,
        attempt: int = 1,
        floats: int = 1000,
        slots: int = 2,
    ) -> None:
        self.rank, self.world_size, self.attempt, self.floats = rank, world_size, attempt, floats
        self._layout = plan([self._spec])
        self.arenas = [Arena(self._layout.file_bytes) for _ in range(slots)]
        self.events: list[Event] = []
        self._next = 0
        self.connect(job)

    def connect(self, job: JobDirectory) -> None:
        self.keeper = Keeper(job, self.rank)
        self.keeper.offer(self.arenas)

    @property
    def _spec(self) -> ArraySpec:
        return ArraySpec("model.w", "F64", (self.floats,))

    def values(self, step: int) -> np.ndarray:
        return np.full(self.floats, float(step + self.rank))

    def copy(self, step: int, slot: int) -> None:
        self.keeper.begin(slot)
        view, header, placed = self.arenas[slot].view, self._layout.header, self._layout.arrays[0]
        view[: len(header)] = header
        view[placed.begin : placed.end] = self.values(step).tobytes()

    def order(self, step: int, **changes: Any) -> Order:
        facts: dict[str, Any] = {
            "step": step,
            "attempt": self.attempt,
            "rank": self.rank,
            "world_size": self.world_size,
            "file_bytes": self._layout.file_bytes,
            "entries": {"model": {"w": {"$array": "model.w", "kind": "numpy"}}},
            "shared": [],
            "began": time.monotonic(),
            "limit_s": LIMIT_S,
            "keep": Keep(last=None),
            "writing": Writing(),
        }
        return Order(**facts | changes)

    def save(self, step: int, **changes: Any) -> int:
        """The number of the slot that it is saved from."""
        slot, self._next = self._next, (self._next + 1) % len(self.arenas)
        self.copy(step, slot)
        self.keeper.save(slot, self.order(step, **changes))
        return slot

    def hear(self, kind: type[Event], step: int) -> Any:
        """Wait for an event."""
        end = time.monotonic() + LIMIT_S
        while not (found := [e for e in self.events if isinstance(e, kind) and e.step == step]):
            assert time.monotonic() < end, f"never heard of it: {self.events}"
            self.events += self.keeper.events(0.2)
        return found[0]

    def commit(self, step: int, **changes: Any) -> None:
        """Returns when all is done that follows from it."""
        self.save(step, **changes)
        self.hear(Cleared, step)

    def die(self) -> None:
        """Let go without a word."""
        self.keeper.close()
        for arena in self.arenas:
            arena.close()
        self.arenas = []
