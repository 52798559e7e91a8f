"""A command that is started, and whose interpreters wait at their parking place until they are told to go on."""

import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil

from lastgood.core.layout import Env
from lastgood.launch import sameness
from lastgood.launch.heartbeats import heartbeat_directory
from lastgood.launch.process import start_process
from lastgood.launch.standby_plan import Plan, encode_environment

_PARKING = Path(__file__).parent / "parking"
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


class Link:
    """The connection to one interpreter: where it reads its plan, hears, and answers."""

    def __init__(self, plan_fd: int, hear_fd: int, say_fd: int) -> None:
        self._plan_fd = plan_fd
        self._hear_fd = hear_fd
        self._say_fd = say_fd
        os.set_blocking(hear_fd, False)

    def give(self, data: bytes) -> None:
        os.ftruncate(self._plan_fd, 0)
        at = 0
        while at < len(data):
            at += os.pwrite(self._plan_fd, data[at:], at)

    def go(self) -> None:
        os.write(self._say_fd, b"go\n")

    def hear(self) -> bytes:
        """What it has said; empty if nothing new, also if it is gone."""
        with suppress(BlockingIOError, ConnectionError):
            return os.read(self._hear_fd, 4096).strip()
        return b""

    def is_heard(self, word: bytes, limit_s: float) -> bool:
        return _is_readable(self._hear_fd, limit_s) and self.hear() == word

    def close(self) -> None:
        for fd in {self._plan_fd, self._hear_fd, self._say_fd}:
            os.close(fd)


