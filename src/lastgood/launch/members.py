"""The processes of an attempt on a node, found by what they were given to know, whoever started them there."""

import os
from collections.abc import Collection
from contextlib import suppress

import psutil

from lastgood.core.layout import Env
from lastgood.core.stopping import Manner, signal_for
from lastgood.keeper.node import this_node
from lastgood.launch.process import catches, name_of

_SLURMS_OWN = ("srun", "slurmstepd")
"""A signal to these would end the ranks without asking them."""


def own_step() -> str:
    return os.environ.get("SLURM_STEP_ID", "")


class Members:
    """Processes that a launcher's attempt has on this node, in steps other than our own."""

    def __init__(self, launch: str, attempt: int) -> None:
        self._launch = launch
        self._attempt = str(attempt)
        self._node = this_node()
        self._step = own_step()
        self._known: dict[int, tuple[float, bool]] = {}

    def has(self, pid: int) -> bool:
        """Whether a process is one of them."""
        try:
            process = psutil.Process(pid)
            birth = process.create_time()
            if pid not in self._known or self._known[pid][0] != birth:
                self._known[pid] = (birth, self._is_one(process))
        except psutil.Error:
            return False
        return self._known[pid][1]

    def find(self) -> list[psutil.Process]:
        """Those that live, parents first. What has emptied its environment is known by its parents."""
        found: dict[int, psutil.Process] = {}
        others: dict[int, list[psutil.Process]] = {}
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.pid == os.getpid() or process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                    continue
                if self._is_one(process):
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

    def send(self, number: int, only_to: Collection[str] = (), manner: Manner = Manner.STOP) -> int:
        """Pass a signal on, as core.stopping says, to all or to those of some names; how many got one."""
        count = 0
        for process in self.find():
            if only_to and name_of(process) not in only_to:
                continue
            chosen = signal_for(number, manner, is_caught=catches(process.pid, number))
            if chosen is not None:
                with suppress(psutil.Error):
                    process.send_signal(chosen)
                    count += 1
        return count

    def _is_one(self, process: psutil.Process) -> bool:
        environment = process.environ()
        return (
            environment.get(Env.LAUNCH) == self._launch
            and environment.get(Env.ATTEMPT) == self._attempt
            and this_node(environment) == self._node
            and environment.get("SLURM_STEP_ID", "") not in ("", self._step)
            and process.name() not in _SLURMS_OWN
        )


def _birth(process: psutil.Process) -> float:
    with suppress(psutil.Error):
        return float(process.create_time())
    return 0.0
