"""One save: capture the state at a safe point, write this rank's part, commit, apply retention.

What a failed save does to the job is decided here by policy; a failed save never touches what is there.
"""

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

    def capture(self, internal: Mapping[str, object]) -> Snapshot:
        """The state now, with entries of our own. Raises UnstorableError that names the place of a value that cannot be stored."""
        flat = tree.flatten(
            {**{name: entry.capture() for name, entry in self._entries.items()}, **internal},
            self._frameworks.values(),
        )
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
        deleted = self._retain() if self._ranks.rank == 0 else []
        took_s = self._clock() - started
        return Saved(step, writer.name, manifest.bytes if manifest else 0, took_s, deleted)

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

    def _retain(self) -> list[Verdict]:
        try:
            return self._retention.apply()
        except (OSError, LastgoodError):
            # Deleting is housekeeping: what could not be deleted now is tried again after the next save.
            return []


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
