"""A checkpoint as it is offered to a program: decoded and compared first, and read when it fits.

Its arrays have memory from the beginning and content at the end. So nothing is put into the program before names,
shapes, types and settings have been compared, and what is then read goes straight to where the program keeps it.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from lastgood.core import tree
from lastgood.core.errors import DamagedError, StateMismatchError
from lastgood.core.manifest import Constants, Manifest
from lastgood.core.tensorfile import ArraySpec
from lastgood.runtime.ports import Framework
from lastgood.runtime.state import is_reserved
from lastgood.runtime.supply import EachReads, Supply
from lastgood.store.places import fresh_memory
from lastgood.store.reader import Checkpoint


class Restored(msgspec.Struct, frozen=True):
    """A checkpoint's content for this rank, decoded, not yet put into the program."""

    manifest: Manifest
    entries: dict[str, Any]
    left_behind: list[str]
    """Entries that belong to single ranks and were not read, because the number of ranks changed."""
    of_rank_0: list[str] = []
    """Entries whose arrays differ between the ranks, and which are those of rank 0 because the number of ranks changed."""
    is_from_memory: bool = False
    """Arrays came from the keeper's memory, not from storage."""
    constants: list[Constants] = []
    """Those that this rank's part refers to."""
    memory_problems: list[str] = []
    """What was wrong with memory that was to be read, so that storage was."""


class Target(Protocol):
    """What a checkpoint is offered to."""

    @property
    def warning(self) -> str:
        """What an error message has to add, because some of the target has been overwritten; empty if nothing was."""

    def compare(self, restored: Restored) -> None:
        """Raise StateMismatchError or ConfigChangedError if it does not fit. Arrays have no content yet."""

    def places(self, restored: Restored, name_of: Callable[[object], str]) -> list[tuple[object, memoryview]]:
        """Arrays of `restored` with memory of the program that their bytes go to; they are about to be put there.
        `name_of` answers which array of the checkpoint one is."""


class _Reference(NamedTuple):
    """An array in the decoded state."""

    array: object
    name: str
    memory: memoryview


class Offer:
    """One checkpoint for one rank. Methods are called in this order; each raises what `Checkpoint` does."""

    def __init__(self, checkpoint: Checkpoint, supply: Supply, rank: int, *, is_other_world_size: bool) -> None:
        """`rank` is the one whose state is taken."""
        self._checkpoint = checkpoint
        self._supply = supply
        self._rank = rank
        self._references: list[_Reference] = []
        self._own, self._of_rank_0 = _of_single_ranks(checkpoint) if is_other_world_size else (set(), set())
        entries = checkpoint.part(rank).entries
        self._skeletons = {name: skeleton for name, skeleton in entries.items() if name not in self._own}
        self._names = {name: tree.array_names(skeleton) for name, skeleton in self._skeletons.items()}
        self._restored: Restored | None = None

    @property
    def manifest(self) -> Manifest:
        return self._checkpoint.manifest

    def decode(self, frameworks: Mapping[str, Framework]) -> Restored:
        """The state with arrays that have no content yet. Raises StateMismatchError if this program cannot decode it."""
        specs = self._supply.find(self._all_names())
        try:
            entries = {name: self._decode(name, specs, frameworks) for name in self._skeletons}
        except DamagedError as error:
            # The documents have passed their checks: this is what was written, and it is not understood here.
            raise StateMismatchError(
                f"{self._checkpoint.name} passes its checks, but this program cannot decode it: {error.what}",
                safe="the checkpoint is whole",
                remedy="use the versions that wrote it; `lastgood show` names them",
            ) from error
        self._restored = Restored(self._checkpoint.manifest, entries, sorted(self._own), sorted(self._of_rank_0))
        return self._restored

    def _decode(self, entry: str, specs: Mapping[str, ArraySpec], frameworks: Mapping[str, Framework]) -> Any:
        # Memory of its own for each entry: what one keeps is neither shared with nor kept alive by another.
        names = self._names[entry]
        memory = dict(zip(names, fresh_memory([specs[name].nbytes for name in names]), strict=True))

        def array(name: str, kind: str, tag: dict[str, Any]) -> object:
            made = frameworks[kind].from_buffer(specs[name], tag, memory[name])
            self._references.append(_Reference(made, name, memory[name]))
            return made

        return tree.unflatten(self._skeletons[entry], array, frameworks.values())

    def check(self) -> None:
        """Read everything and put it nowhere: for a checkpoint that does not fit and may be damaged as well."""
        reading = EachReads(self._checkpoint, self._rank)
        reading.load(dict.fromkeys(reading.find(self._all_names()), ()))

    def load(self, target: Target) -> Restored:
        """Read everything, verified, to where it belongs. After an error the target's places are partly filled."""
        assert self._restored is not None
        names = {id(reference.array): reference.name for reference in self._references}
        direct = {id(array): memory for array, memory in target.places(self._restored, lambda array: names[id(array)])}
        places: dict[str, dict[int, memoryview]] = {}
        for reference in self._references:
            place = direct.get(id(reference.array), reference.memory)
            places.setdefault(reference.name, {})[id(place)] = place
        self._supply.load({name: list(to.values()) for name, to in places.items()})
        return msgspec.structs.replace(
            self._restored,
            is_from_memory=bool(self._checkpoint.lent),
            memory_problems=self._checkpoint.memory_problems,
            constants=self._checkpoint.part(self._rank).constants,
        )

    def _all_names(self) -> set[str]:
        return {name for names in self._names.values() for name in names}


def _of_single_ranks(checkpoint: Checkpoint) -> tuple[set[str], set[str]]:
    """The entries that only the rank which wrote them could use, and those of the program that look the same on all
    ranks and differ in their arrays. All others were the same on all ranks and serve any number of ranks."""
    world_size = checkpoint.manifest.world_size
    parts = [checkpoint.part(rank) for rank in range(world_size)]
    shared = {name for part in parts for name in part.shared}
    if world_size == 1:
        shared |= set(checkpoint.arrays(0))
    own: set[str] = set()
    of_rank_0: set[str] = set()
    for name, skeleton in parts[0].entries.items():
        if any(part.entries.get(name) != skeleton for part in parts):
            own.add(name)
        elif not shared.issuperset(tree.array_names(skeleton)):
            (own if is_reserved(name) else of_rank_0).add(name)
    return own, of_rank_0
