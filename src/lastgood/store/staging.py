"""Node-local staging: checkpoints are committed on a fast disk of this node first, and promoted from there.

    <stage>/<job id>/
      job.json                     the same job: every command reads a stage like any job's directory
      checkpoints/, constants/     as in the job's own directory (which is called the durable one here)

The stage has no attempts of its own. What fences a writer there are the attempts of the job's own directory; only
while that cannot be read (the storage is away, which is when a stage is worth most) does it write unfenced. That is
harmless: names carry the attempt, and what it commits there reaches the job's directory past the fence only.

Nothing is deleted from a stage before it, or something newer, has been promoted.
"""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import xxhash

from lastgood.core import layout
from lastgood.core.errors import (
    DamagedError,
    FormatVersionError,
    LastgoodError,
    PermissionDeniedError,
    StorageError,
)
from lastgood.core.manifest import StageRecord, check_format
from lastgood.core.sealed import seal, unseal
from lastgood.store import durable
from lastgood.store.attempts import check_fence
from lastgood.store.catalogue import Listed, list_checkpoints
from lastgood.store.jobdir import JobDirectory, open_job, read_document
from lastgood.store.references import References
from lastgood.store.sweep import delete_checkpoint, sweep_incomplete
from lastgood.store.writer import CheckpointWriter

KEEP = 2
"""Checkpoints that a stage keeps beside those that are not promoted yet: the newest, to resume from, and the one
before, should that turn out to be damaged."""


class Stage:
    """Where a node stages the checkpoints of a job. Made by `open_stage` or `find_stages`.

    Methods raise OSError where a directory cannot be read or changed.
    """

    def __init__(self, job: JobDirectory, path: Path) -> None:
        """The stage at an absolute path, which is not looked at."""
        self.job = job
        """The durable one."""
        self.path = path
        staged = JobDirectory(path / job.id, job.job)
        staged.attempts = job.attempts
        staged.known_fresh = job.known_fresh
        self.staged = job.elsewhere.setdefault(path, staged)

    def writer(self, step: int, attempt: int) -> CheckpointWriter:
        """Writes a checkpoint to the stage."""
        return CheckpointWriter(self.staged, step, attempt, fence=lambda: self.check_fence(attempt))

    def check_fence(self, attempt: int) -> None:
        """Raise FencedError if a newer attempt is known to have begun."""
        try:
            check_fence(self.job, attempt)
        except OSError:
            return

    def refuse_without_room(self, size: int) -> None:
        """Raise StorageError if the disk of the stage cannot take `size` bytes more."""
        with durable.explained("look for room on", self.path):
            found = os.statvfs(self.staged.path)
        free = found.f_bavail * found.f_frsize
        if free < size:
            raise StorageError(
                f"the stage {self.path} has {free} bytes free, and {size} are needed",
                remedy="free space there; checkpoints go to the job's own directory meanwhile",
            )

    def pending(self) -> list[Listed]:
        """What is to be promoted, newest first: everything good that is newer than all that the durable directory
        has. (What is older would be of no use there.)"""
        promoted = self._newest_promoted()
        return [c for c in self._good() if c.age_key > promoted and not c.is_set_aside]

    def retain(self, attempt: int, keep: int = KEEP) -> list[str]:
        """Delete all but the newest `keep` and what is pinned, of what is promoted or older than something promoted;
        the names. Raises FencedError if a newer attempt has begun."""
        promoted = self._newest_promoted()
        kept = {c.name for c in self._good()[:keep]}
        check_fence(self.job, attempt)
        deleted = []
        for listed in list_checkpoints(self.staged):
            if not listed.is_committed or listed.is_link or listed.pinned or listed.name in kept:
                continue
            if listed.age_key <= promoted:
                delete_checkpoint(self.staged, listed.name)
                deleted.append(listed.name)
        References(self.staged, attempt).sweep()
        return deleted

    def leave(self, attempt: int) -> None:
        """The job needs the stage no more, and nothing is being written: delete what is promoted or was never
        committed and, if nothing else is there, the directory."""
        self.retain(attempt, keep=0)
        staged = self.staged
        sweep_incomplete(staged, attempt + 1)
        if list_checkpoints(staged):
            return
        for name in os.listdir(staged.constants) if staged.constants.is_dir() else ():
            if layout.parse_constants_file(layout.without_temporary(name)):
                durable.delete_file(staged.constants / name)
        for directory in (staged.constants, staged.checkpoints, staged.path / layout.ATTEMPTS_DIR):
            durable.delete_directory(directory)
        if not staged.checkpoints.exists():
            durable.delete_file(staged.path / layout.JOB_FILE)
            durable.delete_directory(staged.path)

    def _good(self) -> list[Listed]:
        """Newest first."""
        return [c for c in list_checkpoints(self.staged) if c.is_committed and not c.rejected and not c.is_link]

    def _newest_promoted(self) -> tuple[int, int]:
        """Age of the newest that the durable directory has; older than all if it has none."""
        committed = [c for c in list_checkpoints(self.job) if c.is_committed and not c.rejected and not c.is_link]
        return committed[0].age_key if committed else (0, -1)