class Parked:
    """The command on its way to where it waits, or there. It has to be ended or let go of."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        links: Sequence[Link],
        plan: Plan,
        environment: Mapping[str, str],
        resources: ExitStack,
        *,
        size: int,
    ) -> None:
        self.process = process
        self.plan = plan
        self.environment = dict(environment)
        self.began = time.monotonic()
        self.is_ready = False
        self._links = links
        self._size = size
        self._waiting: set[int] = set()
        self._below: set[psutil.Process] = set()
        """What it has started, which would not end with it."""
        self._native: sameness.Found | None = None
        """What it has mapped, once it waits."""
        self._resources = resources
        self._pidfd = os.pidfd_open(process.pid)
        resources.callback(os.close, self._pidfd)

    def hear(self) -> str:
        """ "ready" once, when all its interpreters wait; why it cannot be used; empty if there is nothing new."""
        for number, link in enumerate(self._links):
            said = link.hear()
            if said == b"ready":
                self._waiting.add(number)
                self._below |= set(self.members()[1:])
            elif said:
                return os.fsdecode(said.removeprefix(b"no: "))
        if self.is_ready or len(self._waiting) < len(self._links):
            return ""
        members = self.members()
        if len(members) > self._size:
            return "an imported module has started a process"
        files = {file for process in members for file in sameness.mapped_files(process.pid)}
        self._native = sameness.look(sorted(files), (), ())
        self.is_ready = True
        return "ready"

    def is_gone(self) -> bool:
        return _is_readable(self._pidfd, 0.0)

    def members(self) -> list[psutil.Process]:
        """All its processes."""
        with suppress(psutil.Error):
            process = psutil.Process(self.process.pid)
            return [] if self.is_gone() else [process, *process.children(recursive=True)]
        return []

    def difference(self) -> str:
        """The first thing that a start would find otherwise now; empty if nothing is."""
        assert self._native is not None
        for process in self._below:
            with suppress(psutil.Error):
                if problem := _meeting_problem(process.environ()):
                    return problem
        native = sameness.look(self._native.files, (), ())
        return sameness.difference(self.plan.found, self.plan.look()) or sameness.difference(self._native, native)

    def go(self, environment: Mapping[str, str]) -> bool:
        """Let it become the command. If that does not work, it must not live on."""
        data = encode_environment(environment)
        end = time.monotonic() + _GO_LIMIT_S
        try:
            for link in self._links:
                link.give(data)
            for link in self._links:
                link.go()
        except OSError:
            return False
        return all(link.is_heard(b"going", end - time.monotonic()) for link in self._links)

    def end(self) -> None:
        """Kill it with all that belongs to it, and let go of it."""
        for process in self._below.union(self.members()[1:]):
            with suppress(psutil.Error):
                process.kill()
        # Not by its number: it may have ended, and the number may be another's by now.
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_LIMIT_S)
        self.let_go()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def let_go(self) -> None:
        self._resources.close()


def park(
    first_life: Sequence[str], words: Sequence[str], plan: Plan, environment: Mapping[str, str], lock_fd: int
) -> Parked:
    """Start a command that is one interpreter. `first_life`: the interpreter and its options; `words`: the command.

    Raises OSError or LastgoodError.
    """
    with ExitStack() as resources:
        plan_fd = os.memfd_create("lastgood-standby", os.MFD_CLOEXEC)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        link = Link(plan_fd, ours.fileno(), ours.detach())
        resources.callback(link.close)
        link.give(plan.data)
        with theirs:
            place = f"{theirs.fileno()}:{plan_fd}"
            process = _start(first_life, words, environment, place, (lock_fd, theirs.fileno(), plan_fd))
        return _parked(process, [link], plan, environment, resources, size=1)


def park_ranks(
    first_life: Sequence[str],
    words: Sequence[str],
    plans: Sequence[Plan],
    environment: Mapping[str, str],
    lock_fd: int,
) -> Parked:
    """Start a command, torchrun for one, that starts an interpreter for each rank itself; these are parked.

    What they need to find each other is found in that moment, and is theirs alone.
    """
    with ExitStack() as resources:
        directory = resources.enter_context(heartbeat_directory())
        links = []
        for rank, plan in enumerate(plans):
            link = _link_by_name(directory, rank)
            resources.callback(link.close)
            link.give(plan.data)
            links.append(link)
        process = _start(first_life, words, environment, os.fspath(directory), (lock_fd,))
        return _parked(process, links, plans[0], environment, resources, size=1 + len(plans))


def _parked(
    process: "subprocess.Popen[bytes]",
    links: Sequence[Link],
    plan: Plan,
    environment: Mapping[str, str],
    resources: ExitStack,
    *,
    size: int,
) -> Parked:
    try:
        return Parked(process, links, plan, environment, resources.pop_all(), size=size)
    except OSError:
        process.kill()
        process.wait(_END_LIMIT_S)
        raise


def _link_by_name(directory: Path, rank: int) -> Link:
    """Files that an interpreter finds which inherits nothing from us but its environment."""
    base = directory / f"rank-{rank:05d}"
    plan_fd = os.open(f"{base}.plan", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fds = [plan_fd]
    # Both ends are held here, so that nobody waits for the other to open his; ours close when we die.
    for what in ("said", "go"):
        os.mkfifo(f"{base}.{what}", 0o600)
        fds.append(os.open(f"{base}.{what}", os.O_RDWR | os.O_CLOEXEC))
    return Link(*fds)


def _start(
    first_life: Sequence[str],
    words: Sequence[str],
    environment: Mapping[str, str],
    place: str,
    pass_fds: Sequence[int],
) -> "subprocess.Popen[bytes]":
    path = os.pathsep.join(filter(None, (os.fspath(_PARKING), environment.get("PYTHONPATH"))))
    led_there = {**environment, "PYTHONPATH": path, Env.PARK: f"first:{place}"}
    return start_process([*first_life, "-c", _TO_SECOND_LIFE, *words], led_there, pass_fds)


def _meeting_problem(environment: Mapping[str, str]) -> str:
    """Ranks of torchrun meet at a port that was free when it was started."""
    port = environment.get("MASTER_PORT", "")
    if environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True" or not port.isdigit():
        return ""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", int(port)))
        except OSError:
            return f"port {port}, where its ranks would meet, is used by another process now"
    return ""


def _is_readable(fd: int, limit_s: float) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(max(limit_s, 0.0) * 1000))
