"""Where the job is in its epochs and batches."""

from typing import Any

from lastgood.runtime.loaders import Loader


class Position:
    """Counts of this epoch. An epoch may read several loaders one after the other: its parts."""

    def __init__(self) -> None:
        self.epoch = 0
        """The epoch that is under way, from 1; 0 outside of epochs."""
        self.part = 0
        """Which of the epoch's loaders, from 0."""
        self.batch = 0
        """Batches of that loader that are done."""
        self.samples = 0
        """Samples that are done over all ranks, where a ResumableSampler counts them."""
        self.order: dict[str, Any] | None = None
        """What their order depends on."""

    @property
    def is_inside_epoch(self) -> bool:
        """True if something of the epoch is done."""
        return self.part > 0 or self.batch > 0

    def begin_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        self.begin_part(0)

    def begin_part(self, part: int) -> None:
        self.part, self.batch, self.samples, self.order = part, 0, 0, None

    def advance(self, loader: Loader) -> None:
        """One more batch of `loader` is done."""
        self.batch += 1
        if loader.sampler is not None:
            self.samples = loader.sampler.samples_after(self.samples, 1)
            self.order = loader.sampler.settings

    def capture(self) -> dict[str, Any]:
        return dict(vars(self))

    def restore(self, tree: dict[str, Any]) -> None:
        for name in ("epoch", "part", "batch", "samples"):
            setattr(self, name, int(tree[name]))
        # Checkpoints of before do not say.
        self.order = tree.get("order")
