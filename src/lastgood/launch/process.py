"""The command as a tree of processes: started in a session of its own, signalled and ended as a whole.

The launcher becomes a child subreaper (prctl), so that whatever the command leaves behind becomes our
child, is found, and is reaped; in a container it can be process 1. The command itself gets SIGTERM from
the kernel if the launcher dies.
"""

import ctypes
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

import psutil

from lastgood.core.errors import CommandNotExecutableError, CommandNotFoundError
from lastgood.core.quoting import shown
from lastgood.core.stopping import Manner, signal_for

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Orphans below us become our children from now on. Kernels without it (before 3.4) change nothing."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def check_command(command: Sequence[str], path: str | None) -> None:
    """Raise CommandNotFoundError or CommandNotExecutableError before anything has been touched."""
    name = command[0]
    if shutil.which(name, path=path):
        return
    if "/" not in name:
        raise CommandNotFoundError(
            f"{shown(name)}: there is no such command in PATH",
            safe="nothing was started",
            remedy="check the spelling, or give its path",
        )
    if not os.path.exists(name):
        raise CommandNotFoundError(f"{shown(name)}: no such file", safe="nothing was started", remedy="check the path")
    if os.path.isdir(name):
        raise CommandNotExecutableError(f"{shown(name)} is a directory", safe="nothing was started")
    raise CommandNotExecutableError(
        f"{shown(name)} is not executable",
        safe="nothing was started",
        remedy=f"chmod +x {shown(name)}, or name its interpreter: python {shown(name)}",
    )


class Command:
    """A running command and everything it has started."""

    def __init__(self, start: "Callable[[], subprocess.Popen[bytes]]") -> None:
        """`start` returns it as `start_process` does; what it raises is passed on."""
        self.status: int | None = None
        """Exit code of the command, or minus the signal that ended it, as subprocess has it."""
        self.orphan_statuses: list[int] = []
        """The same for processes that outlived their parent and ended as our children."""
        self.stranger_statuses: dict[int, int] = {}
        """The same for children that are not the command's, by process id."""
        self._strangers = {process.pid for process in psutil.Process().children()}
        self._process = start()
        self._strangers.discard(self._process.pid)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        # The descriptors are handed on; the file objects must not close them again.
        self.stdout = os.dup(self._process.stdout.fileno())
        self.stderr = os.dup(self._process.stderr.fileno())
        self._process.stdout.close()
        self._process.stderr.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def reap(self) -> None:
        """Collect every child that has ended, orphans too."""
        while True:
            try:
                pid, raw = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            status = os.waitstatus_to_exitcode(raw)
            if pid == self._process.pid:
                self.status = self._process.returncode = status
            elif pid in self._strangers:
                # Another process may get the number.
                self._strangers.remove(pid)
                self.stranger_statuses[pid] = status
            else:
                self.orphan_statuses.append(status)

    def note_stranger(self, pid: int) -> None:
        """A child of ours that was started while the command runs, and is none of its processes."""
        self._strangers.add(pid)

    def is_gone(self) -> bool:
        """True if no process of the command is left, not even a zombie.

        Every living descendant has an unbroken line of living parents that begins with a child of ours,
        because orphans become our children. So having no children is proof.
        """
        self.reap()
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        if not self._strangers or self.processes():
            return False
        # What has died since the first look is a zombie.
        self.reap()
        return True

    def processes(self) -> list[psutil.Process]:
        """All living processes of the command, parents first."""
        # One pass over /proc can miss a process that becomes our child meanwhile.
        found = {process.pid: process for _ in range(2) for process in self._one_pass()}
        return [process for process in found.values() if _is_alive(process)]

    def _one_pass(self) -> list[psutil.Process]:
        found = []
        for child in psutil.Process().children():
            if child.pid not in self._strangers:
                found.append(child)
                with suppress(psutil.NoSuchProcess):
                    found += child.children(recursive=True)
        return found

    def send(self, number: int, only_to: Collection[str] = (), manner: Manner = Manner.STOP) -> int:
        """Pass a signal on to every process of the command, as core.stopping says, or to those of some names alone; how
        many got one."""
        count = 0
        # Parents first: a shell whose child ends would go on to its next command.
        for process in self.processes():
            if only_to and name_of(process) not in only_to:
                continue
            chosen = signal_for(number, manner, is_caught=catches(process.pid, number))
            if chosen is not None:
                with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    process.send_signal(chosen)
                    count += 1
        return count

    def kill(self) -> None:
        """End every process of the command by force. Called again until it is gone."""
        self.kill_now()

    def kill_now(self) -> None:
        """SIGKILL to every process of the command that is here."""
        for process in self.processes():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                process.kill()


def catches(pid: int, number: int) -> bool:
    """True if a process has a handler of its own for a signal."""
    try:
        with open(f"/proc/{pid}/status", "rb") as status:
            for line in status:
                if line.startswith(b"SigCgt:"):
                    return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    except (OSError, ValueError, IndexError):
        return False
    return False


def name_of(process: psutil.Process) -> str:
    """Empty for one that has ended."""
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD))
    except psutil.NoSuchProcess:
        return False


def start_process(
    arguments: Sequence[str], environment: Mapping[str, str], pass_fds: Collection[int]
) -> "subprocess.Popen[bytes]":
    """Start a command as every attempt is started. Raises CommandNotFoundError or CommandNotExecutableError."""
    launcher = os.getpid()

    def before_exec() -> None:
        # Runs between fork and exec; the launcher has a single thread, so that nothing is locked here.
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != launcher:
            os._exit(128 + signal.SIGTERM)

    try:
        return subprocess.Popen(
            list(arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            pass_fds=pass_fds,
            start_new_session=True,
            preexec_fn=before_exec,  # noqa: PLW1509
        )
    except FileNotFoundError as error:
        raise CommandNotFoundError(
            f"{shown(arguments[0])} cannot be started: it, or the interpreter in its first line, does not exist"
        ) from error
    except OSError as error:
        raise CommandNotExecutableError(f"{shown(arguments[0])} cannot be started: {error.strerror}") from error
