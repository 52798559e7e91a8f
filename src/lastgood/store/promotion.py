"""Promotion: a checkpoint that was committed on a stage becomes one of the job's own directory, byte for byte.

    1. its directory                 from here on nobody deletes constants of its attempt (store.references)
    2. constants, data, documents    each read from the stage, checked, written, flushed, renamed
    3. manifest.json                 the same bytes as on the stage; its rename is the commit

A checkpoint keeps its name, and so the number of the attempt that made it. Whether it may still be committed is
decided by the attempt on whose behalf it is promoted: what a dead attempt left, its successor promotes as its own
business. If the dead one's keeper is not dead after all and promotes, too, then it is stopped by the fence; until
then both write the same bytes to files of their own, and whichever rename comes last changes nothing.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from lastgood.core import layout
from lastgood.core.errors import DamagedError, NoSuchJobError, StorageError
from lastgood.core.manifest import Constants, Part
from lastgood.core.sealed import unseal
from lastgood.store import durable
from lastgood.store.attempts import check_fence
from lastgood.store.catalogue import set_mark
from lastgood.store.constants import ConstantsWriter
from lastgood.store.copying import OnBytes, copy_data, copy_part
from lastgood.store.gentle import Pacer
from lastgood.store.jobdir import read_document
from lastgood.store.reader import Checkpoint, open_checkpoint
from lastgood.store.staging import Stage
from lastgood.store.sweep import delete_checkpoint
from lastgood.store.writer import CheckpointWriter


class Promoted(msgspec.Struct, frozen=True):
    name: str
    step: int
    bytes: int
    """What was copied, constants included; 0 if it was there already."""
    took_s: float


class Progress(msgspec.Struct):
    """Of the promotion that is under way, for others to look at."""

    name: str = ""
    """Empty if none is."""
    done_bytes: int = 0
    total_bytes: int = 0
    """Without constants that are there already."""


class Promoter:
    """Promotes from one stage, one checkpoint at a time. Remembers which constants are in place."""

    def __init__(self, stage: Stage, authority: Callable[[], int], clock: Callable[[], float] = time.monotonic) -> None:
        """`authority` says on behalf of which attempt; it may change while a checkpoint is copied."""
        self.progress = Progress()
        self._stage = stage
        self._authority = authority
        self._clock = clock
        self._constants: dict[int, ConstantsWriter] = {}

    def promote(self, name: str, pacer: Pacer | None = None) -> Promoted | None:
        """Promote a staged checkpoint, durably. One that is there already is fine; one that is rejected there is
        replaced. None if the staged copy was deleted meanwhile, because something newer has been promoted.

        Raises FencedError if the attempt that it acts for is not the newest; DamagedError if the staged copy is
        damaged, which is then marked as rejected; StorageError or PermissionDeniedError. Whatever it raises, the
        staged copy stays, and it may be tried again.
        """
        began = self._clock()
        staged = self._stage.staged.checkpoints / name
        try:
            with durable.explained("read the staged checkpoint", staged):
                source = open_checkpoint(self._stage.staged, name)
            copied = self._copy(source, pacer)
        except NoSuchJobError:
            return None
        except DamagedError as error:
            if not os.path.lexists(staged / layout.MANIFEST_FILE):
                return None
            with suppress(OSError):
                set_mark(self._stage.staged, name, layout.REJECTED_FILE, error.what, self._authority())
            raise DamagedError(
                f"the staged copy is damaged: {error.what}",
                safe="earlier checkpoints are untouched",
                remedy="nothing, if it happens once: the next save is promoted; check the disk of the stage",
            ) from error
        finally:
            self.progress = Progress()
        return Promoted(name, source.manifest.step, copied, self._clock() - began)

    def _copy(self, source: Checkpoint, pacer: Pacer | None) -> int:
        manifest = source.manifest
        # Its own attempt names it; the fence goes by the one that promotes.
        writer = CheckpointWriter(self._stage.job, manifest.step, manifest.attempt, fence=self._check_fence)
        with self._explained(writer.directory):
            self._check_fence()
            if writer.directory.is_symlink():
                raise StorageError(f"{writer.directory} is a link, and what it leads to is not ours to change")
            if writer.is_committed():
                if not os.path.lexists(writer.directory / layout.REJECTED_FILE):
                    # By somebody who may have died before it was durable.
                    durable.flush_directory(writer.directory)
                    return 0
                delete_checkpoint(self._stage.job, source.name)
            text = read_document(source.directory / layout.MANIFEST_FILE)
            if text is None:
                raise NoSuchJobError(f"the staged copy of {source.name} was deleted just now")
            progress = self.progress = Progress(source.name, 0, manifest.bytes)
            durable.make_directory(writer.directory)

            def note(size: int) -> None:
                progress.done_bytes += size

            for reference in manifest.parts:
                part = source.part(reference.rank)
                self.put_constants(part.attempt, part.constants, pacer, note)
                copy_part(source.directory, reference, part.data, writer.directory, pacer, note)
            writer.commit_copy(text, [constants.file for constants in manifest.constants])
            return progress.done_bytes

    def put_constants(
        self,
        attempt: int,
        constants: list[Constants],
        pacer: Pacer | None = None,
        on_bytes: OnBytes | None = None,
    ) -> None:
        """Have constants of an attempt in the job's own directory, too. Raises as `promote`."""
        writer = self._constants.get(attempt)
        if writer is None:
            writer = self._constants[attempt] = ConstantsWriter(self._stage.job, attempt, fence=self._check_fence)
        for one in constants:
            writer.put_copy(self._stage.staged.constants / one.data.file, one.data, pacer, on_bytes)

    def carry_over(self, step: int, attempt: int, rank: int, pacer: Pacer | None = None) -> None:
        """Put a part that is on the stage already into the same checkpoint in the job's own directory: the stage has
        failed after it, and a checkpoint is in one place.

        Raises StorageError or PermissionDeniedError, DamagedError if the part is not whole, FencedError.
        """
        source = self._stage.writer(step, attempt).directory
        target = CheckpointWriter(self._stage.job, step, attempt, fence=self._check_fence).directory
        name = layout.part_file(rank)
        with self._explained(target):
            self._check_fence()
            with durable.explained("read", source / name):
                text = read_document(source / name)
            if text is None:
                raise DamagedError(f"{source.name}/{name} is missing")
            part = unseal(text, Part, f"{source.name}/{name}")
            durable.make_directory(target)
            self.put_constants(attempt, part.constants, pacer)
            copy_data(source / layout.data_file(rank), part.data, target / layout.data_file(rank), pacer)
            durable.write_file(target / name, text)

    @contextmanager
    def _explained(self, directory: Path) -> Iterator[None]:
        with durable.explained("promote a checkpoint to", directory, safe="it is whole on the stage"):
            try:
                yield
            except FileNotFoundError:
                # A newer attempt sweeps what this one had not committed: then storage is not the cause.
                self._check_fence()
                raise

    def _check_fence(self) -> None:
        check_fence(self._stage.job, self._authority())
