"""Keepers as processes of their own, ended with the test."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator

import pytest

from keeper.ranks import LIMIT_S, Rank, until
from lastgood.keeper.starting import start_keeper
from lastgood.store.jobdir import JobDirectory

StartKeeper = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(job: JobDirectory) -> Iterator[StartKeeper]:
    """`start(linger_s=...)`: the keeper of the job, a child of this process."""
    started: list[subprocess.Popen[bytes]] = []

    def make(linger_s: float = 0.0, environment: dict[str, str] | None = None) -> "subprocess.Popen[bytes]":
        process = start_keeper(job, linger_s, environment or dict(os.environ), is_detached=False)
        assert process is not None, "there is one already"
        started.append(process)
        return process

    yield make
    for process in started:
        process.kill()
        process.wait(LIMIT_S)


@pytest.fixture
def keeper(start: StartKeeper) -> "subprocess.Popen[bytes]":
    return start()


@pytest.fixture
def new_rank(job: JobDirectory) -> Iterator[Callable[..., Rank]]:
    made: list[Rank] = []

    def make(rank: int = 0, **settings: int) -> Rank:
        made.append(Rank(job, rank, **settings))
        return made[-1]

    yield make
    for one in made:
        one.die()


def descriptors_of(pid: int) -> list[str]:
    """What a process has open, by what each descriptor leads to, without the numbers of sockets and pipes."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(re.sub(r"\[\d+\]", "", os.readlink(f"/proc/{pid}/fd/{name}")))
        except OSError:
            continue
    return sorted(found)


def at_rest(pid: int) -> list[str]:
    """What a keeper has open when it has no file open any more."""
    found: list[str] = []

    def has_no_file() -> bool:
        found[:] = descriptors_of(pid)
        return not [name for name in found if name[0] == "/" and not name.startswith(("/dev/", "/memfd:"))]

    until(has_no_file)
    return found
