"""Opening the job that a command names."""

import os
from pathlib import Path

from lastgood.core import layout
from lastgood.core.errors import NoSuchJobError, SchedulerError, UsageError
from lastgood.store.jobdir import JobDirectory, open_job
from lastgood.store.record import Records, state_directory
from lastgood.store.slurm_index import find_slurm_jobs, is_slurm_number


def open_named(path: str) -> JobDirectory:
    """The job in a directory, or the one that a Slurm job of this number runs. Raises what `open_job` does; where
    no job is, but one is recorded to have saved there, the error says so."""
    if number := slurm_number(path):
        return open_job(_directory_of(number))
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


def slurm_number(path: str) -> str:
    """The number of a Slurm job, if that is what is named; empty if not. A directory of that name goes first."""
    return path if is_slurm_number(path) and not os.path.lexists(path) else ""


def _directory_of(number: str) -> str:
    """From what is remembered of submissions and starts; else from Slurm."""
    remembered = find_slurm_jobs(state_directory(dict(os.environ)), number)
    if len({job.cluster for job in remembered}) > 1:
        remembered = [job for job in remembered if job.cluster == _cluster()] or remembered
    exact = [job for job in remembered if job.number == number]
    if exact:
        return exact[0].path
    tasks = {job.number: job.path for job in remembered}
    if len(set(tasks.values())) > 1:
        raise UsageError(
            f"Slurm job {number} is an array: each task runs a job of its own",
            remedy=f"name one of {', '.join(sorted(tasks, key=_by_task))}",
        )
    return next(iter(tasks.values()), None) or _directory_by_slurm(number)


def _by_task(number: str) -> int:
    return int(number.partition("_")[2] or 0)


def _cluster() -> str:
    from lastgood.schedulers.slurm_commands import SlurmCommands

    try:
        return SlurmCommands(os.environ).config().get("ClusterName", "")
    except SchedulerError:
        return ""


def _directory_by_slurm(number: str) -> str:
    from lastgood.schedulers.slurm_commands import SlurmCommands

    remedy = "give the job's directory"
    try:
        command = SlurmCommands(os.environ).show_job(number).get("Command", "")
    except NoSuchJobError as error:
        raise NoSuchJobError(f"neither we nor Slurm know a job {number} ({error.what})", remedy=remedy) from error
    except SchedulerError as error:
        raise SchedulerError(
            f"nothing is remembered here of Slurm job {number}, and Slurm cannot be asked: {error.what}",
            safe=error.safe,
            remedy=remedy,
        ) from error
    if os.path.basename(command) != layout.BATCH_FILE:
        raise NoSuchJobError(
            f"Slurm job {number} has not run `lastgood run` for this user, as far as is known here", remedy=remedy
        )
    return os.path.dirname(command)
