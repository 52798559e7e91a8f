"""Loaders of batches, and how one is opened again in the middle of an epoch.

Three kinds, best first:
  a ResumableSampler (or a DataLoader over one): begins anywhere at once;
  a loader with state_dict/load_state_dict (torchdata's StatefulDataLoader): asked to;
  anything else: read again from the start of the epoch, with the random state of that moment.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from lastgood.core.errors import StateMismatchError
from lastgood.runtime.ports import Framework, Stateful
from lastgood.runtime.sampler import ResumableSampler


class Loader:
    """What can be known of a loader that is given to `run.batches`."""

    def __init__(self, source: Iterable[Any]) -> None:
        self.source = source
        self.sampler = _sampler_of(source)
        """The ResumableSampler that decides its order, if there is one."""
        self.has_state = self.sampler is None and all(
            callable(getattr(source, name, None)) for name in ("state_dict", "load_state_dict")
        )

        self.lives_on = bool(getattr(source, "persistent_workers", False) and getattr(source, "num_workers", 0))
        """True if its worker processes serve one epoch after the other."""

    def batches(self) -> int | None:
        """How many batches an epoch has; None if the loader does not know."""
        try:
            return len(self.source)  # type: ignore[arg-type]
        except TypeError:
            return None

    def is_exhausted(self, batch: int, samples: int) -> bool:
        """True if no batch is known to follow."""
        if self.sampler is not None:
            return self.sampler.batches_after(samples) == 0
        total = self.batches()
        return total is not None and batch >= total

    def state(self) -> Any:
        return self.source.state_dict() if self.has_state else None  # type: ignore[attr-defined]

    def generators(self, frameworks: list[Framework]) -> list[tuple[object, Stateful]]:
        """The generators that it draws its order from, its own and its samplers', and how each is saved."""
        found: list[tuple[object, Stateful]] = []
        for owner in self._owners():
            generator = getattr(owner, "generator", None)
            if generator is not None and not any(generator is known for known, _ in found):
                entries = [entry for f in frameworks if (entry := f.adapt(generator)) is not None]
                found += [(generator, entry) for entry in entries[:1]]
        return found

    def open(self, epoch: int, batch: int, samples: int, state: Any) -> Iterator[Any]:
        """An iterator over what is left of `epoch` after `batch` batches.

        The caller has set the random state to what it was when the loader was first opened in this epoch.
        Raises StateMismatchError if the loader ends before: it is not the one that was saved.
        """
        if self.sampler is not None:
            self.sampler.begin(epoch, samples)
            return iter(self.source)
        for owner in self._owners():
            if callable(set_epoch := getattr(owner, "set_epoch", None)):
                set_epoch(epoch)
        if batch == 0:
            return iter(self.source)
        # At its end a loader is read again like any other: asked to resume there it could begin its next pass,
        # and what it draws from its generator when it finds no more is part of the random state.
        if self.has_state and state is not None and not self.is_exhausted(batch, samples):
            self.source.load_state_dict(state)  # type: ignore[attr-defined]
            return iter(self.source)
        iterator = iter(self.source)
        for done in range(batch):
            try:
                next(iterator)
            except StopIteration:
                raise StateMismatchError(
                    f"the loader of epoch {epoch} ended after {done} batches, but {batch} were done before",
                    safe="the checkpoint is whole",
                    remedy="give run.batches the same data and batch size as in the attempt that saved",
                ) from None
        return iterator

    def _owners(self) -> list[Any]:
        """What may decide its order: itself and its samplers, each once."""
        batch_sampler = getattr(self.source, "batch_sampler", None)
        samplers = (getattr(self.source, "sampler", None), batch_sampler, getattr(batch_sampler, "sampler", None))
        return list({id(owner): owner for owner in (self.source, *samplers) if owner is not None}.values())


def _sampler_of(source: object) -> ResumableSampler | None:
    for candidate in (source, getattr(source, "batch_sampler", None), getattr(source, "sampler", None)):
        if isinstance(candidate, ResumableSampler):
            return candidate
    return None
