"""What of a checkpoint goes into an export, and under which names; and the export to one safetensors file.

Needs no array library. Formats that do are in `frameworks`.

Names: an array that all ranks share keeps its name; one that belongs to a single rank of several is
called `rank-00001.<name>`, unless only that rank is exported. The same holds for entries. An array that is in
several places (tied weights) is exported under the name of each, because readers ask for every one.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from lastgood.core import tensorfile, tree
from lastgood.core.errors import UsageError
from lastgood.core.tensorfile import ArraySpec
from lastgood.core.tree import ArrayLeaf, Flat
from lastgood.store import durable
from lastgood.store.rank_state import RankState, rank_state
from lastgood.store.reader import Checkpoint

Json = Any


class Source(NamedTuple):
    """One array of an export and where its bytes are."""

    spec: ArraySpec
    """With its name in the checkpoint."""
    rank: int
    kind: str
    tag: dict[str, Json]
    """What the framework `kind` needs beside the bytes: not empty if the file format lacks its type, so that
    it is stored as another."""


class Export(NamedTuple):
    checkpoint: Checkpoint
    entries: dict[str, Json]
    """By exported name; the skeletons refer to exported names of arrays."""
    arrays: dict[str, Source]
    """By exported name."""
    left_out: list[str]

    @property
    def nbytes(self) -> int:
        return sum(source.spec.nbytes for source in self.arrays.values())

    def read(self) -> dict[str, memoryview]:
        """The bytes of every array by exported name, verified. Takes as much memory as they have bytes."""
        stored: dict[int, dict[str, None]] = {}
        for source in self.arrays.values():
            stored.setdefault(source.rank, {})[source.spec.name] = None
        data = {rank: self.checkpoint.read(rank, list(names)) for rank, names in stored.items()}
        return {name: data[source.rank][source.spec.name] for name, source in self.arrays.items()}


def select(checkpoint: Checkpoint, wanted: list[str], all_entries: list[str], rank: int | None) -> Export:
    """Choose what to export: the `wanted` entries (of `all_entries`, of which the others are left out), of
    one rank or of all. Raises NoSuchJobError for an entry or rank that is not there."""
    ranks = range(checkpoint.manifest.world_size) if rank is None else [rank]
    states = [rank_state(checkpoint, r, wanted) for r in ranks]
    placed = [_named_by_place(state.entries) for state in states]
    entries: dict[str, Json] = {}
    arrays: dict[str, Source] = {}
    for entry in wanted:
        is_common = len(states) == 1 or _is_common(entry, states)
        for state, flat in [(states[0], placed[0])] if is_common else zip(states, placed, strict=True):
            exported = entry if is_common else _prefixed(state.rank, entry)
            if exported in entries:
                raise UsageError(
                    f"two entries would be called {exported!r}", remedy="export them one at a time, or give --rank"
                )
            entries[exported] = _renamed(flat.skeleton[entry], flat, state, arrays, len(states) > 1)
    return Export(checkpoint, entries, arrays, [name for name in all_entries if name not in wanted])


def _is_common(entry: str, states: list[RankState]) -> bool:
    """True if the entry is the same on all ranks: equal values, and arrays that are stored once for all."""
    first = states[0]
    return all(state.entries[entry] == first.entries[entry] for state in states) and all(
        first.arrays[name].is_shared for name in tree.array_names(first.entries[entry])
    )


def _prefixed(rank: int, name: str) -> str:
    return f"rank-{rank:05d}.{name}"


class _Kept(msgspec.Struct, eq=False):
    """A reference to an array, or a framework's value as it is stored. Each is one of its own."""

    tag: str
    content: Json
    rest: dict[str, Json] = {}

    def __repr__(self) -> str:
        # As a key it is part of a name.
        return str(self.content)


class _Places:
    """Takes skeletons apart and puts them together again, so that every reference to an array has a name of its own."""

    def to_leaf(self, value: object) -> ArrayLeaf | None:
        if not isinstance(value, _Kept) or value.tag != "array":
            return None
        return ArrayLeaf(value.rest["kind"], "", (), value, value.rest["tag"], id(value))

    def to_json(self, value: object) -> tuple[str, Json] | None:
        return (value.tag, value.content) if isinstance(value, _Kept) else None

    def from_json(self, tag: str, content: Json) -> object:
        return _Kept(tag, content)


