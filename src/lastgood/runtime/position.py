"""Where the job is in its epochs and batches, and how a loader is opened again at that place.

Three kinds of loader, best first:
  a ResumableSampler (or a DataLoader over one): begins anywhere at once;
  a loader with state_dict/load_state_dict (torchdata's StatefulDataLoader): asked to;
  anything else: read again from the start of the epoch, with the random state of that moment.
"""

import random
from collections.abc import Iterable, Iterator
from typing import Any

from lastgood.core.errors import StateMismatchError
from lastgood.runtime.ports import Framework, Stateful
from lastgood.runtime.sampler import ResumableSampler


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
        self.at_open: Any = None
        """Random state right before that loader was opened."""
        self.loader: Any = None
        """The loader's own state, if it has one."""

    def begin_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        self.begin_part(0)

    def begin_part(self, part: int) -> None:
        self.part, self.batch, self.samples, self.at_open, self.loader = part, 0, 0, None, None

    def advance(self, sampler: ResumableSampler | None) -> None:
        """One more batch is done."""
        self.batch += 1
        if sampler is not None:
            self.samples = sampler.samples_after(self.samples, 1)

    def capture(self) -> dict[str, Any]:
        return dict(vars(self))

    def restore(self, tree: dict[str, Any]) -> None:
        for name in vars(self):
            setattr(self, name, tree[name])


class RandomState:
    """All global generators of the process, and those of the loader that is open."""

    def __init__(self, frameworks: list[Framework]) -> None:
        self._frameworks = frameworks

    def capture(self, generators: list[Stateful]) -> dict[str, Any]:
        return {
            "python": random.getstate(),
            "frameworks": {f.name: f.random_state() for f in self._frameworks},
            "loader": [generator.capture() for generator in generators],
        }

    def restore(self, tree: dict[str, Any], generators: list[Stateful]) -> None:
        random.setstate(tree["python"])
        for framework in self._frameworks:
            if framework.name in tree["frameworks"]:
                framework.set_random_state(tree["frameworks"][framework.name])
        for generator, state in zip(generators, tree["loader"], strict=False):
            generator.restore(state)


def loader_generators(loader: object, frameworks: list[Framework]) -> list[Stateful]:
    """Generators that a loader draws its order from: its own and its sampler's."""
    found = []
    for owner in (loader, getattr(loader, "sampler", None)):
        generator = getattr(owner, "generator", None)
        if generator is not None:
            found += [entry for f in frameworks if (entry := f.adapt(generator)) is not None][:1]
    return found


def sampler_of(loader: object) -> ResumableSampler | None:
    """The ResumableSampler that decides a loader's order, if there is one."""
    for candidate in (loader, getattr(loader, "batch_sampler", None), getattr(loader, "sampler", None)):
        if isinstance(candidate, ResumableSampler):
            return candidate
    return None


def has_state(loader: object) -> bool:
    return callable(getattr(loader, "state_dict", None)) and callable(getattr(loader, "load_state_dict", None))


def open_loader(loader: Iterable[Any], position: Position) -> Iterator[Any]:
    """An iterator over what is left of `loader` at `position`.

    The caller has set the random state to what it was when the epoch's part began.
    Raises StateMismatchError if the loader ends before the position: it is not the one that was saved.
    """
    sampler = sampler_of(loader)
    if sampler is not None:
        sampler.begin(position.epoch, position.samples)
        return iter(loader)
    set_epoch = getattr(getattr(loader, "sampler", None), "set_epoch", None)
    if callable(set_epoch):
        set_epoch(position.epoch)
    if position.batch == 0:
        return iter(loader)
    if _is_exhausted(loader, position.batch):
        return iter(())
    if has_state(loader):
        loader.load_state_dict(position.loader)  # type: ignore[attr-defined]
        return iter(loader)
    iterator = iter(loader)
    for done in range(position.batch):
        try:
            next(iterator)
        except StopIteration:
            raise StateMismatchError(
                f"the loader of epoch {position.epoch} ended after {done} batches, but {position.batch} were done before",
                safe="the checkpoint is whole",
                remedy="give run.batches the same data and batch size as in the attempt that saved",
            ) from None
    return iterator


def _is_exhausted(loader: object, batches: int) -> bool:
    """True if the loader's pass was complete; asking it to resume there could begin the next one."""
    try:
        return batches >= len(loader)  # type: ignore[arg-type]
    except TypeError:
        return False
