"""What the job side needs from its surroundings: frameworks and the other ranks."""

from typing import Any, Protocol, runtime_checkable

from lastgood.core.tensorfile import ArraySpec
from lastgood.core.tree import ArrayLeaf, Codec, Json


class Stateful(Protocol):
    """One entry of a job's state: how it is captured and put back."""

    def capture(self) -> object:
        """The state as a tree of plain values and arrays. Arrays may be views of the live state."""

    def mismatches(self, tree: Any) -> list[str]:
        """Why `tree` cannot be restored here, one line each; empty if it can. Changes nothing."""

    def restore(self, tree: Any) -> None:
        """Put a captured state back."""


@runtime_checkable
class InPlace(Protocol):
    """A `Stateful` whose arrays can be read straight into the memory that the program has for them."""

    def places(self, tree: Any) -> list[tuple[object, memoryview]] | None:
        """Each array of `tree` with the host memory that its bytes (C order) go to: the entry is restored when all are
        there. None where only `restore` can do it. `tree` has no mismatches; its arrays have no content yet."""


class Framework(Codec, Protocol):
    """Everything that is particular to one array library."""

    name: str
    """Also the `kind` of its array leaves."""

    def buffer(self, leaf: ArrayLeaf) -> memoryview:
        """The array's bytes in C order, on the host. A view of the live array where that is possible."""

    def from_buffer(self, spec: ArraySpec, tag: dict[str, Json], data: memoryview) -> object:
        """An array over `data` (shared, writable), of the kind that `to_leaf` described."""

    def adapt(self, value: object) -> Stateful | None:
        """How to save and load `value` as an entry of the state; None if it is not of this framework. Raises
        ValueError with the reason if it could not be put back."""

    def random_state(self) -> object:
        """The state of the framework's global random generators, as a tree."""

    def set_random_state(self, tree: Any) -> None:
        """Put it back; generators of devices that are not here are passed over."""

    def shield_helpers(self) -> None:
        """Keep processes that the framework starts from dying of signals that ask the job to save or stop."""

    def fingerprint(self) -> dict[str, str]:
        """What may change results: versions, devices, switches."""


class Ranks(Protocol):
    """The processes that work on one job together. No method may wait for ever: after the limit it
    raises RankTimeoutError that names the ranks that did not answer."""

    rank: int
    world_size: int

    def maximum(self, values: list[int]) -> list[int]:
        """Element-wise maximum over all ranks. Every rank must call."""

    def equal(self, values: list[int]) -> list[bool]:
        """For each element whether it is the same on all ranks. Every rank must call, with equal lengths."""

    def tell(self, text: str | None, source: int = 0) -> str:
        """The text of rank `source`, on every rank. Every rank must call; only the argument of that rank counts."""

    def broadcast(self, data: memoryview, source: int) -> None:
        """Put the bytes of rank `source` into `data`, which is writable, on every rank. Every rank must call, with the
        same length and more than nothing."""

    def close(self) -> None:
        """Let go of what agreement needs. Nothing may be called after; calling it twice is fine."""


class OneRank:
    """A job of a single process."""

    rank = 0
    world_size = 1

    def maximum(self, values: list[int]) -> list[int]:
        return values

    def equal(self, values: list[int]) -> list[bool]:
        return [True] * len(values)

    def tell(self, text: str | None, source: int = 0) -> str:
        return text or ""

    def broadcast(self, data: memoryview, source: int) -> None:
        return

    def close(self) -> None:
        pass
