"""Agreement of the ranks of a torch.distributed job, over a gloo group of our own.

Nothing here touches the training's own groups: their collectives may be in flight on the devices at any
time. Gloo needs only the hosts' network, also where training uses NCCL.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist

from lastgood.core.errors import RankTimeoutError, UsageError

T = TypeVar("T")

_SAFE_POINT, _EXCHANGE, _TELL = 1, 2, 3
_PLACES = {_SAFE_POINT: "a safe point", _EXCHANGE: "a save or an end", _TELL: "a start"}
_HEAD_NUMBERS = 8
_LEAST = -(2**63)

_DIAGNOSIS_S = 5.0
"""How long to wait for each other rank when finding out which one is missing."""


def ranks_of_default_group(limit_s: float) -> "TorchRanks | None":
    """The ranks of the initialised default group; None if there is none, or only one rank."""
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
        return None
    return TorchRanks(limit_s)


class TorchRanks:
    """See `lastgood.runtime.ports.Ranks`. Must be made by all ranks together.

    Whatever the ranks exchange begins with a message of one size that says what it is: ranks that meet in
    different places (one has left the loop, one has caught an exception) learn so, instead of taking each
    other's numbers for something else.
    """

    def __init__(self, limit_s: float) -> None:
        self.rank = dist.get_rank()
        self.world_size = dist.get_world_size()
        self._limit = timedelta(seconds=limit_s)
        self._pending: tuple[dist.Work, torch.Tensor] | None = None
        self._diagnosis: dist.ProcessGroup | None = None
        self._group = self._guarded("the start", self._new_group)
        # Finding out who is missing needs a group that the failed operation has not broken.
        self._diagnosis = self._guarded("the start", self._new_group)

    def _new_group(self) -> dist.ProcessGroup:
        return dist.new_group(backend="gloo", timeout=self._limit)

    def propose(self, flags: list[int]) -> None:
        tensor = _head(_SAFE_POINT, flags)
        work = self._guarded(
            "the next safe point",
            lambda: dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=self._group, async_op=True),
        )
        self._pending = (work, tensor)

    def agreed(self) -> list[int] | None:
        if self._pending is None:
            return []
        (work, tensor), self._pending = self._pending, None
        self._guarded("the last safe point", lambda: work.wait(self._limit))
        return _same_place(tensor)

    def maximum(self, values: list[int]) -> list[int]:
        self._meet(_EXCHANGE, "a save")
        return self._maximum(torch.tensor(values, dtype=torch.int64))

    def _maximum(self, tensor: torch.Tensor) -> list[int]:
        self._guarded("a save", lambda: dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=self._group))
        return [int(value) for value in tensor]

    def _meet(self, place: int, what: str) -> None:
        head = _head(place, [])
        self._guarded(what, lambda: dist.all_reduce(head, op=dist.ReduceOp.MAX, group=self._group))
        _same_place(head)

    def equal(self, values: list[int]) -> list[bool]:
        # The maximum of x and of ~x (which is -x - 1): equal on all ranks if the least is the greatest.
        both = self.maximum(values + [~value for value in values])
        half = len(values)
        return [both[i] == ~both[half + i] for i in range(half)]

    def tell(self, text: str | None) -> str:
        self._meet(_TELL, "the start")
        data = (text or "").encode()
        size = torch.tensor([len(data)], dtype=torch.int64)
        self._guarded("the start", lambda: dist.broadcast(size, src=0, group=self._group))
        buffer = torch.zeros(max(1, int(size)), dtype=torch.uint8)
        if self.rank == 0 and data:
            buffer[:] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        self._guarded("the start", lambda: dist.broadcast(buffer, src=0, group=self._group))
        return bytes(buffer[: int(size)].tolist()).decode()

    def close(self) -> None:
        self._pending = None

    def _guarded(self, what: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except RuntimeError as error:
            raise RankTimeoutError(
                f"rank {self.rank} waited for {self._missing()} at {what}, in vain: {_first_line(error)}",
                safe="checkpoints that were committed are whole",
                remedy="look for the first error in that rank's output; run again to resume from the last good checkpoint",
            ) from error

    def _missing(self) -> str:
        """Which ranks do not answer, as text. Only rank 0 hears of all; the others hear of rank 0."""
        if self._diagnosis is None:
            return "other ranks"
        try:
            dist.monitored_barrier(self._diagnosis, timedelta(seconds=_DIAGNOSIS_S), wait_all_ranks=True)
        except RuntimeError as error:
            text = _first_line(error)
            if self.rank == 0 and "Ranks " in text:
                return "ranks " + text.split("Ranks ", 1)[1].split(" failed", 1)[0].strip()
            return "other ranks" if self.rank == 0 else "rank 0, or a rank that rank 0 waits for"
        return "a rank that answers again now"


def _head(place: int, flags: list[int]) -> torch.Tensor:
    """The first message of an exchange. After a maximum over all ranks its first two numbers are each other's
    opposite if all were at the same place."""
    content = [place, -place, *flags]
    return torch.tensor(content + [_LEAST] * (_HEAD_NUMBERS - len(content)), dtype=torch.int64)


def _same_place(head: torch.Tensor) -> list[int]:
    """The flags of a head that all ranks have sent. Raises UsageError if they were at different places."""
    most, least, *flags = (int(value) for value in head)
    if most != -least:
        raise UsageError(
            f"ranks are at different places: one at {_PLACES[-least]}, another at {_PLACES[most]}",
            safe="checkpoints that were committed are whole",
            remedy="let every rank do the same steps, and call run.safe_point() and run.finish() on all ranks or none",
        )
    return [flag for flag in flags if flag != _LEAST]


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0][:300]
