"""Deleting: what retention gave up, and what killed attempts left half-written.

Order: the manifest goes first, then the data, so that a crash in between leaves an incomplete directory
and never a checkpoint with holes. Files that are not ours are never deleted, nor anything through a link.

Functions here raise OSError where the file system refuses; what is left then is tried again next time.
"""

import errno
import os
from collections.abc import Collection
from contextlib import suppress

from lastgood.core import layout
from lastgood.core.layout import MANIFEST_FILE, PINNED_FILE, REJECTED_FILE, TEMPORARY_SUFFIX
from lastgood.core.retention import Keep, Verdict, judge
from lastgood.store import durable
from lastgood.store.attempts import attempt_numbers, check_fence
from lastgood.store.catalogue import Listed, known, list_checkpoints, set_mark
from lastgood.store.jobdir import JobDirectory
from lastgood.store.reader import open_checkpoint
from lastgood.store.references import References


class Retention:
    """Applies a Keep to a job. Remembers which checkpoints it has verified, so that each is read once."""

    def __init__(self, job: JobDirectory, keep: Keep, attempt: int = 0) -> None:
        self._job = job
        self._keep = keep
        self._attempt = attempt
        self._verified: set[str] = set()
        self.trouble = ""
        """Why the last `apply` did not work, if it did not; kept here by who has noted it."""
        self._whole_constants: set[str] = set()
        self._references = References(job, attempt)

    def plan(self) -> list[Verdict]:
        """What would be kept and deleted now, newest first. Nothing is touched.

        What a new start has set aside is judged by itself, so that it takes nobody's place; for an attempt it is not
        judged at all, so it stays.
        """
        committed = [c for c in list_checkpoints(self._job) if c.is_committed and not c.is_link]
        aside = [] if self._attempt else [c for c in committed if c.is_set_aside]
        return self._judge([c for c in committed if not c.is_set_aside]) + self._judge(aside)

    def _judge(self, listed: list[Listed]) -> list[Verdict]:
        # One that cannot be read now may be readable tomorrow, or by another version: it is not judged, so it stays.
        return judge([k for c in listed if (k := known(self._job, c)) is not None], self._keep)

    def apply(self) -> list[Verdict]:
        """Delete what need not be kept, after the last good one has been read back and found whole; then, for an
        attempt, constants that nothing refers to any more.

        Returns the verdicts on those that were deleted. If the newest turns out to be damaged it is
        marked as rejected and the plan is made again, so nothing is deleted on the strength of it.
        Raises FencedError, before anything is changed, if a newer attempt has begun.
        """
        while True:
            verdicts = self.plan()
            condemned = [v for v in verdicts if not v.is_kept]
            if not condemned:
                break
            last_good = next(v.name for v in verdicts if v.reason == "last good")
            problems = self._problems(last_good)
            if self._attempt:
                # After the plan: what a newer attempt has written cannot be in it if none has begun by now.
                check_fence(self._job, self._attempt)
            if not problems:
                break
            set_mark(self._job, last_good, REJECTED_FILE, problems[0], self._attempt)
        deleted = []
        for verdict in condemned:
            # Reading back takes a while, in which somebody may have said that it is needed.
            if not os.path.lexists(self._job.checkpoints / verdict.name / PINNED_FILE):
                delete_checkpoint(self._job, verdict.name)
                deleted.append(verdict)
        if self._attempt:
            self._references.sweep()
        return deleted

    def _problems(self, name: str) -> list[str]:
        if name in self._verified:
            return []
        problems = open_checkpoint(self._job, name).verify(self._whole_constants)
        if not problems:
            # What can be read is not yet durable: who committed it may have died before its last flush.
            durable.flush_directory(self._job.checkpoints / name)
            durable.flush_directory(self._job.checkpoints)
            self._verified.add(name)
        return problems


def delete_checkpoint(job: JobDirectory, name: str) -> None:
    """Remove a checkpoint: the manifest, durably, and then the rest of what is ours in its directory.

    One that somebody else deletes at the same time is fine.
    """
    directory = job.checkpoints / name
    if directory.is_symlink():
        raise OSError(errno.ELOOP, "it is a link, and what it leads to is not ours to delete", os.fspath(directory))
    with suppress(FileNotFoundError):
        durable.delete_file(directory / MANIFEST_FILE)
        durable.flush_directory(directory)
        _delete_ours(job, name)


def sweep_incomplete(job: JobDirectory, before_attempt: int, spare: Collection[str] = ()) -> list[str]:
    """Remove directories that earlier attempts left without a manifest; their names. Removes temporary files
    of earlier starts, too. (One of a mark goes with its checkpoint, or with the next mark.) Those of the names
    `spare` are left: they are being promoted from a stage, or will be (see store.promotion).

    An earlier attempt may still be alive, frozen right before its commit. Its temporary manifest is
    removed first: then its rename has nothing to rename, and its next try meets the fence. (Constants are swept
    by `Retention`, after the first commit: until then this attempt may want to go on with them.)
    """
    swept = []
    for listed in list_checkpoints(job):
        if listed.is_committed or listed.is_link or listed.attempt >= before_attempt or listed.name in spare:
            continue
        _delete_temporary_manifests(job, listed.name)
        if (job.checkpoints / listed.name / MANIFEST_FILE).exists():
            continue
        with suppress(FileNotFoundError):
            # A retention that died here may have removed the manifest and not flushed that.
            durable.flush_directory(job.checkpoints / listed.name)
            _delete_ours(job, listed.name)
        swept.append(listed.name)
    newest = max(attempt_numbers(job), default=0)
    for directory in (job.path, job.attempts):
        for name in os.listdir(directory):
            if layout.is_left_by_start(name, newest):
                durable.delete_file(directory / name)
    return swept


def _delete_temporary_manifests(job: JobDirectory, name: str) -> None:
    directory = job.checkpoints / name
    with suppress(FileNotFoundError):
        for file in os.listdir(directory):
            if file.endswith(TEMPORARY_SUFFIX) and layout.without_temporary(file) == MANIFEST_FILE:
                durable.delete_file(directory / file)


def _delete_ours(job: JobDirectory, name: str) -> None:
    directory = job.checkpoints / name
    for file in sorted(os.listdir(directory)):
        if layout.is_part_of_checkpoint(file):
            durable.delete_file(directory / file)
    durable.delete_directory(directory)
