"""srun as the command: the ranks are elsewhere, and a signal to srun is not a signal to them."""

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from subprocess import Popen

import psutil

from lastgood.core.signals import SIGTERM, SIGUSR1, SIGUSR2
from lastgood.core.stopping import Manner
from lastgood.launch.agents import NodeAgents
from lastgood.launch.process import Command

_NEXT_MEASURE_S = 2.0
_PASSED_ON = (SIGUSR1, SIGUSR2)


class StepCommand(Command):
    """A step of a Slurm allocation. What srun does with a signal of its own: of SIGTERM it has the ranks killed at once;
    SIGUSR1 and SIGUSR2 it passes on. So the agents on the nodes are asked, and where there are none, srun gets these."""

    def __init__(self, start: "Callable[[], Popen[bytes]]", agents: NodeAgents | None) -> None:
        """Raises what `start` does."""
        super().__init__(start)
        self._agents = agents
        self._kill_began: float | None = None

    def send(self, number: int, only_to: Collection[str] = (), manner: Manner = Manner.STOP) -> int:
        if self.status is not None:
            # What srun has left behind here is like any process.
            return self._tell_agents(number, only_to, manner) + super().send(number, only_to, manner)
        if self._agents is not None and self._agents.are_expected:
            return self._tell_agents(number, only_to, manner)
        if number in _PASSED_ON:
            return self._to_srun(number)
        return 0 if manner is Manner.SAVE else self._to_srun(SIGUSR1)

    def _tell_agents(self, number: int, only_to: Collection[str], manner: Manner) -> int:
        return 0 if self._agents is None else self._agents.signal(number, only_to, manner)

    def kill(self) -> None:
        """Called again and again: first the ranks are killed, then srun is told to give up, then it is killed, too."""
        if self._agents is not None:
            self._agents.kill()
        now = time.monotonic()
        if self._kill_began is None:
            self._kill_began = now
            if self._agents is not None and self._agents.are_there:
                return
        if now - self._kill_began < 2 * _NEXT_MEASURE_S and self.status is None:
            self._to_srun(SIGTERM)
        else:
            super().kill_now()

    def kill_now(self) -> None:
        if self.status is None and self._agents is not None:
            self._agents.kill()
        super().kill_now()

    def _to_srun(self, number: int) -> int:
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            psutil.Process(self.pid).send_signal(number)
            return 1
        return 0
