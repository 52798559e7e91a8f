"""Opening the job that a command names."""

import os
from pathlib import Path

from lastgood.core.errors import NoSuchJobError
from lastgood.store.jobdir import JobDirectory, open_job
from lastgood.store.record import Records, state_directory


def open_named(path: str) -> JobDirectory:
    """The job in a directory. Raises what `open_job` does; where no job is, but one is recorded to have saved
    there, the error says so."""
    try:
        return open_job(path)
    except NoSuchJobError as error:
        record = Records(state_directory(dict(os.environ))).read(Path(path).absolute())
        if record is None:
            raise
        raise NoSuchJobError(
            f"{error.what}; a job here saved step {record.step} before: is it mounted?",
            remedy="make it visible again (mount, path, backup)",
        ) from error
