"""Arrays that do not change from save to save: written once, and referred to by the checkpoints.

Which these are, the program says: parameters that it does not train, and what it declares. That they have not changed
is not taken on trust but looked at before each save, at the speed of memory; what has changed goes with every
checkpoint from then on.
"""

import os
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

import msgspec
import xxhash

from lastgood.core import manifest
from lastgood.core.units import byte_size, duration
from lastgood.runtime.ports import Frozen, Marking, Stateful
from lastgood.runtime.snapshot import Array
from lastgood.runtime.state import parts_of
from lastgood.store.constants import ConstantsWriter
from lastgood.store.threads import each

LEAST_BYTES = 2**20
"""Less is not worth a file of its own."""

_THREADS = 4
_THREADS_FROM_BYTES = 64 * 2**20


class Constants:
    """The constants of one rank. `writer` writes to where the checkpoints go."""

    def __init__(
        self,
        entries: Iterable[Stateful],
        patterns: Sequence[str],
        writer: ConstantsWriter,
        clock: Callable[[], float],
    ) -> None:
        self._frozen = [part for part in parts_of(entries) if isinstance(part, Frozen)]
        self._patterns = patterns
        self._writer = writer
        self._clock = clock
        self._files: list[manifest.Constants] = []
        self._marks: dict[str, Hashable] = {}
        """Of what is in the files: equal as long as the content is."""
        self._changed: set[str] = set()
        self._unchecked_patterns = list(patterns)
        self.notes: list[str] = []
        """What a person should know, each once."""

    def move(self, writer: ConstantsWriter) -> None:
        """Checkpoints go elsewhere from now on."""
        self._writer, self._files, self._marks = writer, [], {}

    def note_read(self, constants: Iterable[manifest.Constants]) -> None:
        """The attempt has resumed from these, which are where the checkpoints go."""
        for one in constants:
            self._writer.note_read(one)

    def check_patterns(self, names: Collection[str]) -> None:
        """The state has arrays of these names: a pattern that matches none may be misspelt."""
        patterns, self._unchecked_patterns = self._unchecked_patterns, []
        self.notes += [
            f"constant={pattern!r} matches no array of the state"
            for pattern in patterns
            if not any(fnmatchcase(name, pattern) for name in names)
        ]

    def rest(self, arrays: list[Array]) -> list[Array]:
        """What would go with each checkpoint, if nothing changes that should not."""
        names = {array.spec.name for array in self._candidates(arrays)}
        return [array for array in arrays if array.spec.name not in names]

    def take(
        self, step: int, arrays: list[Array], digests: Mapping[str, bytes]
    ) -> tuple[list[Array], list[manifest.Constants]]:
        """Have constants written that are not yet: (the arrays that go with the checkpoint, where the others are).
        `digests` are those XXH3-128 of arrays that are known already. Raises what `ConstantsWriter.put` does."""
        candidates = {array.spec.name: array for array in self._candidates(arrays)}
        marks = self._marks_of(candidates.values(), digests)
        for name in [name for name, mark in marks.items() if self._marks.get(name, mark) != mark]:
            self._note_changed(step, name)
            del candidates[name]
        self._files = [file for file in self._files if self._is_there(file)]
        found = {name for file in self._files for name in file.arrays}
        fresh = [array for name, array in candidates.items() if name not in found]
        if sum(array.spec.nbytes for array in fresh) >= LEAST_BYTES:
            self._files.append(self._write(fresh, digests))
            self._marks |= {array.spec.name: marks[array.spec.name] for array in fresh}
        taken = [self._of_file(file, candidates) for file in self._files]
        names = {name for file in taken for name in file.arrays}
        return [array for array in arrays if array.spec.name not in names], [file for file in taken if file.arrays]

    def _candidates(self, arrays: list[Array]) -> list[Array]:
        frozen = {identity for part in self._frozen for identity in part.frozen_arrays()}
        found = [
            array
            for array in arrays
            if array.spec.name not in self._changed
            and (array.leaf.identity in frozen or self._is_declared(array.spec.name))
        ]
        return found if self._marks or sum(array.spec.nbytes for array in found) >= LEAST_BYTES else []

    def _is_declared(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self._patterns)

    def _marks_of(self, arrays: Iterable[Array], digests: Mapping[str, bytes]) -> dict[str, Hashable]:
        marks: dict[str, Hashable] = {}
        to_hash: list[Array] = []
        for array in arrays:
            name = array.spec.name
            mark: Hashable | None = digests.get(name)
            if mark is None and not array.leaf.address and isinstance(array.framework, Marking):
                # On a device, where it can be looked at without bringing it here.
                mark = array.framework.mark(array.leaf)
            if mark is None:
                to_hash.append(array)
            else:
                marks[name] = mark
        return marks | _digests_of(to_hash)

    def _note_changed(self, step: int, name: str) -> None:
        self._changed.add(name)
        self._marks.pop(name, None)
        self._files = [msgspec.structs.replace(f, arrays=[n for n in f.arrays if n != name]) for f in self._files]
        if self._is_declared(name):
            self.notes.append(
                f"{name} is declared constant, and has changed until step {step}: it goes with every checkpoint from now on"
            )

    def _is_there(self, file: manifest.Constants) -> bool:
        if self._writer.is_there(file.data):
            return True
        for name in file.arrays:
            self._marks.pop(name, None)
        return False

    def _write(self, arrays: list[Array], digests: Mapping[str, bytes]) -> manifest.Constants:
        began = self._clock()
        content = [(array.spec, array.data) for array in arrays]
        unknown = [array for array in arrays if array.spec.name not in digests]
        written = self._writer.put(content, {**digests, **_digests_of(unknown)})
        size = byte_size(sum(spec.nbytes for spec, _ in content))
        self.notes.append(
            f"{size} of the state do not change: they are in {written.data.file}, to which checkpoints refer "
            f"({duration(self._clock() - began)})"
        )
        return written

    def _of_file(self, file: manifest.Constants, candidates: Mapping[str, Array]) -> manifest.Constants:
        return msgspec.structs.replace(file, arrays=[name for name in file.arrays if name in candidates])


def _digests_of(arrays: Iterable[Array]) -> dict[str, bytes]:
    arrays = list(arrays)
    found: dict[str, bytes] = {}

    def digest(array: Array) -> None:
        found[array.spec.name] = xxhash.xxh3_128_digest(array.data)

    is_little = sum(array.spec.nbytes for array in arrays) < _THREADS_FROM_BYTES
    each(arrays, digest, 1 if is_little else min(_THREADS, os.cpu_count() or 1), "lastgood-digest")
    return found
