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
from lastgood.core.errors import DamagedError
from lastgood.core.sealed import seal, unseal
from lastgood.store import durable
from lastgood.store.jobdir import read_document


class SavedRecord(msgspec.Struct, frozen=True):
    path: str
    job: str
    step: int
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
        if self.directory is None:
            return None
        record = SavedRecord(os.path.realpath(job_path), job_id, step, time.time())
        try:
            durable.make_directory(self.directory)
            durable.write_file(self._file(job_path), seal(record))
        except OSError as error:
            return error
        return None

    def forget(self, job_path: Path) -> None:
        if self.directory is not None:
            try:
                durable.delete_file(self._file(job_path))
            except OSError:
                return

    def _file(self, job_path: Path) -> Path:
        assert self.directory is not None
        key = xxhash.xxh3_128_hexdigest(os.fsencode(os.path.realpath(job_path)))
        return self.directory / f"{key}.json"
