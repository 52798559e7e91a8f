"""What checkpoints a job has, and what has been decided about each. The directory is the truth:
there is no pointer to a latest one that could be wrong."""

import errno
import os
import time

import msgspec

from lastgood.core import layout
from lastgood.core.errors import DamagedError, FormatVersionError, NoSuchJobError
from lastgood.core.manifest import Mark
from lastgood.core.retention import Known
from lastgood.core.sealed import seal, unseal
from lastgood.store import durable
from lastgood.store.attempts import attempt_numbers, read_attempt
from lastgood.store.jobdir import JobDirectory, read_document
from lastgood.store.reader import open_checkpoint


class Listed(msgspec.Struct, frozen=True):
    """A checkpoint directory as a listing sees it, without opening its manifest."""

    name: str
    step: int
    attempt: int
    is_committed: bool
    rejected: str = ""
    """Why it was rejected; empty if it was not."""
    pinned: str = ""
    """Why it is pinned; empty if it is not."""
    is_set_aside: bool = False
    """A later attempt meant a new start."""
    is_link: bool = False
    """Not a directory but a link to one: never read from, written to, or deleted through."""

    @property
    def age_key(self) -> tuple[int, int]:
        return (self.attempt, self.step)


def list_checkpoints(job: JobDirectory) -> list[Listed]:
    """All checkpoint directories, newest first (by attempt, then step). Raises OSError if they cannot be
    listed: an unreadable directory is never an empty one."""
    fresh_from = newest_fresh_attempt(job)
    found = []
    for name in os.listdir(job.checkpoints):
        parsed = layout.parse_checkpoint_name(name)
        if parsed is None:
            continue
        try:
            names = set(os.listdir(job.checkpoints / name))
        except (FileNotFoundError, NotADirectoryError):
            # Deleted this very moment, or a file that only has such a name: in both cases no checkpoint.
            continue
        found.append(
            Listed(
                name,
                *parsed,
                layout.MANIFEST_FILE in names,
                _mark(job, name, layout.REJECTED_FILE) if layout.REJECTED_FILE in names else "",
                _mark(job, name, layout.PINNED_FILE) if layout.PINNED_FILE in names else "",
                parsed[1] < fresh_from,
                os.path.islink(job.checkpoints / name),
            )
        )
    return sorted(found, key=lambda c: c.age_key, reverse=True)


def newest_fresh_attempt(job: JobDirectory) -> int:
    """The newest attempt that was meant to start anew; 0 if none was."""
    for number in reversed(attempt_numbers(job)):
        if number not in job.known_fresh:
            try:
                attempt = read_attempt(job, number)
            except DamagedError:
                continue
            if attempt is None:
                continue
            # A claim never changes, and a job can have thousands of them: each is read once.
            job.known_fresh[number] = attempt.fresh
        if job.known_fresh[number]:
            return number
    return 0


def _mark(job: JobDirectory, name: str, mark: str) -> str:
    try:
        data = read_document(job.checkpoints / name / mark)
        return "" if data is None else unseal(data, Mark, mark).reason or "no reason given"
    except DamagedError:
        # A damaged mark still marks: somebody decided something about this checkpoint.
        return "the mark itself is damaged"


def set_mark(job: JobDirectory, name: str, mark: str, reason: str, attempt: int = 0) -> None:
    """Write rejected.json or pinned.json into a checkpoint's directory. Raises OSError if that is not possible."""
    _refuse_link(job, name)
    document = Mark(layout.FORMAT_VERSION, reason, time.time(), attempt)
    durable.write_file(job.checkpoints / name / mark, seal(document))


def clear_mark(job: JobDirectory, name: str, mark: str) -> None:
    """Take a mark away; one that is not there is fine. Raises OSError if that is not possible."""
    _refuse_link(job, name)
    durable.delete_file(job.checkpoints / name / mark)


def _refuse_link(job: JobDirectory, name: str) -> None:
    if os.path.islink(job.checkpoints / name):
        raise OSError(errno.ELOOP, "it is a link, and what it leads to is not ours to change")


def known(job: JobDirectory, listed: Listed) -> Known | None:
    """What retention needs to know of a committed checkpoint; None if its manifest cannot be read now, or
    not by this version."""
    try:
        metrics = open_checkpoint(job, listed.name).manifest.metrics
    except DamagedError:
        return Known(listed.name, listed.step, listed.attempt, {}, is_rejected=True, is_pinned=bool(listed.pinned))
    except (OSError, FormatVersionError, NoSuchJobError):
        return None
    return Known(listed.name, listed.step, listed.attempt, metrics, bool(listed.rejected), bool(listed.pinned))
