"""One save: capture the state at a safe point, write this rank's part, commit, apply retention.

What a failed save does to the job is decided here by policy; a failed save never touches what is there.
"""

import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec
import xxhash

from lastgood.core import tree
from lastgood.core.errors import (
    FencedError,
    LastgoodError,
    StorageError,
    UnprotectedError,
    UnstorableError,
)
from lastgood.core.manifest import Manifest
from lastgood.core.retention import Verdict
from lastgood.core.shards import assign_owners
from lastgood.core.tensorfile import ArraySpec
from lastgood.core.units import duration
from lastgood.runtime.agreement import named, of_each_rank
from lastgood.runtime.ports import Framework, Ranks, Stateful
from lastgood.runtime.state import VALUES
from lastgood.runtime.stillness import Stillness
from lastgood.store.jobdir import JobDirectory
from lastgood.store.sweep import Retention
from lastgood.store.writer import CheckpointWriter

OnSaveError = Literal["stop", "warn"]

_OK, _FAILED, _FENCED, _UNSTORABLE = 0, 1, 2, 3


class Saved(msgspec.Struct, frozen=True):
    step: int
    name: str
    bytes: int
    took_s: float
    deleted: list[Verdict]
    not_deleted: str = ""
    """Why retention could not do its work; empty if it could."""
    unchanged_since: int | None = None
    """An earlier save of this attempt that held the very same state, if the loop is not seen to change it."""


class Failed(msgspec.Struct, frozen=True):
    """A save that did not work while the policy says to carry on."""

    step: int
    error: LastgoodError


class Snapshot(msgspec.Struct, frozen=True):
    """The state of this rank at a safe point, taken apart. Arrays are views of the live state: the
    snapshot is good until the loop goes on."""

    entries: dict[str, Any]
    arrays: dict[str, tuple[ArraySpec, memoryview]]


