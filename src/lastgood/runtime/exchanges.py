"""How ranks agree, by two operations that a framework gives. See `lastgood.runtime.ports.Ranks`."""

from abc import ABC, abstractmethod

from lastgood.core.errors import UsageError

_HEAD_NUMBERS = 8
"""Numbers that fit into the first message of an exchange: most need no second one."""

_TELL = -1


class Exchanges(ABC):
    """An exchange begins with a message of one size that says what it is: ranks that meet in different places (one has
    left the loop, one has caught an exception) learn so, instead of taking each other's numbers for something else.
    """

    rank: int
    world_size: int

    @abstractmethod
    def broadcast(self, data: memoryview, source: int) -> None: ...

    @abstractmethod
    def _maximum(self, values: list[int]) -> list[int]:
        """Element-wise maximum over all ranks, which give equally many. Raises RankTimeoutError."""

    def maximum(self, values: list[int]) -> list[int]:
        if len(values) > _HEAD_NUMBERS:
            self._meet(len(values), [])
            return self._maximum(values)
        return self._meet(len(values), values)

    def equal(self, values: list[int]) -> list[bool]:
        # The maximum of x and of ~x (which is -x - 1): equal on all ranks if the least is the greatest.
        both = self.maximum(values + [~value for value in values])
        half = len(values)
        return [both[i] == ~both[half + i] for i in range(half)]

    def tell(self, text: str | None, source: int = 0) -> str:
        data = (text or "").encode() if self.rank == source else b""
        size = self._meet(_TELL, [len(data)])[0]
        buffer = bytearray(data.ljust(max(1, size)))
        self.broadcast(memoryview(buffer), source)
        return buffer[:size].decode()

    def _meet(self, kind: int, values: list[int]) -> list[int]:
        """Exchange the first message. `kind` is the same on all ranks that are at the same place."""
        padding = [0] * (_HEAD_NUMBERS - len(values))
        most, least, *found = self._maximum([kind, -kind, *values, *padding])
        if most != -least:
            raise UsageError(
                f"rank {self.rank} meets other ranks at different places of the program",
                safe="checkpoints that were committed are whole",
                remedy="let every rank do the same steps, and call run.safe_point() and run.finish() on all or none",
            )
        return found[: len(values)]