def open_stage(job: JobDirectory, path: Path | str) -> Stage:
    """The stage of a job in that directory of this node; made where there is none yet.

    Raises StorageError or PermissionDeniedError where that is not possible.
    """
    stage = Stage(job, Path(path).absolute())
    directory = stage.staged.path
    with durable.explained("stage checkpoints in", directory, safe="the job's own directory is untouched"):
        durable.make_directory(stage.path)
        if not os.path.lexists(directory):
            durable.make_directory(directory)
        _refuse_foreign(directory)
        for name in (layout.CHECKPOINTS_DIR, layout.ATTEMPTS_DIR):
            durable.make_directory(directory / name)
        durable.create_file(directory / layout.JOB_FILE, seal(job.job))
        try:
            _refuse_other_job(stage)
        except DamagedError:
            # What belongs into it is known.
            durable.write_file(directory / layout.JOB_FILE, seal(job.job))
    return stage


def _refuse_foreign(directory: Path) -> None:
    """Scratch directories are often writable by all: what somebody else has put there is not read."""
    found = os.lstat(directory)
    if directory.is_symlink() or not directory.is_dir() or found.st_uid != os.geteuid():
        raise PermissionDeniedError(
            f"{directory} is not a directory of yours",
            safe="nothing in it was read",
            remedy="use another stage, such as a directory of your own on the node's scratch disk",
        )


def _refuse_other_job(stage: Stage) -> None:
    found = open_job(stage.staged.path).id
    if found != stage.job.id:
        raise StorageError(f"{stage.staged.path} holds checkpoints of another job, {found}", safe="it was left alone")


# Finding stages again -----------------------------------------------------------------------------------------------


def note_stage(stage: Stage, attempt: int) -> None:
    """Remember in the job's own directory that this node stages there. Raises OSError."""
    host = socket.gethostname()
    record = StageRecord(layout.FORMAT_VERSION, stage.job.id, host, os.fspath(stage.path), attempt)
    key = xxhash.xxh3_64_hexdigest(os.fsencode(f"{host}\0{stage.path}"))
    directory = stage.job.path / layout.STAGES_DIR
    durable.make_directory(directory)
    durable.write_file(directory / layout.stage_file(key), seal(record))


def stage_records(job: JobDirectory) -> list[StageRecord]:
    """Every place where the job's checkpoints were staged, newest attempt first. One that cannot be read is passed
    over: it helps to find things, nothing relies on it."""
    return sorted(_records(job), key=lambda record: (-record.attempt, record.host, record.path))


def _records(job: JobDirectory) -> Iterator[StageRecord]:
    directory = job.path / layout.STAGES_DIR
    try:
        names = os.listdir(directory)
    except OSError:
        return
    for name in filter(layout.is_stage_file, names):
        try:
            text = read_document(directory / name)
            record = None if text is None else unseal(text, StageRecord, f"{layout.STAGES_DIR}/{name}")
            if record is not None and record.job == job.id:
                check_format(record.format, name)
                yield record
        except (OSError, DamagedError, FormatVersionError):
            continue


def find_stages(job: JobDirectory, *paths: Path | str) -> list[Stage]:
    """The stages of the job that are on this node: those of `paths`, then those of its records. Creates nothing;
    what is not there, or not ours, is passed over."""
    found: dict[Path, Stage] = {}
    for path in [*(Path(path).absolute() for path in paths), *(Path(record.path) for record in stage_records(job))]:
        stage = Stage(job, path)
        try:
            _refuse_foreign(stage.staged.path)
            _refuse_other_job(stage)
        except (OSError, LastgoodError):
            continue
        found.setdefault(path, stage)
    return list(found.values())


# Both sides ---------------------------------------------------------------------------------------------------------


class Copy(msgspec.Struct, frozen=True):
    """A checkpoint in one of the places where it is."""

    listed: Listed
    job: JobDirectory
    """The directory to open it from."""
    stage: str
    """Path of the stage that it is on; empty for the durable directory."""


def list_copies(job: JobDirectory, stages: Sequence[Stage]) -> list[Copy]:
    """All checkpoints wherever they are, newest first; of one that is in several places, the staged copy first,
    because it is the nearer one. A stage that cannot be listed is passed over: its disk may be broken. Raises
    OSError if the durable directory cannot be listed."""
    copies = []
    for stage in stages:
        with suppress(OSError):
            copies += [Copy(listed, stage.staged, os.fspath(stage.path)) for listed in list_checkpoints(stage.staged)]
    copies += [Copy(listed, job, "") for listed in list_checkpoints(job)]
    return sorted(copies, key=lambda copy: copy.listed.age_key, reverse=True)
