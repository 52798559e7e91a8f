"""A small record outside the job's directory that the job in it once saved.

An unmounted, emptied or replaced directory looks like a new job from inside. This record, in the
user's state directory, is how a start notices. It is a net, not a need: where it cannot be kept (no
home directory, an ephemeral container) starts rely on their other evidence.
"""

import os
import time
from pathlib import Path

import msgspec
import xxhash

from lastgood.core import layout
from lastgood.core.errors import DamagedError, StartRefusedError
from lastgood.core.sealed import seal, unseal
from lastgood.store import durable
from lastgood.store.jobdir import read_document

RECORD_S = 60.0
"""How often the record of a job that saves is renewed; the first save always renews it."""


class SavedRecord(msgspec.Struct, frozen=True):
    path: str
    job: str
    step: int
    at: float


class NewStart(msgspec.Struct, frozen=True):
    path: str
    chain: str
    """What ties the Slurm jobs together that have made it, and make no other."""
    start: str
    """Which start of which of these jobs has made it: in that one somebody may ask for another."""
    at: float


def state_directory(environment: dict[str, str]) -> Path | None:
    """Where records live: $LASTGOOD_STATE_DIR, $XDG_STATE_HOME/lastgood or ~/.local/state/lastgood."""
    if chosen := environment.get(layout.Env.STATE_DIR):
        return Path(chosen)
    if state_home := environment.get("XDG_STATE_HOME"):
        return Path(state_home) / "lastgood"
    home = environment.get("HOME")
    return Path(home) / ".local" / "state" / "lastgood" if home else None


class Records:
    """Records of saved jobs by the real path of their directory."""

    def __init__(self, directory: Path | None) -> None:
        self.directory = directory

    def read(self, job_path: Path) -> SavedRecord | None:
        """What is remembered of a directory. An unreadable record is no evidence, and is None."""
        if self.directory is None:
            return None
        try:
            data = read_document(self._file(job_path))
            return None if data is None else unseal(data, SavedRecord, "the record of this job")
        except (OSError, DamagedError):
            return None

    def note_saved(self, job_path: Path, job_id: str, step: int) -> OSError | None:
        """Remember that the job in `job_path` saved `step`; the error, if that was not possible."""
        return self._keep(job_path, SavedRecord(_shown(job_path), job_id, step, time.time()))

    def forget(self, job_path: Path) -> None:
        if self.directory is not None:
            try:
                durable.delete_file(self._file(job_path))
            except OSError:
                return

    def has_begun_anew(self, job_path: Path, chain: str, start: str) -> bool:
        """True if the last new start in this directory was made by that chain of Slurm jobs, in another start than
        this one."""
        if self.directory is None or not chain:
            return False
        try:
            data = read_document(self._file(job_path, NewStart))
            made = None if data is None else unseal(data, NewStart, "the new start of this job")
        except (OSError, DamagedError):
            return False
        return made is not None and made.chain == chain and made.start != start

    def note_new_start(self, job_path: Path, chain: str, start: str) -> None:
        """Remember which start of a chain of Slurm jobs has begun anew in `job_path`; no chain: none."""
        if chain:
            self._keep(job_path, NewStart(_shown(job_path), chain, start, time.time()))

    def _keep(self, job_path: Path, record: SavedRecord | NewStart) -> OSError | None:
        if self.directory is None:
            return None
        try:
            durable.make_directory(self.directory)
            durable.write_shared_file(self._file(job_path, type(record)), seal(record))
        except OSError as error:
            return error
        return None

    def _file(self, job_path: Path, kind: type[SavedRecord | NewStart] = SavedRecord) -> Path:
        assert self.directory is not None
        key = xxhash.xxh3_128_hexdigest(os.fsencode(os.path.realpath(job_path)))
        return self.directory / (f"{key}.json" if kind is SavedRecord else f"{key}.new-start.json")


def _shown(job_path: Path) -> str:
    """For people who look: the key is the file's name. A path need not be text."""
    return os.fsencode(os.path.realpath(job_path)).decode("utf-8", "backslashreplace")


def refuse_vanished(job_path: Path | str, records: Records, *, is_fresh_spent: bool = False) -> None:
    """Raise StartRefusedError if a directory holds no job although one is recorded to have saved there. `is_fresh_spent`:
    a new start was asked for, and made before.

    Call it before anything is created: a bogus job in an empty mount point would hide the trouble.
    """
    path = Path(job_path).absolute()
    try:
        is_there = read_document(path / layout.JOB_FILE) is not None
    except NotADirectoryError:
        is_there = False
    except OSError as error:
        raise durable.explain(error, "read the job in", path, safe="nothing was changed") from error
    record = None if is_there else records.read(path)
    if record is not None:
        anew = "begin anew: `lastgood run --fresh`, or lastgood.Run(..., fresh=True) once"
        if is_fresh_spent:
            anew = "submit it again with --fresh: the new start of this Slurm job was made when it began"
        raise StartRefusedError(
            f"will not start a new job in {path}: a job in it saved step {record.step} before, and is not there now",
            safe="nothing was changed",
            remedy=f"make it visible again (mount, path, backup), or {anew}",
        )
