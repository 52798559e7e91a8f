"""Noticing a state that the loop does not change, before a long job turns out to have saved nothing."""

from typing import Any

import xxhash

from lastgood.core import tree
from lastgood.core.tensorfile import ArraySpec
from lastgood.runtime.state import VALUES, is_reserved

Arrays = dict[str, tuple[ArraySpec, memoryview]]


ENOUGH_SAVES, ENOUGH_STEPS = 3, 20
"""Equal saves in a row, and steps from the first to the last of them, that are no coincidence any more. (A loop
that accumulates gradients changes nothing for a few steps.)"""


class Stillness:
    """Notices a state that the loop does not change: usually an array that it rebinds (`w = w + 1`) instead
    of changing it in place. Looks at the first saves only, until a change is seen."""

    def __init__(self) -> None:
        self.unchanged_since: int | None = None
        self._first: tuple[int, bytes] | None = None
        self._saves = 0
        self._is_over = False

    def look(self, step: int, entries: dict[str, Any], arrays: Arrays) -> None:
        """Note the state that is saved as `step`."""
        if self._is_over:
            self.unchanged_since = None
            return
        if not any(_is_users(name) and skeleton != {} for name, skeleton in entries.items()):
            # A state that holds nothing has nothing that could change.
            return
        digest = _digest(entries, arrays)
        self._first = self._first or (step, digest)
        self._saves += 1
        first, then = self._first
        if digest != then:
            self._is_over = True
        elif self._saves >= ENOUGH_SAVES and step - first >= ENOUGH_STEPS:
            # Said once is enough.
            self.unchanged_since, self._is_over = first, True


def _digest(entries: dict[str, Any], arrays: Arrays) -> bytes:
    """Of everything that the program put into the state, without what is ours and changes by itself."""
    hasher = xxhash.xxh3_128()
    for name, skeleton in sorted(entries.items()):
        if _is_users(name):
            hasher.update(repr((name, skeleton)).encode("utf-8", "surrogatepass"))
            for array in tree.array_names(skeleton):
                hasher.update(arrays[array][1])
    return hasher.digest()


def _is_users(name: str) -> bool:
    return not is_reserved(name) or name == VALUES
