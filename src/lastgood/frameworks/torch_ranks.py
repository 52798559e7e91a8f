"""Agreement of the ranks of a torch.distributed job, over a gloo group of our own.

Nothing here touches the training's own groups: their collectives may be in flight on the devices at any
time. Gloo needs only the hosts' network, also where training uses NCCL.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist

from lastgood.core.errors import RankTimeoutError
from lastgood.runtime.exchanges import Exchanges

T = TypeVar("T")

_COURTESY_S = 3.0
"""How long a rank lives on after another one failed: whoever watches the ranks takes the end that comes first for
the cause, and it should be that of the rank which failed on its own account."""

_DIAGNOSIS_S = 5.0
"""How long to wait for each other rank when finding out which one is missing."""


def ranks_of_default_group(limit_s: float) -> "TorchRanks | None":
    """The ranks of the initialised default group; None if there is none, or only one rank."""
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
        return None
    return TorchRanks(limit_s)


class TorchRanks(Exchanges):
    """See `lastgood.runtime.ports.Ranks`. Must be made by all ranks together.

    Every exchange is waited for where it begins. One that is under way while the loop's body runs could not be
    taken back when the body raises: the program's end would wait for ranks that never come, or crash when they
    do come while the interpreter is shutting down.
    """

    def __init__(self, limit_s: float) -> None:
        self.rank = dist.get_rank()
        self.world_size = dist.get_world_size()
        self._limit = timedelta(seconds=limit_s)
        self._diagnosis: dist.ProcessGroup | None = None
        self._group: dist.ProcessGroup | None = self._guarded(self._new_group)
        # Finding out who is missing needs a group that the failed operation has not broken.
        self._diagnosis = self._guarded(self._new_group)

    def _new_group(self) -> "dist.ProcessGroup":
        return dist.new_group(backend="gloo", timeout=self._limit)

    def _maximum(self, values: list[int]) -> list[int]:
        tensor = torch.tensor(values, dtype=torch.int64)
        self._guarded(lambda: dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=self._group))
        return [int(value) for value in tensor.tolist()]

    def broadcast(self, data: memoryview, source: int) -> None:
        tensor = torch.frombuffer(data, dtype=torch.uint8)
        self._guarded(lambda: dist.broadcast(tensor, src=source, group=self._group))

    def close(self) -> None:
        groups, self._group, self._diagnosis = (self._group, self._diagnosis), None, None
        for group in groups:
            # The program may have ended all groups itself, ours among them.
            with suppress(RuntimeError, ValueError, AssertionError):
                if group is not None:
                    dist.destroy_process_group(group)

    def _guarded(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except RuntimeError as error:
            missing = self._missing()
            time.sleep(_COURTESY_S)
            raise RankTimeoutError(
                f"rank {self.rank} waited for {missing} in vain: {_first_line(error)}",
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


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0][:300]
