"""What each checkpoint of a job is, as far as its manifest tells, and finding one by what a person types.

A survey opens manifests only. Whether the data behind one is whole, only reading it tells
(`Checkpoint.verify`).
"""

import re
from enum import StrEnum

import msgspec

from lastgood.core import layout
from lastgood.core.errors import DamagedError, FormatVersionError, NoSuchJobError
from lastgood.core.manifest import Manifest
from lastgood.store import durable
from lastgood.store.catalogue import Listed, list_checkpoints
from lastgood.store.jobdir import JobDirectory
from lastgood.store.reader import open_checkpoint


class State(StrEnum):
    GOOD = "good"
    """Committed, its manifest passes its checks, and no attempt has failed to restore it."""
    REJECTED = "rejected"
    """Committed, but it failed to restore or to verify."""
    DAMAGED = "damaged"
    """Its manifest does not pass its checks."""
    UNREADABLE = "unreadable"
    """Its manifest cannot be read now; it may be whole."""
    NEWER = "newer format"
    """Written by a newer version of lastgood."""
    INCOMPLETE = "incomplete"
    """Without a manifest: being written, or left by an attempt that was killed. It does not count."""


class Surveyed(msgspec.Struct, frozen=True):
    listed: Listed
    state: State
    problem: str = ""
    """Why it is not good; empty if it is."""
    manifest: Manifest | None = None

    @property
    def name(self) -> str:
        return self.listed.name


def survey(job: JobDirectory) -> list[Surveyed]:
    """Every checkpoint directory of the job, newest first. Raises StorageError or PermissionDeniedError if
    they cannot be listed; one that cannot be opened is listed with its problem."""
    with durable.explained("list the checkpoints in", job.checkpoints):
        listed = list_checkpoints(job)
    return [_look_at(job, one) for one in listed]


def _look_at(job: JobDirectory, listed: Listed) -> Surveyed:
    if not listed.is_committed:
        return Surveyed(listed, State.INCOMPLETE, "it has no manifest")
    try:
        manifest = open_checkpoint(job, listed.name).manifest
    except FormatVersionError as error:
        return Surveyed(listed, State.NEWER, error.what)
    except NoSuchJobError:
        return Surveyed(listed, State.INCOMPLETE, "its manifest was deleted just now")
    except DamagedError as error:
        return Surveyed(listed, State.DAMAGED, error.what)
    except OSError as error:
        return Surveyed(listed, State.UNREADABLE, f"its manifest cannot be read: {error.strerror or error}")
    if listed.rejected:
        return Surveyed(listed, State.REJECTED, listed.rejected, manifest)
    return Surveyed(listed, State.GOOD, "", manifest)


def last_good(surveyed: list[Surveyed]) -> Surveyed | None:
    """The newest that a start would try first; None if there is none."""
    return next((s for s in surveyed if s.state is State.GOOD and not s.listed.is_set_aside), None)


_WANTED = re.compile(r"([0-9]{1,12})(?:-([0-9]{1,9}))?\Z")


def find(job: JobDirectory, surveyed: list[Surveyed], wanted: str) -> Surveyed:
    """The committed checkpoint that a person means by "last", a step, or a step and an attempt.

    Zeros in front do not matter: `1200`, `1200-3` and `000000001200-0003` are understood. A step alone
    means the newest attempt's. Raises NoSuchJobError if there is none.
    """
    if wanted == "last":
        newest = last_good(surveyed)
        if newest is None:
            raise NoSuchJobError(
                f"{job.path} has no good checkpoint",
                remedy="`lastgood ls` shows what is there" if surveyed else "it appears with the job's first save",
            )
        return newest
    match = _WANTED.match(wanted)
    if match is None:
        raise NoSuchJobError(
            f"{wanted!r} does not name a checkpoint",
            remedy='give a step (1200), a step and an attempt (1200-3), or "last"; `lastgood ls` lists them',
        )
    step, attempt = int(match[1]), match[2] and int(match[2])
    there = [s for s in surveyed if s.listed.step == step and attempt in (None, s.listed.attempt)]
    for one in there:
        if one.state is not State.INCOMPLETE:
            return one
    name = layout.checkpoint_name(step, attempt) if attempt else f"of step {step}"
    what = "was never committed" if there else "does not exist"
    raise NoSuchJobError(f"checkpoint {name} {what} in {job.path}", remedy="`lastgood ls` lists the others")
