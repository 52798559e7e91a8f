"""A sampler whose order is a function of (seed, epoch), so that a position is just a number.

Every global step takes the next contiguous slice of the epoch's order, divided among the ranks. So the
samples that were used are always a prefix, and a job can continue with another number of ranks at the
next global step: what remains is the rest of the same order.
"""

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from lastgood.core.errors import UsageError


class ResumableSampler:
    """Batches of indices for this rank, each index exactly once per epoch over all ranks.

    Give it to a DataLoader as `batch_sampler`, or iterate it directly, with `run.batches(...)` in both
    cases, which tells it the epoch and where to begin.

        sampler = lastgood.ResumableSampler(len(dataset), batch_size=32, seed=1)
        loader = DataLoader(dataset, batch_sampler=sampler)

    `size` is the number of samples; `batch_size` counts this rank's samples per step. The last step of an
    epoch may be smaller; it is left out if `drop_last` is set, or if it has fewer samples than ranks
    (a rank without any would wait for the others for ever). The order for a seed never changes between
    versions: it sorts raw Philox output (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3").

    >>> [batch.tolist() for batch in ResumableSampler(5, batch_size=2, shuffle=False)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        size: int,
        *,
        batch_size: int,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        given = {"size": size, "batch_size": batch_size, "seed": seed, "rank": rank, "world_size": world_size}
        size, batch_size, seed, rank, world_size = (_whole(name, value) for name, value in given.items())
        if size < 1 or batch_size < 1 or not 0 <= rank < world_size:
            raise UsageError(
                f"ResumableSampler(size={size}, batch_size={batch_size}, rank={rank}, world_size={world_size}): "
                "size and batch_size must be 1 or more, and rank below world_size"
            )
        self.size = size
        self.batch_size = batch_size
        self._shuffle = bool(shuffle)
        self._seed = seed
        self._drop_last = drop_last
        self._rank = rank
        self._world_size = world_size
        self._epoch = 1
        self._start = 0

    @property
    def settings(self) -> dict[str, Any]:
        """What the order of an epoch depends on, beside its number."""
        return {"size": self.size, "shuffle": self._shuffle} | ({"seed": self._seed} if self._shuffle else {})

    @property
    def samples_per_step(self) -> int:
        """Samples that one global step uses, over all ranks."""
        return self.batch_size * self._world_size

    def begin(self, epoch: int, samples_done: int = 0) -> None:
        """Choose what the next iteration yields: the rest of `epoch` after its first `samples_done` samples."""
        self._epoch = epoch
        self._start = samples_done

    def samples_after(self, samples_done: int, batches: int) -> int:
        """Global samples that are used after `batches` more global steps."""
        return min(self.size, samples_done + batches * self.samples_per_step)

    def order(self, epoch: int) -> np.ndarray:
        """The order of all samples in an epoch, the same on every rank."""
        if not self._shuffle:
            return np.arange(self.size)
        key = np.array([self._seed % 2**64, operator.index(epoch) % 2**64], dtype=np.uint64)
        return np.argsort(np.random.Philox(key=key).random_raw(self.size), kind="stable")

    def __iter__(self) -> Iterator[np.ndarray]:
        # Only this iteration begins in the middle: who asks for the length later means a whole epoch. Not before its
        # first batch: a DataLoader with workers makes an iterator that it never uses.
        start, self._start = self._start, 0
        order = self.order(self._epoch)
        for begin in range(start, self.size, self.samples_per_step):
            end = min(begin + self.samples_per_step, self.size)
            if not self._is_used(end - begin):
                return
            # Cut points that divide any remainder as evenly as possible, in rank order.
            cuts = [begin + (end - begin) * r // self._world_size for r in (self._rank, self._rank + 1)]
            yield order[cuts[0] : cuts[1]]

    def __len__(self) -> int:
        """Batches that the next iteration yields."""
        return self.batches_after(self._start)

    def batches_after(self, samples_done: int) -> int:
        """Batches that an epoch has left after its first `samples_done` samples."""
        full, rest = divmod(max(0, self.size - samples_done), self.samples_per_step)
        return full + (1 if self._is_used(rest) else 0)

    def _is_used(self, samples: int) -> bool:
        if samples == self.samples_per_step:
            return True
        return samples >= self._world_size and not self._drop_last and samples > 0


def _whole(name: str, value: object) -> int:
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise UsageError(f"ResumableSampler({name}={value!r}): must be a whole number") from None