def _named_by_place(entries: dict[str, Json]) -> Flat:
    """The entries' skeletons, in which the name of an array says where it is; by that name, what it refers to."""

    def array(name: str, kind: str, tag: dict[str, Json]) -> _Kept:
        return _Kept("array", name, {"kind": kind, "tag": tag})

    codecs = (_Places(),)
    return tree.flatten({entry: tree.unflatten(skeleton, array, codecs) for entry, skeleton in entries.items()}, codecs)


def _renamed(skeleton: Json, flat: Flat, state: RankState, arrays: dict[str, Source], is_of_many: bool) -> Json:
    """The skeleton with exported names; notes every array that it refers to in `arrays`."""
    if isinstance(skeleton, list):
        return [_renamed(item, flat, state, arrays, is_of_many) for item in skeleton]
    if not isinstance(skeleton, dict):
        return skeleton
    if "$array" not in skeleton:
        return {key: _renamed(item, flat, state, arrays, is_of_many) for key, item in skeleton.items()}
    name = skeleton["$array"]
    leaf = flat.arrays[name]
    held = state.arrays[leaf.data.content]
    exported = name if held.is_shared or not is_of_many else _prefixed(state.rank, name)
    source = Source(held.placed.spec, held.rank, leaf.kind, leaf.tag)
    if arrays.setdefault(exported, source) != source:
        raise UsageError(f"two arrays would be called {exported!r}", remedy="export one rank with --rank")
    return {**skeleton, "$array": exported}


def plain_values(skeleton: Json, at: str = "") -> Iterator[str]:
    """The places of everything in a skeleton that is neither an array of an ordinary type nor a mapping with
    text keys: what a file of named arrays cannot hold.

    >>> list(plain_values({"w": {"$array": "w", "kind": "numpy"}, "lr": 0.1}))
    ['lr']
    """
    if isinstance(skeleton, dict) and skeleton.keys() == {"$array", "kind"}:
        return
    if isinstance(skeleton, dict) and not next(iter(skeleton), "").startswith("$"):
        for key, value in skeleton.items():
            yield from plain_values(value, f"{at}.{key}" if at else key)
    else:
        yield at


Write = Callable[[Export, durable.NewFile], list[str]]
"""Writes an export into a new file; returns a line for each value that the format cannot hold as it was."""


def write_file(export: Export, path: Path, write: Write, *, overwrite: bool, with_values: bool) -> list[str]:
    """Let `write` make the file at `path`, which appears when it is whole; `with_values` for a format of
    arrays alone writes the rest to `values_file(path)` just before.

    Raises UsageError if the name is taken and `overwrite` is false.
    """
    with durable.NewFile(path, f"{os.getpid()}") as new:
        changed = write(export, new)
        new.flush()
        if with_values:
            _write_values(export, path)
        if overwrite:
            new.publish()
        elif not new.commit_exclusively():
            raise taken(path)
    return changed


def values_file(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _write_values(export: Export, path: Path) -> None:
    if not has_values(export):
        # One of an earlier export to this name would be taken for this one's.
        durable.delete_file(values_file(path))
        return
    manifest = export.checkpoint.manifest
    facts = {"job": manifest.job, "checkpoint": manifest.name, "step": manifest.step, "entries": export.entries}
    durable.write_file(values_file(path), msgspec.json.format(msgspec.json.encode(facts), indent=1) + b"\n")


def has_values(export: Export) -> bool:
    """True if something is no array, and so needs the file beside."""
    return any(True for _ in plain_values(export.entries))


def taken(path: Path) -> UsageError:
    return UsageError(
        f"{path} exists already", safe="nothing was written", remedy="choose another name, or say --overwrite"
    )


def write_safetensors(export: Export, new: durable.NewFile) -> list[str]:
    """Write the arrays as one file of the safetensors format, byte for byte as they were saved."""
    specs = [ArraySpec(name, source.spec.dtype, source.spec.shape) for name, source in export.arrays.items()]
    # Readers such as transformers ask for the framework; a file of one array library can tell.
    kinds = {source.kind for source in export.arrays.values()}
    metadata = {"format": "pt"} if kinds == {"torch"} else {}
    layout = tensorfile.plan(specs, {**metadata, "lastgood": export.checkpoint.name})
    data = export.read()
    new.write(layout.header)
    for placed in layout.arrays:
        new.write(data[placed.spec.name])
    return [
        f"{name}: stored as {source.spec.dtype} {list(source.spec.shape)}; its own type is beside it in the JSON file"
        for name, source in export.arrays.items()
        if source.tag
    ]
