"""Which constants files are still referred to, and deleting those that are not.

Why no checkpoint can lose a file that it refers to:

1. A checkpoint refers to files of its own attempt only (the reader refuses others). So what becomes of a file is
   decided by the checkpoints of one attempt, and nothing that a newer attempt does depends on it: that one has
   names of its own, and a hard link keeps the bytes when the other name goes.
2. Manifests are deleted before the files, durably (store.sweep). A crash in between leaves files that nobody refers to.
3. Of an *older* attempt, no further checkpoint is committed once its half-written directories are gone: it passed its
   last check of the fence before this attempt was claimed, or is refused at the next; and in the first case it has a
   temporary manifest, which the sweep removes before the directory, so that its rename fails. Therefore its files are
   left alone as long as it has a directory without a manifest, and judged by its committed checkpoints after that.
   What is deleted late, by somebody who was frozen in between, is unused still.
4. Of the *own* attempt, checkpoints are being made, by one process that also sweeps. Right before each commit it
   looks that every file is there (store.writer), and from there to the commit it holds `JobDirectory.settling`, as it
   does from here on while it judges and deletes. So a file can be deleted under a part that was being written, which
   costs that save, but never under a manifest. To make even that rare, a file of the own attempt goes only if this
   process has seen a committed checkpoint that refers to it, and none refers to it any more, and no checkpoint is
   half-written. The next attempt, by 3, takes the rest. (What is committed *for* an older attempt, by store.staging,
   is committed by this process, too.)
5. Where some manifest of an attempt cannot be read, it may refer to anything: nothing of that attempt is deleted.
"""

import os
from collections.abc import Iterable

from lastgood.core import layout
from lastgood.core.errors import DamagedError, FormatVersionError, NoSuchJobError
from lastgood.store import durable
from lastgood.store.attempts import check_fence
from lastgood.store.catalogue import Listed, list_checkpoints
from lastgood.store.jobdir import JobDirectory
from lastgood.store.reader import open_checkpoint


class References:
    """The references of a job's checkpoints to constants, as one attempt sees them."""

    def __init__(self, job: JobDirectory, attempt: int) -> None:
        """`attempt` is the own one's number. Files of newer ones are never touched."""
        self._job = job
        self._attempt = attempt
        self._once_used: set[str] = set()
        """Files of the own attempt that a committed checkpoint has referred to."""

    def sweep(self) -> list[str]:
        """Delete what no checkpoint refers to any more; the names.

        Raises OSError where something cannot be listed or deleted, FencedError if a newer attempt has begun.
        """
        with self._job.settling:
            return self._sweep()

    def _sweep(self) -> list[str]:
        files = self._files()
        if not files:
            return []
        checkpoints = list_checkpoints(self._job)
        deleted: list[str] = []
        for attempt in sorted({number for number, _ in files}):
            used = self._used(c for c in checkpoints if c.attempt == attempt)
            if used is None:
                continue
            unused = {name for number, name in files if number == attempt} - used
            if attempt == self._attempt:
                unused &= self._once_used
                self._once_used |= used
            deleted += sorted(unused)
        if deleted:
            check_fence(self._job, self._attempt)
        for name in deleted:
            durable.delete_file(self._job.constants / name)
        return deleted

    def _files(self) -> list[tuple[int, str]]:
        """Files of this and older attempts, with the attempt's number; of older ones, also temporary ones."""
        try:
            names = os.listdir(self._job.constants)
        except FileNotFoundError:
            return []
        found = []
        for name in names:
            meant_for = layout.without_temporary(name)
            parsed = layout.parse_constants_file(meant_for)
            if parsed is not None and parsed[1] < self._attempt + (name == meant_for):
                found.append((parsed[1], name))
        return found

    def _used(self, checkpoints: Iterable[Listed]) -> set[str] | None:
        """The files that an attempt's checkpoints refer to; None if that is not known, or not for good."""
        used = set()
        for listed in checkpoints:
            if not listed.is_committed or listed.is_link:
                return None
            try:
                manifest = open_checkpoint(self._job, listed.name).manifest
            except (DamagedError, FormatVersionError, NoSuchJobError, OSError):
                return None
            used |= {constants.file for constants in manifest.constants}
        return used
