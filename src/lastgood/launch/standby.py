"""A standby: a process in which the next start of the command has Python and its imports behind it already.

It is the command itself, started like any attempt, and parked by `parking/sitecustomize.py` right before it would
look at its script. What the attempt has imported by its first step it imports too, and then it waits. It has
standard output and error of its own, which become those of the attempt; what imports have printed is in them.
"""

import marshal
import os
import select
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import psutil

from lastgood.core.errors import LastgoodError
from lastgood.core.imports import Imported, decode
from lastgood.core.layout import Env
from lastgood.core.units import byte_size, duration
from lastgood.launch import sameness
from lastgood.launch.import_order import import_order
from lastgood.launch.known_commands import is_torchrun
from lastgood.launch.process import Command, start_process
from lastgood.launch.python_command import PythonCommand, is_named_python, parse_python_command
from lastgood.store.attempts import Journal

_PARKING = Path(__file__).parent / "parking"
_IMPORT_LIMIT_S = 600.0
_GO_LIMIT_S = 5.0
_END_LIMIT_S = 5.0

_TO_SECOND_LIFE = """\
import os, sys
given = dict(e.split(b"=", 1) for e in open("/proc/self/environ", "rb").read().split(b"\\0") if b"=" in e)
given[b"LASTGOOD_PARK"] = os.environb[b"LASTGOOD_PARK"]
if given[b"LASTGOOD_PARK"].startswith(b"second:"):
    os.execvpe(sys.argv[1], sys.argv[1:], given)
"""
"""Runs where the script would, in a process that has come by the parking place, and makes it the command."""


class Parked(msgspec.Struct):
    """A process that is on its way to its parking place, or there."""

    process: "subprocess.Popen[bytes]"
    control: socket.socket
    plan_fd: int
    pidfd: int
    began: float
    modules: int
    found: sameness.Found
    look: Callable[[], sameness.Found]
    """Again."""
    environment: dict[str, str]
    native: sameness.Found | None = None
    """What it has mapped, once it waits."""

    @property
    def is_ready(self) -> bool:
        return self.native is not None

    def end(self) -> None:
        """Kill it with all that belongs to it, and let go of it."""
        with suppress(psutil.Error):
            for child in psutil.Process(self.process.pid).children(recursive=True):
                child.kill()
        # Not by its number: it may have ended, and the number may be another's by now.
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_LIMIT_S)
        self.let_go()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def let_go(self) -> None:
        self.control.close()
        os.close(self.plan_fd)
        os.close(self.pidfd)


