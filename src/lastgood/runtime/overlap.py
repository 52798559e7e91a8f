"""Which arrays can be copied beside the loop: those that only an optimizer's step changes, which waits for the copy."""

from collections.abc import Callable, Iterable

from lastgood.runtime.ports import Stateful, Stepping
from lastgood.runtime.snapshot import Array
from lastgood.runtime.state import parts_of

LEAST_BYTES = 2**20
"""Smaller arrays are copied sooner than it takes to plan that for later, and to take turns with the loop for each."""


class Overlap:
    """Knows the optimizers of a state. `hold` is called before each of their steps."""

    def __init__(self, entries: Iterable[Stateful], hold: Callable[[], None]) -> None:
        self._stepping = [part for part in parts_of(entries) if isinstance(part, Stepping)]
        self._hold = hold
        self._ends: list[Callable[[], None]] = []
        self._untrusted: set[str] = set()

    def later(self, arrays: Iterable[Array]) -> frozenset[str]:
        """Which of these need not be copied at the safe point, by name."""
        own = {identity: size for one in self._stepping for identity, size in one.own_arrays(LEAST_BYTES).items()}
        names = frozenset(
            array.spec.name
            for array in arrays
            if array.spec.nbytes >= LEAST_BYTES
            and array.spec.nbytes <= own.get(array.leaf.identity, 0)
            and array.spec.name not in self._untrusted
        )
        if names and not self._ends:
            # Not before: what is loaded at the start need not wait for anything.
            self._ends = [one.before_change(self._hold) for one in self._stepping]
        return names

    def distrust(self, names: Iterable[str]) -> None:
        """These have changed without a step: they are not copied later any more."""
        self._untrusted.update(names)

    def close(self) -> None:
        for end in self._ends:
            end()
        self._ends = []
