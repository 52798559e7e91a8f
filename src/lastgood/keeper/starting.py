"""Starting a keeper: a process of its own, in a session of its own, that survives who started it."""

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from lastgood.core.errors import UsageError
from lastgood.core.layout import Env
from lastgood.core.units import parse_duration
from lastgood.keeper import protocol
from lastgood.keeper.node import this_node
from lastgood.store.jobdir import JobDirectory

DEFAULT_LINGER_S = 60.0

_START_LIMIT_S = 30.0

_QUEUE = 4096
"""All ranks of a node may connect while the process is starting."""

NOT_FOR_US = {
    getattr(signal, f"SIG{name}")
    for name in ("HUP", "INT", "QUIT", "USR1", "USR2", "ALRM", "VTALRM", "XCPU", "TSTP", "TTIN", "TTOU")
}
"""Signals that ask a job for something, or come with a terminal: a keeper ignores them."""


def may_use_keeper(environment: Mapping[str, str]) -> bool:
    """Raises UsageError for a value that is neither on nor off."""
    text = environment.get(Env.KEEPER, "")
    if text not in ("", "on", "off"):
        raise UsageError(f"the environment variable {Env.KEEPER} is {text!r}: on or off", remedy=f"unset {Env.KEEPER}")
    return text != "off"


def linger_s(environment: Mapping[str, str]) -> float:
    """Raises UsageError for what is no duration."""
    text = environment.get(Env.KEEPER_LINGER, "")
    try:
        return parse_duration(text) if text else DEFAULT_LINGER_S
    except UsageError as problem:
        raise UsageError(f"{Env.KEEPER_LINGER}: {problem.what}", remedy=problem.remedy) from None


def start_keeper(
    job: JobDirectory, linger_s: float, environment: Mapping[str, str], *, is_detached: bool
) -> "subprocess.Popen[bytes] | None":
    """Start the keeper of a job on this node; None if there is one already, or if it is detached (then it is
    nobody's child, and ends by itself).

    Whoever connects from now on gets an answer, as soon as the process is ready. Raises OSError if it cannot
    be started.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        try:
            # The name is the lock: of several who try at once one wins.
            listener.bind(protocol.address(job.id, this_node(environment)))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return None
            raise
        listener.listen(_QUEUE)
        with _words() as words, _held_signals():
            process = subprocess.Popen(
                [
                    *_interpreter(),
                    *(os.fspath(job.path), str(listener.fileno()), str(linger_s)),
                    "detach" if is_detached else "stay",
                    *(os.path.abspath(place) for place in sys.path if place),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=words,
                cwd="/",
                env=dict(environment),
                pass_fds=(listener.fileno(),),
                start_new_session=True,
            )
            if is_detached:
                _await_detached(process, words)
    return None if is_detached else process


def _interpreter() -> list[str]:
    """This Python, and the very code that this process runs, wherever it was imported from."""
    flags = [flag for flag, is_set in (("-E", sys.flags.ignore_environment), ("-s", sys.flags.no_user_site)) if is_set]
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")
    # -P: files that happen to lie beside a program must not be taken for modules.
    return [sys.executable or "python3", "-P", *flags, program]


@contextmanager
def _words() -> Iterator[int]:
    """A descriptor to write errors to that is no file and no pipe: nobody has to read it."""
    fd = os.memfd_create("lastgood-words", os.MFD_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _held_signals() -> Iterator[None]:
    """A signal to all processes of the job must not end a keeper that cannot ignore it yet: it begins with these held
    back."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*NOT_FOR_US, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _await_detached(process: "subprocess.Popen[bytes]", words: int) -> None:
    """Wait until it has gone its own way. Raises OSError with its last words if it has not."""
    try:
        code = process.wait(_START_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise OSError(f"the keeper did not start within {_START_LIMIT_S:.0f} s") from None
    if code != 0:
        said = os.pread(words, 10_000, 0).decode(errors="replace").strip().rpartition("\n")[2]
        raise OSError(f"the keeper did not start (exit code {code}{said and ': '}{said})")