class Standby:
    """Keeps one standby for a command while an attempt of it runs, and hands it out for the next."""

    def __init__(self, command: PythonCommand, say: Callable[[str], None]) -> None:
        self._command = command
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
            imported = _report_of(command.pid, directory)
            if imported is not None:
                self._tried_for = command.pid
                self._parked = self._begin(imported, environment, lock_fd, command)

    def take(self, arguments: Sequence[str], environment: Mapping[str, str]) -> "subprocess.Popen[bytes] | None":
        """The standby, as the running command; None if it has to be started cold, which is said and why."""
        parked, self._parked = self._parked, None
        if parked is None:
            if self._why_none:
                self._say(f"this start is a cold one: {self._why_none}")
            return None
        given = self._command.environment(environment)
        problem = self._problem(parked, arguments, given)
        if not problem and not _go(parked, given):
            problem = f"the standby does not go on: {self._how_it_ended(parked)}"
        if problem:
            parked.end()
            self._say(f"this start is a cold one: {problem}")
            return None
        parked.let_go()
        self._say(f"the standby takes over: Python and {parked.modules} modules are there already")
        return parked.process

    def close(self) -> None:
        if self._parked is not None:
            self._parked.end()
            self._parked = None

    def _begin(
        self, imported: Imported, environment: Mapping[str, str], lock_fd: int, command: Command
    ) -> Parked | None:
        try:
            parked = _start(self._command, imported, self._command.environment(environment), lock_fd)
        except (OSError, LastgoodError) as error:
            self._why_none = f"no standby can be started: {error}"
            return None
        command.note_stranger(parked.process.pid)
        return parked

    def _attend(self, parked: Parked, journal: Journal) -> None:
        message = _receive(parked.control)
        if message is None:
            if not parked.is_ready and time.monotonic() - parked.began > _IMPORT_LIMIT_S:
                self._give_up(parked, f"its imports are not done after {duration(_IMPORT_LIMIT_S)}", journal)
        elif message == b"ready":
            self._note_ready(parked, journal)
        elif message.startswith(b"no: "):
            self._give_up(parked, os.fsdecode(message[4:]), journal)
        else:
            self._give_up(parked, self._how_it_ended(parked), journal)

    def _note_ready(self, parked: Parked, journal: Journal) -> None:
        with suppress(psutil.Error):
            process = psutil.Process(parked.process.pid)
            if process.children():
                self._give_up(parked, "an imported module has started a process", journal)
                return
            memory = process.memory_full_info()
            parked.native = sameness.look(sameness.mapped_files(process.pid), (), ())
            took_s = time.monotonic() - parked.began
            journal.write(
                "standby",
                is_ready=True,
                modules=parked.modules,
                uss_bytes=memory.uss,
                pss_bytes=memory.pss,
                took_s=round(took_s, 3),
            )
            self._say(
                f"standby ready after {duration(took_s)}: {parked.modules} modules imported, "
                f"{byte_size(memory.uss)} of memory of its own ({byte_size(memory.pss)} with its share of what is shared)"
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
        """Called when its end of the connection is closed."""
        status: int | None = None
        with suppress(subprocess.TimeoutExpired):
            status = parked.process.wait(_END_LIMIT_S)
        status = self._statuses.get(parked.process.pid, status)
        if status == 0:
            return "this interpreter, with its options, does not come by the place where a standby waits"
        if status is not None and status < 0:
            self._unasked.add(parked.process.pid)
            return f"it was ended by {signal.Signals(-status).name}"
        return f"it has ended with exit code {status}"

    def _problem(self, parked: Parked, arguments: Sequence[str], environment: Mapping[str, str]) -> str:
        """Why it could differ from a cold start."""
        if not parked.is_ready:
            return "the standby is not ready yet"
        if list(arguments) != self._command.given:
            return "the command has other arguments now"
        if _not_ours(environment) != _not_ours(parked.environment):
            return "the command has another environment now"
        if _receive(parked.control) is not None:
            return f"the standby is gone: {self._how_it_ended(parked)}"
        assert parked.native is not None
        native = sameness.look(parked.native.files, (), ())
        return sameness.difference(parked.found, parked.look()) or sameness.difference(parked.native, native)


def standby_for(command: Sequence[str], path: str | None, say: Callable[[str], None]) -> Standby | str:
    """For a command that `path` finds; a text that says why there cannot be one."""
    if is_torchrun(command):
        return "torchrun starts its ranks itself"

    def is_python(word: str) -> bool:
        return is_named_python(word) or is_named_python(os.path.realpath(shutil.which(word, path=path) or word))

    python = parse_python_command(command, is_python)
    if python is None:
        return "the command is neither `python SCRIPT` nor `python -m MODULE`"
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        return f"this kernel cannot watch a single process (pidfd_open: {error.strerror})"
    return Standby(python, say)


def _report_of(pid: int, directory: Path) -> Imported | None:
    for path in directory.glob("rank-*.imports"):
        with suppress(OSError):
            imported = decode(path.read_bytes())
            if imported is not None and imported.pid == pid:
                return imported
    return None


def _start(command: PythonCommand, imported: Imported, given: Mapping[str, str], lock_fd: int) -> Parked:
    def is_own(file: str) -> bool:
        folders = file.split("/")
        if any(name in folders for name in sameness.INSTALLED_IN):
            return False
        return not file.startswith((imported.standard_library + "/", os.fspath(_PARKING.parent.parent) + "/"))

    order = import_order(imported, is_own, lambda file: Path(os.fsdecode(file.encode("latin-1"))).read_bytes())
    names = [*order.first, *order.later]
    files = dict(imported.modules)
    plan = {
        "environment": _as_bytes(given),
        "main_file": _path(imported.main_file),
        "first": [(name, _path(files[name])) for name in order.first],
        "later": [(name, _path(files[name])) for name in order.later],
        "changed": {
            _latin(name): None if value is None else _latin(value)
            for name, value in imported.changed.items()
            if not _is_known(name, value, given)
        },
    }
    watched = [_path(file) for file in (*files.values(), imported.main_file) if file]
    path = [_path(entry) for entry in imported.path]

    def look() -> sameness.Found:
        return sameness.look(watched, path, names)

    # Before anything is imported: what changes meanwhile counts as changed.
    found = look()
    plan_fd = os.memfd_create("lastgood-standby", os.MFD_CLOEXEC)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        _write_all(plan_fd, plan)
        inherited = {
            **given,
            "PYTHONPATH": os.pathsep.join(filter(None, (os.fspath(_PARKING), given.get("PYTHONPATH")))),
            Env.PARK: f"first:{theirs.fileno()}:{plan_fd}",
        }
        first = [command.interpreter, *command.options, "-c", _TO_SECOND_LIFE, *command.words]
        process = start_process(first, inherited, (lock_fd, theirs.fileno(), plan_fd))
        pidfd = os.pidfd_open(process.pid)
    except BaseException:
        ours.close()
        os.close(plan_fd)
        raise
    finally:
        theirs.close()
    return Parked(process, ours, plan_fd, pidfd, time.monotonic(), len(names), found, look, dict(given))


def _go(parked: Parked, environment: Mapping[str, str]) -> bool:
    """Let it become the command. If that does not work, it must not live on."""
    try:
        os.ftruncate(parked.plan_fd, 0)
        _write_all(parked.plan_fd, _as_bytes(environment))
        parked.control.send(b"go")
    except OSError:
        return False
    poll = select.poll()
    poll.register(parked.control, select.POLLIN)
    return bool(poll.poll(_GO_LIMIT_S * 1000)) and _receive(parked.control) == b"going"


def _receive(control: socket.socket) -> bytes | None:
    """A message; None if there is none; empty if the other end is gone."""
    try:
        return control.recv(4096, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _is_known(name: str, value: str | None, given: Mapping[str, str]) -> bool:
    """The program has not changed this variable itself: it was given so, or is what the launcher tells it."""
    if _latin(name).startswith(b"LASTGOOD_"):
        return True
    before = given.get(os.fsdecode(_latin(name)))
    return value is not None and before is not None and os.fsencode(before) == _latin(value)


def _not_ours(environment: Mapping[str, str]) -> dict[str, str]:
    """What no attempt is told anew."""
    return {name: value for name, value in environment.items() if not name.startswith("LASTGOOD_")}


def _as_bytes(environment: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(os.fsencode(name), os.fsencode(value)) for name, value in environment.items()]


def _write_all(fd: int, value: Any) -> None:
    data = marshal.dumps(value, 2)
    at = 0
    while at < len(data):
        at += os.pwrite(fd, data[at:], at)


def _latin(text: str) -> bytes:
    return text.encode("latin-1")


def _path(text: str) -> str:
    return os.fsdecode(_latin(text))
