"""Saves while the loop stands still: each rank writes its part, then one commits, then all know."""

import time
from typing import Any

from lastgood.core.errors import FencedError, LastgoodError, StorageError, UnstorableError
from lastgood.core.manifest import Constants
from lastgood.core.retention import Keep
from lastgood.runtime.agreement import named, of_each_rank
from lastgood.runtime.ports import Ranks
from lastgood.runtime.snapshot import Array
from lastgood.store.attempts import Journal
from lastgood.store.committing import commit, note_failure, retain
from lastgood.store.jobdir import JobDirectory
from lastgood.store.sweep import Retention
from lastgood.store.writer import CheckpointWriter

OK, FAILED, FENCED, UNSTORABLE = 0, 1, 2, 3
"""How bad an error is for the job; the worst of all ranks counts."""


class Foreground:
    """Writes checkpoints in this process, together with the other ranks."""

    def __init__(self, job: JobDirectory, attempt: int, ranks: Ranks, keep: Keep, journal: Journal) -> None:
        self._job = job
        self._attempt = attempt
        self._ranks = ranks
        self._journal = journal
        self._retention = Retention(job, keep, attempt)

    def save(
        self,
        step: int,
        mine: list[Array],
        entries: dict[str, Any],
        shared: list[str],
        constants: list[Constants],
        error: LastgoodError | None,
        **facts: Any,
    ) -> int | LastgoodError:
        """Write and commit; the size on rank 0 (elsewhere 0), or why it failed. `error` is what this rank has met
        already. Raises, on all ranks, what stops the job: FencedError, UnstorableError."""
        rank = self._ranks.rank
        writer = CheckpointWriter(self._job, step, self._attempt)
        try:
            if error is None:
                content = [(array.spec, array.data) for array in mine]
                writer.write_part(rank, content, entries, shared, constants)
        except LastgoodError as problem:
            error = problem
        failing = of_each_rank(self._ranks, int(error is not None))
        size = 0
        if not any(failing) and rank == 0:
            try:
                size = commit(writer, self._journal, self._ranks.world_size, clock=time.time, **facts)[0].bytes
            except LastgoodError as problem:
                error = problem
        verdict = self._ranks.maximum([severity_of(error)])[0]
        if verdict > FAILED:
            raise error or stopped_elsewhere(verdict)
        if verdict == FAILED:
            writer.abandon(rank)
            if error is not None:
                note_failure(self._journal, step, rank, error)
            return error or failed_elsewhere(failing)
        return size

    def retain(self, step: int) -> str:
        """Apply retention after a commit; why that did not work, or nothing."""
        return retain(self._retention, self._journal, step) if self._ranks.rank == 0 else ""


def severity_of(error: LastgoodError | None) -> int:
    if isinstance(error, UnstorableError):
        return UNSTORABLE
    if isinstance(error, FencedError):
        return FENCED
    return FAILED if error else OK


def stopped_elsewhere(severity: int) -> LastgoodError:
    kind = FencedError if severity == FENCED else UnstorableError
    return kind("another rank had to stop the job: see its own message", safe="earlier checkpoints are untouched")


def failed_elsewhere(failing: list[int]) -> StorageError:
    return StorageError(
        f"{named(failing) if any(failing) else 'another rank'} could not write its part of the checkpoint",
        safe="earlier checkpoints are untouched",
        remedy="see that rank's own message",
    )