class Saver:
    """Saves the state of one rank, together with the other ranks."""

    def __init__(
        self,
        job: JobDirectory,
        attempt: int,
        ranks: Ranks,
        entries: dict[str, Stateful],
        frameworks: list[Framework],
        retention: Retention,
        *,
        on_error: OnSaveError,
        unprotected_limit_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._job = job
        self._attempt = attempt
        self._ranks = ranks
        self._entries = entries
        self._frameworks = {framework.name: framework for framework in frameworks}
        self._retention = retention
        self._on_error = on_error
        self._unprotected_limit_s = unprotected_limit_s
        self._clock = clock
        self._protected_since = clock()
        self._still = Stillness()

    def capture(self, internal: Mapping[str, object]) -> Snapshot:
        """The state now, with entries of our own.

        Raises UnstorableError that names the place of a value that cannot be stored.
        """
        entries = {**{name: entry.capture() for name, entry in self._entries.items()}, **internal}
        try:
            flat = tree.flatten(entries, self._frameworks.values())
        except UnstorableError as error:
            # The user knows this entry by another name.
            what = re.sub(rf"^{re.escape(VALUES)}\b", "run.values", error.what)
            raise UnstorableError(what, safe=error.safe, remedy=error.remedy) from error
        arrays = {
            name: (ArraySpec(name, leaf.dtype, leaf.shape), self._frameworks[leaf.kind].buffer(leaf))
            for name, leaf in flat.arrays.items()
        }
        return Snapshot(flat.skeleton, arrays)

    def save(self, step: int, internal: Mapping[str, object], **facts: Any) -> Saved | Failed:
        """Save as `step`. `facts` go into the manifest: metrics, config, fingerprint.

        Raises FencedError if a newer attempt exists, UnstorableError for a state that cannot be stored,
        and, as the policy says, StorageError or UnprotectedError.
        """
        began, started = time.time(), self._clock()
        writer = CheckpointWriter(self._job, step, self._attempt)
        error = self._write(writer, internal)
        failing = of_each_rank(self._ranks, int(error is not None))
        manifest: Manifest | None = None
        if not any(failing) and self._ranks.rank == 0:
            try:
                manifest = writer.commit(self._ranks.world_size, began=began, **facts)
            except LastgoodError as problem:
                error = problem
        verdict = self._ranks.maximum([_severity(error)])[0]
        if verdict > _FAILED:
            raise error or _stopped_elsewhere(verdict)
        if verdict == _FAILED:
            writer.abandon(self._ranks.rank)
            return self._fail(step, error or _elsewhere(failing))
        self._protected_since = self._clock()
        deleted, trouble = self._retain() if self._ranks.rank == 0 else ([], "")
        took_s = self._clock() - started
        size = manifest.bytes if manifest else 0
        return Saved(step, writer.name, size, took_s, deleted, trouble, self._still.unchanged_since)

    def _write(self, writer: CheckpointWriter, internal: Mapping[str, object]) -> LastgoodError | None:
        rank = self._ranks.rank
        try:
            snapshot, error = self.capture(internal), None
        except UnstorableError as problem:
            # The other ranks are on their way to compare arrays: meet them there, then tell.
            snapshot, error = Snapshot({}, {}), problem
        shared = self._shared(snapshot.arrays)
        if error is not None:
            return error
        self._still.look(writer.step, snapshot.entries, snapshot.arrays)
        mine = [array for name, array in snapshot.arrays.items() if shared.get(name, rank) == rank]
        try:
            writer.write_part(rank, mine, snapshot.entries, [name for name, owner in shared.items() if owner == rank])
        except LastgoodError as problem:
            return problem
        return None

    def _shared(self, arrays: dict[str, tuple[ArraySpec, memoryview]]) -> dict[str, int]:
        """Arrays that are equal on all ranks, bit for bit, with the rank that writes each."""
        if self._ranks.world_size == 1:
            return {}
        names = sorted(arrays)
        digests: list[int] = []
        for name in names:
            spec, data = arrays[name]
            digest = xxhash.xxh3_128_digest(data, seed=0)
            description = xxhash.xxh3_64_intdigest(repr(spec).encode())
            digests += [_signed(int.from_bytes(digest[:8]) ^ description), _signed(int.from_bytes(digest[8:]))]
        same_names = self._ranks.equal([len(names), _signed(xxhash.xxh3_64_intdigest("\0".join(names).encode()))])
        if not names or not all(same_names):
            return {}
        same = self._ranks.equal(digests)
        shared = {name: arrays[name][0].nbytes for i, name in enumerate(names) if same[2 * i] and same[2 * i + 1]}
        return assign_owners(shared, self._ranks.world_size)

    def _fail(self, step: int, error: LastgoodError) -> Failed:
        if self._on_error == "stop":
            raise error
        unprotected_s = self._clock() - self._protected_since
        # Clocks of ranks differ; all must come to the same verdict.
        if self._ranks.maximum([int(unprotected_s > self._unprotected_limit_s)])[0]:
            raise UnprotectedError(
                f"no checkpoint was saved for {duration(unprotected_s)}; the limit is {duration(self._unprotected_limit_s)}. "
                f"The last error: {error.what}",
                safe="earlier checkpoints are untouched",
                remedy=error.remedy,
            ) from error
        return Failed(step, error)

    def _retain(self) -> tuple[list[Verdict], str]:
        """What was deleted, and why that did not work. Deleting is housekeeping: it is tried again after the
        next save, and must not cost the one that has just worked."""
        try:
            return self._retention.apply(), ""
        except FencedError:
            raise
        except LastgoodError as error:
            return [], error.what
        except OSError as error:
            return [], str(error)


def _signed(value: int) -> int:
    """The 64 bits of an unsigned number as a signed one."""
    return value - 2**64 if value >= 2**63 else value


def _severity(error: LastgoodError | None) -> int:
    if isinstance(error, UnstorableError):
        return _UNSTORABLE
    if isinstance(error, FencedError):
        return _FENCED
    return _FAILED if error else _OK


def _stopped_elsewhere(severity: int) -> LastgoodError:
    kind = FencedError if severity == _FENCED else UnstorableError
    return kind("another rank had to stop the job: see its own message", safe="earlier checkpoints are untouched")


def _elsewhere(failing: list[int]) -> StorageError:
    return StorageError(
        f"{named(failing) if any(failing) else 'rank 0'} could not write its part of the checkpoint",
        safe="earlier checkpoints are untouched",
        remedy="see that rank's own message",
    )
