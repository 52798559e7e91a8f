"""Reading the batches of an epoch so that a later attempt can go on in the middle of it."""

from collections.abc import Iterable, Iterator
from typing import Any

from lastgood.core.errors import StateMismatchError
from lastgood.runtime.loaders import Loader
from lastgood.runtime.ports import Framework, Stateful
from lastgood.runtime.position import Position
from lastgood.runtime.random_state import Generators, RandomState


class Reading:
    """The position in the data, together with the random state that a later attempt needs to come back to it.

    What is saved is in two pieces: the position, which all ranks have in common, and the rest, which is this
    rank's own.
    """

    def __init__(self, frameworks: list[Framework], random: RandomState | None) -> None:
        """`random` is None where random state is not to be kept."""
        self.position = Position()
        self._frameworks = frameworks
        self._random = random
        self._generators = Generators()
        self._alive: list[object] = []
        """Loaders whose workers this process has started and that live on."""
        self._loader: Loader | None = None
        self._at_open: Any = None
        self._loader_state: Any = None
        self._after_part: Any = None
        self._restored: Any = None
        self._starts: dict[str, Any] = {}
        """The global random state when the "epoch" began, and when the body began to make its way to this "part"."""
        self._is_other_world_size = False
        self._may_lose_place = False

    # What is saved ------------------------------------------------------------------------------------------

    def capture(self) -> dict[str, Any]:
        """What belongs to this rank, but for the random state."""
        is_reading = self._loader is not None and self.position.batch > 0
        if is_reading and self._loader is not None and self._loader.has_state:
            self._loader_state = self._loader.state()
        return {"at_open": self._at_open, "loader": self._loader_state}

    def capture_random(self) -> dict[str, Any] | None:
        """The random state to go on with. Between a loader's end (or the epoch's start) and the next loader or
        epoch it is the one at the loader's end, because what runs there runs again after a resume."""
        if self._random is None:
            return None
        return {**(self._after_part or self._now()), "starts": self._starts}

    def _now(self) -> dict[str, Any]:
        assert self._random is not None
        return {"global": self._random.capture(), "loaders": self._generators.capture()}

    def restore(self, position: dict[str, Any], own: dict[str, Any] | None, random: dict[str, Any] | None) -> None:
        self.position.restore(position)
        if own is not None:
            self._at_open, self._loader_state = own["at_open"], own["loader"]
        if self._random is not None and random is not None:
            self._restored = random
            self._starts = random.get("starts") or {}
            if not self._starts and self.position.is_inside_epoch:
                # Checkpoints of before do not say.
                self._starts = dict.fromkeys(("epoch", "part"), random["global"])
            self._generators.restore(random["loaders"])
            self._put_random_back()

    def note_other_world_size(self, *, may_lose_place: bool) -> None:
        """The checkpoint was saved by another number of ranks."""
        self._is_other_world_size = True
        self._may_lose_place = may_lose_place

    # What happens in the loop -------------------------------------------------------------------------------

    def begin_loop(self) -> None:
        """What ran since the restore may have drawn from the generators: put them back, the last time unless
        the loop has to find its place in an epoch first."""
        self._after_part = None
        self._put_random_back()
        if not self.position.is_inside_epoch:
            self._restored = None

    def begin_epoch(self, epoch: int) -> None:
        self.position.begin_epoch(epoch)
        self._leave_loader()
        self._after_part = self._restored = None
        self._starts = {}

    def begin_body(self) -> None:
        """The epoch's body runs from its start. In an epoch that is partly done it draws again what it drew before, such
        as the order of its batches."""
        if self._random is None:
            return
        if self.position.is_inside_epoch and self._starts:
            self._after_part = self._restored = self._restored or self._now()
            self._random.restore(self._starts["epoch"])
        else:
            self._after_part = self._now()
            self._starts = dict.fromkeys(("epoch", "part"), self._after_part["global"])

    def open(self, part: int, source: Iterable[Any]) -> Iterator[Any] | None:
        """The batches that are left of the epoch's loader number `part`; None if that part is done."""
        loader = Loader(source)
        self._generators.note(part, loader.generators(self._frameworks))
        if part < self.position.part:
            # What the loop's body did on its way here it has done before: it must not count.
            if self._random is not None and self._starts:
                self._random.restore(self._starts["part"])
            return None
        if part > self.position.part:
            self.position.begin_part(part)
            self._leave_loader()
        elif self._loader is not None:
            # The loop was left and is entered again. The loader has given out a batch that was not done:
            # it cannot go on by its own state.
            self._loader_state = None
        self._refuse_lost_place(loader)
        self._refuse_other_order(loader)
        self._after_part = None
        iterator = self._open(loader)
        self._loader = loader
        return iterator

    def is_last_batch(self) -> bool:
        """True if the loader that is open is known to have no batch left."""
        return self._loader is not None and self._loader.is_exhausted(self.position.batch, self.position.samples)

    def advance(self) -> None:
        """One more batch of the open loader is done."""
        if self._loader is not None:
            self.position.advance(self._loader)

    def end_part(self) -> None:
        """The open loader was read to its end, or left early: this part of the epoch is done."""
        if self._loader is None:
            return
        self.position.begin_part(self.position.part + 1)
        self._leave_loader()
        if self._random is not None:
            self._after_part = self._now()
            self._starts = {**self._starts, "part": self._after_part["global"]}

    # ---------------------------------------------------------------------------------------------------------

    def _leave_loader(self) -> None:
        self._loader = self._at_open = self._loader_state = None

    def _put_random_back(self) -> None:
        if self._restored is not None and self._random is not None:
            self._random.restore(self._restored["global"])

    def _open(self, loader: Loader) -> Iterator[Any]:
        place = (self.position.epoch, self.position.batch, self.position.samples, self._loader_state)
        if self._random is None:
            return loader.open(*place)
        self._put_random_back()
        self._restored = None
        generators = [entry for _, entry in loader.generators(self._frameworks)]
        now = self._take(generators)
        if loader.lives_on and not any(loader.source is known for known in self._alive):
            self._alive.append(loader.source)
            if self.position.epoch > 1:
                # Starting its workers draws from the generators, and was done in the first epoch.
                iter(loader.source)
                self._put(now, generators)
        if self._at_open is None:
            self._at_open = now
            return loader.open(*place)
        # Opening draws from the generators, as it did when this loader was first opened; what was drawn since
        # then is in the state that is put back afterwards.
        self._put(self._at_open, generators)
        iterator = loader.open(*place)
        self._put(now, generators)
        return iterator

    def _take(self, generators: list[Stateful]) -> dict[str, Any]:
        assert self._random is not None
        return {"global": self._random.capture(), "own": [generator.capture() for generator in generators]}

    def _put(self, tree: dict[str, Any], generators: list[Stateful]) -> None:
        assert self._random is not None
        self._random.restore(tree["global"])
        for generator, state in zip(generators, tree["own"], strict=False):
            generator.restore(state)

    def _refuse_lost_place(self, loader: Loader) -> None:
        if not self._is_other_world_size:
            return
        self._is_other_world_size = False
        if self.position.batch and loader.sampler is None and not self._may_lose_place:
            raise StateMismatchError(
                f"the checkpoint is {self.position.batch} batches into an epoch and was saved by another number of "
                f"ranks: a {type(loader.source).__qualname__} cannot tell which samples are left",
                safe="the checkpoint is whole",
                remedy="use lastgood.ResumableSampler, or the same number of ranks until the epoch's end, or say that "
                "reading some samples twice or never is right: lastgood.Run(..., allow_world_size_change=True)",
            )

    def _refuse_other_order(self, loader: Loader) -> None:
        """The place is a number, which means the same samples only in the same order."""
        here = None if loader.sampler is None else loader.sampler.settings
        saved = self.position.order
        differences = []
        if self.position.batch and (here is None) != (self.position.samples == 0):
            differences.append(f"a ResumableSampler {'decided' if here is None else 'did not decide'} it before")
        if here and saved:
            differences += [f"{n} was {saved[n]} and is {here[n]}" for n in here if n in saved and saved[n] != here[n]]
        if differences:
            raise StateMismatchError(
                f"the checkpoint is {self.position.batch} batches into an epoch, and the order of its samples is another "
                f"one now: {', '.join(differences)}",
                safe="the checkpoint is whole",
                remedy="give run.batches the sampler of the attempt that saved; change it at an epoch's end",
            )
