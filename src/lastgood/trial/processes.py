"""The processes of a trial, however far they have gone from whoever started them."""

import os
import time
from collections.abc import Mapping
from contextlib import suppress

import psutil

from lastgood.core.layout import Env
from lastgood.core.signals import SIGKILL

_END_LIMIT_S = 30.0
_RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


def processes_of(token: str) -> list[psutil.Process]:
    """All that live and were given the token of a trial to know, with their children, parents first."""
    found: dict[int, psutil.Process] = {}
    others: dict[int, list[psutil.Process]] = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                continue
            if environment_of(process).get(Env.TRIAL) == token:
                found[process.pid] = process
            else:
                others.setdefault(process.ppid(), []).append(process)
    parents = list(found)
    while parents:
        for child in others.get(parents.pop(), []):
            if child.pid not in found:
                found[child.pid] = child
                parents.append(child.pid)
    return sorted(found.values(), key=_birth)


def end_all(token: str, limit_s: float = _END_LIMIT_S) -> list[int]:
    """Kill every process of a trial, also those that start meanwhile; the ids of those that would not die."""
    end = time.monotonic() + limit_s
    while left := processes_of(token):
        if time.monotonic() > end:
            return [process.pid for process in left]
        for process in left:
            with suppress(psutil.Error):
                process.send_signal(SIGKILL)
        _await_dead(left)
    return []


def _await_dead(waiting: list[psutil.Process]) -> None:
    """A moment for them to die. Nobody is reaped here: whoever started them is to see how they ended."""
    end = time.monotonic() + 1.0
    while time.monotonic() < end and any(is_alive(process.pid) for process in waiting):
        time.sleep(0.005)


def environment_of(process: psutil.Process) -> Mapping[str, str]:
    """What a process was given to know; nothing if that cannot be seen."""
    try:
        return process.environ()
    except (psutil.Error, OSError):
        return {}


def words_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.Error, OSError):
        return []


def is_launcher(process: psutil.Process) -> bool:
    return words_of(process)[1:4] == ["-m", "lastgood", "run"]


def is_of_ours(process: psutil.Process) -> bool:
    """The launcher, a keeper, an agent, a standby: no process of the command."""
    words = words_of(process)
    is_module = any(word == "-m" and words[i + 1].partition(".")[0] == "lastgood" for i, word in enumerate(words[:-1]))
    return is_module or is_keeper(process) or Env.PARK in environment_of(process)


def is_keeper(process: psutil.Process) -> bool:
    return any(word.endswith("lastgood/keeper/__main__.py") for word in words_of(process))


def rank_of(process: psutil.Process) -> int | None:
    """The rank that whoever started the process gave it; None if it was given none."""
    environment = environment_of(process)
    for name in _RANK_VARIABLES:
        if environment.get(name, "").isdigit():
            return int(environment[name])
    return None


def leaves(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those without children among them: what computes, rather than starts others."""
    parents = set()
    for process in processes:
        with suppress(psutil.Error):
            parents.add(process.ppid())
    return [process for process in processes if process.pid not in parents]


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.Error:
        return False


def own_token() -> str:
    return os.urandom(8).hex()


def _birth(process: psutil.Process) -> float:
    with suppress(psutil.Error):
        return float(process.create_time())
    return 0.0
