"""Writing a checkpoint: parts first, flushed; then the manifest, whose rename is the commit.

    checkpoints/<step>-<attempt>/
      rank-00000.safetensors   1. data of each rank      (by that rank)
      rank-00000.json          2. its part, with the checksums of 1
      manifest.json            3. written last           (by one rank, when all parts are there)

A crash between any two system calls leaves either no manifest, and so no checkpoint, or a whole one.
"""

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import xxhash

from lastgood.core import layout, tensorfile
from lastgood.core.errors import StorageError
from lastgood.core.manifest import Constants, ConstantsRef, DataFile, Manifest, Part, PartRef
from lastgood.core.sealed import seal, unseal
from lastgood.core.tensorfile import ArraySpec
from lastgood.store import durable
from lastgood.store.attempts import check_fence
from lastgood.store.blocks import write_pieces
from lastgood.store.gentle import Pacer
from lastgood.store.jobdir import JobDirectory, read_document

BLOCK_BYTES = 4 * 2**20
"""Size of the pieces that have a checksum each: small enough to place damage, large enough to be free."""

Buffer = memoryview
"""The bytes of one array, C-contiguous."""


class CheckpointWriter:
    """Writes one checkpoint. Every rank makes one for the same step and calls `write_part`; when all
    have done so, one of them calls `commit`."""

    def __init__(self, job: JobDirectory, step: int, attempt: int, *, fence: Callable[[], None] | None = None) -> None:
        """`fence` raises FencedError if nothing may be committed any more; without it, that is so when a newer
        attempt than `attempt` has begun."""
        self._check_fence = fence or (lambda: check_fence(job, attempt))
        self.job = job
        self.step = step
        self.attempt = attempt
        self.name = layout.checkpoint_name(step, attempt)
        self.directory: Path = job.checkpoints / self.name

    def write_part(
        self,
        rank: int,
        arrays: list[tuple[ArraySpec, Buffer]],
        entries: dict[str, Any],
        shared: Iterable[str] = (),
        constants: Iterable[Constants] = (),
    ) -> PartRef:
        """Write what one rank contributes, durably. `constants` says which further arrays it has in which constants
        files, which are there already (see store.constants).

        Raises StorageError or PermissionDeniedError, or FencedError if a newer attempt has swept it away.
        """
        plan = tensorfile.plan([spec for spec, _ in arrays])
        buffers = {spec.name: buffer for spec, buffer in arrays}
        pieces = [memoryview(plan.header), *(buffers[placed.spec.name] for placed in plan.arrays)]
        return self.write_laid_out(rank, pieces, entries, shared, constants=constants)

    def write_laid_out(
        self,
        rank: int,
        pieces: list[memoryview],
        entries: dict[str, Any],
        shared: Iterable[str] = (),
        pacer: Pacer | None = None,
        constants: Iterable[Constants] = (),
    ) -> PartRef:
        """As `write_part`, for data that is laid out as its file will be: the concatenation of `pieces`."""
        with self._explained("write a checkpoint to"):
            durable.make_directory(self.directory)
            if (self.directory / layout.MANIFEST_FILE).exists():
                raise StorageError(
                    f"{self.directory} is committed already: a checkpoint is never overwritten",
                    safe="it is untouched",
                    remedy="save at a later step",
                )
            data = self._write_data(rank, pieces, pacer)
            constants = list(constants)
            part = Part(
                layout.CONSTANTS_FORMAT if constants else layout.FORMAT_VERSION,
                self.job.id,
                self.step,
                self.attempt,
                rank,
                data,
                entries,
                sorted(shared),
                constants,
            )
            text = seal(part)
            durable.write_file(self.directory / layout.part_file(rank), text)
        return PartRef(rank, len(text), xxhash.xxh3_64_hexdigest(text), data.bytes)

    def _write_data(self, rank: int, pieces: list[memoryview], pacer: Pacer | None) -> DataFile:
        with durable.NewFile(self.directory / layout.data_file(rank)) as new:
            size, digests = write_pieces(new.fileno(), pieces, BLOCK_BYTES, pacer)
            new.commit()
        return DataFile(layout.data_file(rank), size, BLOCK_BYTES, digests)

    def missing_parts(self, world_size: int) -> list[int]:
        """The ranks whose part is not there yet. Raises OSError if the directory cannot be listed."""
        try:
            there = set(os.listdir(self.directory))
        except FileNotFoundError:
            there = set()
        return [rank for rank in range(world_size) if layout.part_file(rank) not in there]

    def abandon(self, rank: int, *, by_committer: bool = True) -> None:
        """Give back what `rank` has written, after a failure. Best effort: what stays is swept later.

        Where the manifest is visible all the same, nothing is taken from under it. Nor is a part that is visible, unless
        `by_committer`, who knows that it is not being committed at this moment.
        """
        with suppress(OSError):
            if (self.directory / layout.MANIFEST_FILE).exists():
                return
            if not by_committer and (self.directory / layout.part_file(rank)).exists():
                return
            durable.delete_file(self.directory / layout.part_file(rank))
            durable.delete_file(self.directory / layout.data_file(rank))
            durable.delete_directory(self.directory)

    def commit(
        self,
        world_size: int,
        *,
        metrics: dict[str, float] | None = None,
        config: dict[str, Any] | None = None,
        fingerprint: dict[str, str] | None = None,
        began: float | None = None,
        before_commit: Callable[[], None] | None = None,
    ) -> Manifest:
        """Make the checkpoint exist. All parts must have been written.

        `began` is the time (of time.time) at which the save began, for the record. `before_commit` runs
        right before the last check of the fence. Raises FencedError, without a trace of the checkpoint
        becoming visible, if a newer attempt has been claimed.
        """
        now = time.time()
        with self._explained("commit a checkpoint in"):
            constants: dict[str, ConstantsRef] = {}
            parts = [self._reference(rank, constants) for rank in range(world_size)]
            manifest = Manifest(
                layout.CONSTANTS_FORMAT if constants else layout.FORMAT_VERSION,
                self.job.id,
                self.step,
                self.attempt,
                now,
                world_size,
                parts,
                # JSON has no NaN or infinity; a metric without a number is left out, as retention would.
                {name: value for name, value in (metrics or {}).items() if math.isfinite(value)},
                config or {},
                fingerprint or {},
                max(0.0, now - began) if began is not None else 0.0,
                [constants[file] for file in sorted(constants)],
            )
            files = [name for rank in range(world_size) for name in (layout.part_file(rank), layout.data_file(rank))]
            self._publish(seal(manifest), constants, files, before_commit)
        return manifest

    def commit_copy(self, manifest: bytes, constants: Iterable[str]) -> None:
        """Make the checkpoint exist with the manifest of the one that it is a copy of. As `commit`, but several may
        do so at the same time; so what has become visible stays, even where this call fails in the end."""
        with self._explained("commit a checkpoint in"):
            self._publish(manifest, constants, is_copy=True)

    def _publish(
        self,
        manifest: bytes,
        constants: Iterable[str],
        files: Iterable[str] = (),
        before_commit: Callable[[], None] | None = None,
        *,
        is_copy: bool = False,
    ) -> None:
        token = os.urandom(8).hex() if is_copy else ""
        with durable.NewFile(self.directory / layout.MANIFEST_FILE, token) as new:
            new.write(manifest)
            new.flush()
            if before_commit is not None:
                before_commit()
            with self.job.settling:
                self._expect(self.job.constants, constants)
                self._expect(self.directory, files)
                # The fence comes after the temporary manifest exists: a newer attempt that sweeps
                # removes that file first, so a writer that is frozen right here can only fail.
                self._check_fence()
                if is_copy:
                    new.publish()
                else:
                    _publish_or_not(new)

    def is_committed(self) -> bool:
        """True if its manifest is visible."""
        return (self.directory / layout.MANIFEST_FILE).exists()

    def secure_commit(self) -> Manifest:
        """The manifest of a commit by somebody who may have died right after it: visible, now durable, too.
        Raises StorageError."""
        with self._explained("read the checkpoint in"):
            durable.flush_directory(self.directory)
            text = read_document(self.directory / layout.MANIFEST_FILE)
            if text is None:
                raise StorageError(f"{self.directory} has lost its manifest", safe="earlier checkpoints are untouched")
            return unseal(text, Manifest, self.name)

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        with durable.explained(what, self.directory, safe="earlier checkpoints are untouched"):
            try:
                yield
            except FileNotFoundError:
                # A newer attempt sweeps what this one had not committed: then storage is not the cause.
                self._check_fence()
                raise

    def _reference(self, rank: int, constants: dict[str, ConstantsRef]) -> PartRef:
        """The part of `rank` as the manifest has it; adds the constants files that it refers to."""
        name = layout.part_file(rank)
        text = read_document(self.directory / name)
        if text is None:
            self._check_fence()
            raise StorageError(
                f"{self.directory / name}: the part of rank {rank} is not there",
                safe="earlier checkpoints are untouched",
            )
        part = unseal(text, _PartHead, name)
        for one in part.constants:
            constants[one.data.file] = ConstantsRef(one.data.file, one.data.bytes)
        return PartRef(rank, len(text), xxhash.xxh3_64_hexdigest(text), part.data.bytes)

    def _expect(self, directory: Path, files: Iterable[str]) -> None:
        """Raise StorageError unless all are there. Constants can have been deleted as unused before the part that
        refers to them was there (see store.references); a part, by somebody who took its save for failed."""
        names = set(files)
        if missing := names - set(os.listdir(directory) if names else ()):
            self._check_fence()
            raise StorageError(
                f"{directory / min(missing)}, which the checkpoint of step {self.step} refers to, is not there",
                safe="earlier checkpoints are untouched",
                remedy="nothing, if it happens once: the next save writes it again",
            )


def _publish_or_not(manifest: durable.NewFile) -> None:
    try:
        manifest.publish()
    except OSError:
        # Renamed but not durable, perhaps. The caller is told that it failed: make it so.
        with suppress(OSError):
            durable.delete_file(manifest.path)
        raise


class _DataHead(msgspec.Struct):
    file: str
    bytes: int


class _ConstantsHead(msgspec.Struct):
    data: _DataHead


class _PartHead(msgspec.Struct):
    """The members of a part that a manifest repeats; the rest is not decoded."""

    data: _DataHead
    constants: list[_ConstantsHead] = []
