"""Noticing a state that the loop does not change, before a long job turns out to have saved nothing."""

from collections.abc import Mapping
from typing import Any

import xxhash

from lastgood.core import tree
from lastgood.runtime.snapshot import SAMPLE_BYTES, Array
from lastgood.runtime.state import VALUES, is_reserved

ENOUGH_SAVES, ENOUGH_STEPS = 3, 20
"""Equal saves in a row, and steps from the first to the last of them, that are no coincidence any more. (A loop
that accumulates gradients changes nothing for a few steps.)"""


class Stillness:
    """Notices a state that the loop does not change: usually an array that it rebinds (`w = w + 1`) instead
    of changing it in place. Looks at the first saves only, until a change is seen; at samples first, and at all
    of the state only when these have not changed."""

    def __init__(self) -> None:
        self.unchanged_since: int | None = None
        self._samples: bytes | None = None
        self._first: tuple[int, bytes] | None = None
        """The first of the saves that have been looked at as a whole."""
        self._saves = 0
        self._is_over = False

    def look(self, step: int, entries: dict[str, Any], arrays: Mapping[str, Array]) -> None:
        """Note the state that is saved as `step`."""
        if self._is_over:
            self.unchanged_since = None
            return
        if not any(_is_users(name) and skeleton != {} for name, skeleton in entries.items()):
            # A state that holds nothing has nothing that could change.
            return
        mine = _of_user(entries, arrays)
        samples, before = _digest_samples(entries, mine), self._samples
        self._samples = samples
        if before is not None and samples != before:
            self._is_over = True
        elif before is not None or all(_is_sample(array) for array in mine):
            self._compare(step, _digest_all(samples, mine))

    def _compare(self, step: int, digest: bytes) -> None:
        self._first = self._first or (step, digest)
        self._saves += 1
        first, then = self._first
        if digest != then:
            self._is_over = True
        elif self._saves >= ENOUGH_SAVES and step - first >= ENOUGH_STEPS:
            # Said once is enough.
            self.unchanged_since, self._is_over = first, True


def _of_user(entries: dict[str, Any], arrays: Mapping[str, Array]) -> list[Array]:
    """The arrays that the program put into the state, without those that are ours and change by themselves."""
    names = [name for name, skeleton in sorted(entries.items()) if _is_users(name)]
    return [arrays[array] for name in names for array in tree.array_names(entries[name])]


def _digest_samples(entries: dict[str, Any], arrays: list[Array]) -> bytes:
    """Of all that is no array, and of a little of each array. Costs next to nothing."""
    hasher = xxhash.xxh3_128()
    for name, skeleton in sorted(entries.items()):
        if _is_users(name):
            hasher.update(repr((name, skeleton)).encode("utf-8", "surrogatepass"))
    for array in arrays:
        hasher.update(array.sample())
    return hasher.digest()


def _is_sample(array: Array) -> bool:
    """True if all of an array is in its samples."""
    return array.spec.nbytes == 0 or (array.leaf.address != 0 and array.spec.nbytes <= 2 * SAMPLE_BYTES)


def _digest_all(samples: bytes, arrays: list[Array]) -> bytes:
    hasher = xxhash.xxh3_128(samples)
    for array in arrays:
        hasher.update(array.data)
    return hasher.digest()


def _is_users(name: str) -> bool:
    return not is_reserved(name) or name == VALUES
