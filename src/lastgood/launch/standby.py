"""A standby: a process in which the next start of the command has Python and its imports behind it already.

It is the command itself, started like any attempt, and parked by `parking/sitecustomize.py` right before it would
look at its script. What the attempt has imported by its first step it imports too, and then it waits. It has
standard output and error of its own, which become those of the attempt; what imports have printed is in them.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from lastgood.core.errors import LastgoodError
from lastgood.core.heartbeat import heartbeat_file
from lastgood.core.imports import Imported, decode, imports_file
from lastgood.core.units import byte_size, duration
from lastgood.launch.known_commands import is_torchrun
from lastgood.launch.parked import Parked, park, park_ranks
from lastgood.launch.process import Command
from lastgood.launch.python_command import PythonCommand, is_named_python, parse_python_command
from lastgood.launch.standby_plan import make_plan
from lastgood.launch.torchrun_command import TorchrunCommand, parse_torchrun
from lastgood.store.attempts import Journal

_IMPORT_LIMIT_S = 600.0
_END_LIMIT_S = 5.0


class Standby:
    """Keeps one standby for a command while an attempt of it runs, and hands it out for the next."""

    def __init__(
        self, command: Sequence[str], runs: PythonCommand | TorchrunCommand, say: Callable[[str], None]
    ) -> None:
        self._command = list(command)
        self._runs = runs
        self._say = say
        self._parked: Parked | None = None
        self._tried_for: int | None = None
        """Process of the attempt for which one was started."""
        self._why_none = ""
        self._statuses: Mapping[int, int] = {}
        """How children of ours have ended that were not the attempt's."""
        self._unasked: set[int] = set()
        self.is_wanted = True
        """False: no start would follow that could use one."""

    def look(
        self, command: Command, directory: Path, environment: Mapping[str, str], lock_fd: int, journal: Journal
    ) -> None:
        """Called now and then while `command` is the attempt: start a standby when it is time, and see to it."""
        self._statuses = command.stranger_statuses
        if self._parked is not None:
            self._attend(self._parked, journal)
        elif self.is_wanted and self._tried_for != command.pid:
            self._why_none = "the attempt before it had not done a step yet"
            reports = self._reports(command, directory)
            if reports:
                self._tried_for = command.pid
                self._parked = self._begin(reports, environment, lock_fd, command)

    def take(self, arguments: Sequence[str], environment: Mapping[str, str]) -> "subprocess.Popen[bytes] | None":
        """The standby, as the running command; None if it has to be started cold, which is said and why."""
        parked, self._parked = self._parked, None
        if parked is None:
            if self._why_none:
                self._say(f"this start is a cold one: {self._why_none}")
            return None
        given = {**environment, **self._runs.assigned}
        problem = self._problem(parked, arguments, given)
        if not problem and not parked.go(given):
            problem = f"the standby does not go on: {self._how_it_ended(parked)}"
        if problem:
            parked.end()
            self._say(f"this start is a cold one: {problem}")
            return None
        parked.let_go()
        self._say(f"the standby takes over: Python and {parked.plan.modules} modules are there already")
        return parked.process

    def close(self) -> None:
        if self._parked is not None:
            self._parked.end()
            self._parked = None

    def _reports(self, command: Command, directory: Path) -> list[Imported]:
        """What each rank has imported; empty if one that is there has not said it yet, or cannot be parked."""
        found: list[Imported] = []
        while (directory / heartbeat_file(len(found))).exists():
            imported = None
            with suppress(OSError):
                imported = decode((directory / imports_file(len(found))).read_bytes())
            if imported is None:
                return []
            found.append(imported)
        if isinstance(self._runs, TorchrunCommand):
            return found
        return found if [imported.pid for imported in found] == [command.pid] else []

    def _begin(
        self, reports: list[Imported], environment: Mapping[str, str], lock_fd: int, command: Command
    ) -> Parked | None:
        given = {**environment, **self._runs.assigned}
        try:
            if isinstance(self._runs, TorchrunCommand):
                plans = [make_plan(imported, given) for imported in reports]
                parked = park_ranks(self._runs.first_life, self._runs.words, plans, given, lock_fd)
            else:
                first_life = [self._runs.interpreter, *self._runs.options]
                parked = park(first_life, self._runs.words, make_plan(reports[0], given), given, lock_fd)
        except (OSError, LastgoodError) as error:
            self._why_none = f"no standby can be started: {error}"
            return None
        command.note_stranger(parked.process.pid)
        return parked

    def _attend(self, parked: Parked, journal: Journal) -> None:
        said = parked.hear()
        if said == "ready":
            self._note_ready(parked, journal)
        elif said:
            self._give_up(parked, said, journal)
        elif parked.is_gone():
            self._give_up(parked, self._how_it_ended(parked), journal)
        elif not parked.is_ready and time.monotonic() - parked.began > _IMPORT_LIMIT_S:
            self._give_up(parked, f"its imports are not done after {duration(_IMPORT_LIMIT_S)}", journal)

    def _note_ready(self, parked: Parked, journal: Journal) -> None:
        own = shared = 0
        for process in parked.members():
            with suppress(psutil.Error):
                memory = process.memory_full_info()
                own, shared = own + memory.uss, shared + memory.pss
        took_s, modules = time.monotonic() - parked.began, parked.plan.modules
        journal.write(
            "standby", is_ready=True, modules=modules, uss_bytes=own, pss_bytes=shared, took_s=round(took_s, 3)
        )
        self._say(
            f"standby ready after {duration(took_s)}: {modules} modules imported, {byte_size(own)} of memory of its own "
            f"({byte_size(shared)} with its share of what is shared)"
        )

    def _give_up(self, parked: Parked, why: str, journal: Journal) -> None:
        parked.end()
        self._parked = None
        if why != self._why_none:
            self._say(f"no standby: {why}")
        self._why_none = why
        journal.write("standby", is_ready=False, reason=why)

    def take_kills(self, statuses: Mapping[int, int]) -> int:
        """How many standbys something has killed, such as a lack of memory, since the last call."""
        self._statuses = statuses
        killed = {pid for pid in self._unasked if statuses.get(pid) == -signal.SIGKILL}
        self._unasked.clear()
        return len(killed)

    def _how_it_ended(self, parked: Parked) -> str:
        status: int | None = None
        with suppress(subprocess.TimeoutExpired):
            status = parked.process.wait(_END_LIMIT_S if parked.is_gone() else 0)
        status = self._statuses.get(parked.process.pid, status)
        if status is None:
            return "it does not answer"
        if status == 0:
            return "this interpreter, with its options, does not come by the place where a standby waits"
        if status < 0:
            self._unasked.add(parked.process.pid)
            return f"it was ended by {signal.Signals(-status).name}"
        return f"it has ended with exit code {status}"

    def _problem(self, parked: Parked, arguments: Sequence[str], environment: Mapping[str, str]) -> str:
        """Why it could differ from a cold start."""
        if not parked.is_ready:
            return "the standby is not ready yet"
        if list(arguments) != self._command:
            return "the command has other arguments now"
        if _not_ours(environment) != _not_ours(parked.environment):
            return "the command has another environment now"
        if parked.is_gone():
            return f"the standby is gone: {self._how_it_ended(parked)}"
        return parked.hear() or parked.difference()


def standby_for(command: Sequence[str], environment: Mapping[str, str], say: Callable[[str], None]) -> Standby | str:
    """For a command that is started with these variables; a text that says why there cannot be one."""

    def is_python(word: str) -> bool:
        found = shutil.which(word, path=environment.get("PATH")) or word
        return is_named_python(word) or is_named_python(os.path.realpath(found))

    runs: PythonCommand | TorchrunCommand | str | None
    runs = parse_torchrun(command, environment) if is_torchrun(command) else parse_python_command(command, is_python)
    if runs is None:
        return "the command is neither `python SCRIPT` nor `python -m MODULE`"
    if isinstance(runs, str):
        return runs
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        return f"this kernel cannot watch a single process (pidfd_open: {error.strerror})"
    return Standby(command, runs, say)


def _not_ours(environment: Mapping[str, str]) -> dict[str, str]:
    """What no attempt is told anew."""
    return {name: value for name, value in environment.items() if not name.startswith("LASTGOOD_")}
