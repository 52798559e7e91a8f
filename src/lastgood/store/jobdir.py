"""A job's directory: opening it, creating it, and saying clearly why either is not possible."""

import errno
import os
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lastgood.core import layout
from lastgood.core.errors import (
    DamagedError,
    NoSuchJobError,
    StartRefusedError,
    StorageError,
)
from lastgood.core.manifest import MAX_DOCUMENT_BYTES, Finished, Job, check_format
from lastgood.core.sealed import seal, unseal
from lastgood.store import durable


class JobDirectory:
    """Paths and identity of one job. Made by `open_job` or `create_job`."""

    def __init__(self, path: Path, job: Job) -> None:
        self.path = path
        self.job = job
        self.attempts = path / layout.ATTEMPTS_DIR
        self.checkpoints = path / layout.CHECKPOINTS_DIR
        self.constants = path / layout.CONSTANTS_DIR
        self.known_fresh: dict[int, bool] = {}
        """Of the attempts read so far, whether each was meant to start anew."""
        self.elsewhere: dict[Path, JobDirectory] = {}
        """Other directories of the same job (see store.staging), one object for each."""
        self.settling = threading.Lock()
        """Held where a checkpoint becomes one, and where it is judged which constants checkpoints need."""

    @property
    def id(self) -> str:
        return self.job.id

    @property
    def log(self) -> Path:
        return self.path / layout.LOG_FILE

    def finished(self) -> Finished | None:
        """The marker that all steps are done, or None. Raises DamagedError if it is there but unreadable."""
        data = read_document(self.path / layout.FINISHED_FILE)
        if data is None:
            return None
        return unseal(data, Finished, layout.FINISHED_FILE)

    def mark_finished(self, step: int, attempt: int) -> None:
        """Raises FileNotFoundError where a newer attempt has begun meanwhile, and swept the temporary file."""
        finished = Finished(layout.FORMAT_VERSION, self.id, step, attempt, time.time())
        # A token: an elder attempt that was frozen right here must not write into the file of a newer one.
        with durable.NewFile(self.path / layout.FINISHED_FILE, os.urandom(8).hex()) as new:
            new.write(seal(finished))
            new.commit()

    def unmark_finished(self) -> None:
        durable.delete_file(self.path / layout.FINISHED_FILE)


def open_job(path: Path | str) -> JobDirectory:
    """An existing job. Raises NoSuchJobError if there is none; anything unreadable is its own error."""
    path = Path(path).absolute()
    try:
        data = _read_job_file(path)
    except NotADirectoryError as error:
        raise NoSuchJobError(
            f"{path} is not a job directory: it, or something above it, is a file",
            remedy="give the directory that --job named when the job ran",
        ) from error
    except OSError as error:
        raise durable.explain(error, "read the job in", path) from error
    if data is None:
        what = "is not a job directory (it has no job.json)" if path.is_dir() else "does not exist"
        raise NoSuchJobError(f"{path} {what}", remedy="give the directory that --job named when the job ran")
    return JobDirectory(path, _parse_job(data, path))


def create_job(path: Path | str) -> JobDirectory:
    """The job in a directory; it is created where there is none yet.

    Creating twice at the same moment is fine: one wins, both get the same job.
    """
    path = Path(path).absolute()
    try:
        durable.make_directory(path / layout.ATTEMPTS_DIR)
        durable.make_directory(path / layout.CHECKPOINTS_DIR)
        data = _read_job_file(path)
        if data is None:
            _refuse_headless_job(path)
            durable.create_file(path / layout.JOB_FILE, seal(_new_job()))
            data = _read_job_file(path)
            if data is None:
                raise StorageError(f"{path / layout.JOB_FILE} vanished as soon as it was written")
        # If somebody else made it, that process may have died before it could flush the name.
        durable.flush_directory(path)
        if not data:
            data = _await_content(path)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.EEXIST):
            raise StorageError(
                f"{path} is no directory that a job can live in: {error.strerror}",
                safe="nothing was changed",
                remedy="choose a directory, not a file, for the job",
            ) from error
        raise durable.explain(error, "create the job in", path, safe="nothing was lost") from error
    return JobDirectory(path, _parse_job(data, path))


_CONTENT_LIMIT_S = 2.0
"""How long the content of job.json may come after its name, on a file system without hard links."""


def _await_content(path: Path) -> bytes:
    """What is in a job.json that was empty: somebody is writing it just now, or was killed doing so.

    In the second case, which only an unused directory can be in, the job is made here.
    """
    for _ in range(_TAKE_OVERS):
        limit = time.monotonic() + _CONTENT_LIMIT_S
        while not (data := _read_job_file(path)) and time.monotonic() < limit:
            time.sleep(0.01)
        if data or _is_used(path):
            break
        _take_over(path)
    return _read_job_file(path) or b""


_TAKE_OVERS = 5
"""Tries, where several take over at once and each undoes the others' try."""


def _take_over(path: Path) -> None:
    """Fill an empty job.json in the place of who did not.

    Whoever fills it first sweeps the temporary files of all others, and only then looks whether it is
    still empty: so nobody else, however late, has anything to rename over what is there by then.
    """
    with durable.NewFile(path / layout.JOB_FILE, os.urandom(8).hex()) as new:
        new.write(seal(_new_job()))
        new.flush()
        for name in os.listdir(path):
            if layout.is_left_by_start(name, 0) and name != new.part.name:
                durable.delete_file(path / name)
        if not _read_job_file(path):
            with suppress(FileNotFoundError):
                new.publish()


def _is_used(path: Path) -> bool:
    return any(os.listdir(path / name) for name in (layout.ATTEMPTS_DIR, layout.CHECKPOINTS_DIR))


def _new_job() -> Job:
    return Job(layout.FORMAT_VERSION, uuid.uuid4().hex[:16], time.time())


def _refuse_headless_job(path: Path) -> None:
    """Without job.json but with checkpoints: something removed half of a job. Not ours to call new."""
    orphans = [n for n in os.listdir(path / layout.CHECKPOINTS_DIR) if layout.parse_checkpoint_name(n)]
    if orphans:
        raise StartRefusedError(
            f"{path} has {len(orphans)} checkpoint(s) but no job.json",
            safe="the checkpoints were not touched",
            remedy=f"restore {layout.JOB_FILE} from a backup, or move {layout.CHECKPOINTS_DIR}/ away to begin a new job there",
        )


def _read_job_file(path: Path) -> bytes | None:
    with _damage_explained():
        return read_document(path / layout.JOB_FILE)


def _parse_job(data: bytes, path: Path) -> Job:
    name = os.fspath(path / layout.JOB_FILE)
    with _damage_explained():
        job = unseal(data, Job, name)
        check_format(job.format, name)
    return job


@contextmanager
def _damage_explained() -> Iterator[None]:
    try:
        yield
    except DamagedError as error:
        raise DamagedError(
            error.what,
            safe="the checkpoints were not touched",
            remedy="restore it from a backup; the id in it is in every checkpoint's manifest.json",
        ) from error


def read_document(path: Path) -> bytes | None:
    """The bytes of a document, None only if the name truly does not exist.

    Raises DamagedError if the name belongs to something that is no document, OSError if it cannot be read.
    """
    try:
        return durable.read_file(path, MAX_DOCUMENT_BYTES)
    except FileNotFoundError:
        return None
