"""Which job's directory a number of Slurm belongs to, remembered in the user's state directory.

A convenience: where it cannot be kept, `lastgood status` is given the directory instead.
"""

import os
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from lastgood.core.errors import DamagedError
from lastgood.core.sealed import seal, unseal
from lastgood.store import durable
from lastgood.store.jobdir import read_document

KEEP_S = 180 * 86400.0
"""Slurm's accounting is asked about for months."""

_NAME = re.compile(r"slurm-(.*)-(\d+(?:_\d+)?)\.json\Z", re.ASCII)
_NUMBER = re.compile(r"\d+(_\d+)?\Z", re.ASCII)
_UNFIT = re.compile(r"[^\w.-]", re.ASCII)


class SlurmJob(msgspec.Struct, frozen=True):
    cluster: str
    number: str
    """The job's id; "7_2" for a task of an array."""
    path: str
    at: float


def is_slurm_number(text: str) -> bool:
    """True for what Slurm numbers its jobs by: "7", and "7_2" for a task of an array."""
    return _NUMBER.match(text) is not None


def numbers_of(environment: Mapping[str, str], *, is_chained: bool) -> list[str]:
    """The numbers that stand for the job of the Slurm job that we are in, and for no other.

    One task of an array has the number of the whole array.

    >>> task = {"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "2"}
    >>> numbers_of(task, is_chained=False), numbers_of(task, is_chained=True)
    (['9', '7_2'], ['9', '7_2', '7'])
    """
    job, array = environment.get("SLURM_JOB_ID", ""), environment.get("SLURM_ARRAY_JOB_ID", "")
    if not array:
        return [job]
    numbers = [job, f"{array}_{environment.get('SLURM_ARRAY_TASK_ID', '')}"]
    if is_chained:
        numbers.append(array)
    elif job == array:
        del numbers[0]
    return numbers


def note_slurm_job(directory: Path | None, cluster: str, numbers: Iterable[str], job_path: Path) -> OSError | None:
    """Remember that Slurm's jobs of these numbers run the job in `job_path`; the error, if that was not possible.

    `directory` is `store.record.state_directory(environment)`.
    """
    if directory is None:
        return None
    shown = os.fsencode(job_path.absolute()).decode("utf-8", "surrogateescape")
    try:
        durable.make_directory(directory)
        for number in numbers:
            if is_slurm_number(number) and shown.isprintable():
                durable.write_shared_file(
                    directory / _file(cluster, number), seal(SlurmJob(cluster, number, shown, time.time()))
                )
        _forget_old(directory)
    except OSError as error:
        return error
    return None


def find_slurm_jobs(directory: Path | None, number: str) -> list[SlurmJob]:
    """What is remembered of a number on any cluster, the newest first; with the tasks, for the number of an array.

    A record that cannot be read is passed over.
    """
    found = []
    for name in _names(directory):
        match = _NAME.match(name)
        if directory is not None and match and (match[2] == number or match[2].startswith(f"{number}_")):
            with suppress(OSError, DamagedError):
                if data := read_document(directory / name):
                    found.append(unseal(data, SlurmJob, name))
    return sorted(found, key=lambda job: job.at, reverse=True)


def _file(cluster: str, number: str) -> str:
    return f"slurm-{_UNFIT.sub('_', cluster)}-{number}.json"


def _names(directory: Path | None) -> list[str]:
    if directory is None:
        return []
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _forget_old(directory: Path) -> None:
    for name in _names(directory):
        path = directory / name
        with suppress(OSError):
            if _NAME.match(name) and path.stat().st_mtime < time.time() - KEEP_S:
                durable.delete_file(path)
