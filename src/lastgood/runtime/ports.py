"""What the job side needs from its surroundings: frameworks and the other ranks."""

from collections.abc import Callable, Hashable
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


@runtime_checkable
class Frozen(Protocol):
    """A `Stateful` that knows arrays of its own that nobody trains."""

    def frozen_arrays(self) -> set[Hashable]:
        """The identity of each, now."""


@runtime_checkable
class Marking(Protocol):
    """A framework that can tell without a copy to the host whether an array has changed."""

    def mark(self, leaf: ArrayLeaf) -> Hashable | None:
        """Something that is equal for equal content, and by no accident for other; None if it cannot tell."""


@runtime_checkable
class Stepping(Protocol):
    """A `Stateful` that changes arrays of the state only when it is told to, and can say so before it does."""

    def own_arrays(self, least_bytes: int) -> dict[Hashable, int]:
        """The arrays of that size or larger that only it changes, its own and others: the identity of each, and its
        bytes."""

    def before_change(self, call: Callable[[], None]) -> Callable[[], None]:
        """From now on `call` is called before each change, in the thread that makes it. Returns what ends that."""


class DeviceCopy(Protocol):
    """Copies from devices that are under way."""

    def hold_changes(self) -> None:
        """What this thread asks the devices to do from now on, they do after the copies."""

    def wait(self) -> None:
        """Wait until all are done."""


class DeviceCopies(Protocol):
    """Copies arrays from devices into memory of the host, in the order in which the program uses the devices."""

    def takes(self, leaf: ArrayLeaf) -> bool:
        """True if the array lies on such a device."""

    def pin(self, address: int, size: int) -> str:
        """Make copies into this memory as fast as they can be; why it was not possible, or nothing. Its pages must be
        there. May be called in any thread."""

    def unpin(self, address: int) -> None:
        """Before memory that was given to `pin` is given back."""

    def start(self, now: list[tuple[ArrayLeaf, int]], later: list[tuple[ArrayLeaf, int]]) -> DeviceCopy:
        """Begin to copy arrays to addresses. The devices change nothing before what is in `now` is copied; what is in
        `later` must not be changed before `hold_changes`."""


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

    def stamp(self, leaf: ArrayLeaf) -> int:
        """Another number after each change of the array that the framework knows of."""

    def device_copies(self) -> DeviceCopies | None:
        """For arrays that lie on devices; None if there can be none in this process."""


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
