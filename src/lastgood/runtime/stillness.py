"""Noticing a state that the loop does not change, before a long job turns out to have saved nothing."""

from typing import Any

import xxhash

from lastgood.core import tree
from lastgood.core.tensorfile import ArraySpec
from lastgood.runtime.state import VALUES, is_reserved

Arrays = dict[str, tuple[ArraySpec, memoryview]]


class Stillness:
    """Notices a state that the loop does not change: usually an array that it rebinds (`w = w + 1`) instead
    of changing it in place. Looks at the first saves only, until a change is seen."""

    def __init__(self) -> None:
        self.unchanged_since: int | None = None
        self._first: tuple[int, bytes] | None = None
        self._is_over = False

    def look(self, step: int, entries: dict[str, Any], arrays: Arrays) -> None:
        """Note the state that is saved as `step`."""
        if self._is_over:
            self.unchanged_since = None
            return
        digest = _digest(entries, arrays)
        if self._first is None:
            self._first = (step, digest)
        elif digest == self._first[1]:
            self.unchanged_since = self._first[0]
            # Said once is enough.
            self._is_over = True
        else:
            self._is_over = True


def _digest(entries: dict[str, Any], arrays: Arrays) -> bytes:
    """Of everything that the program put into the state, without what is ours and changes by itself."""
    hasher = xxhash.xxh3_128()
    for name, skeleton in sorted(entries.items()):
        if not is_reserved(name) or name == VALUES:
            hasher.update(repr((name, skeleton)).encode("utf-8", "surrogatepass"))
            for array in tree.array_names(skeleton):
                hasher.update(arrays[array][1])
    return hasher.digest()
