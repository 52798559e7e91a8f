"""Starting a keeper: a process of its own, in a session of its own, that survives who started it."""

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Mapping

from lastgood.core.errors import UsageError
from lastgood.core.layout import Env
from lastgood.core.units import parse_duration
from lastgood.keeper import protocol
from lastgood.store.jobdir import JobDirectory

DEFAULT_LINGER_S = 60.0

_START_LIMIT_S = 30.0


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
            listener.bind(protocol.address(job.id))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return None
            raise
        listener.listen(128)
        process = subprocess.Popen(
            [
                # -P: files that happen to lie in the working directory must not be taken for modules.
                *(sys.executable or "python3", "-P", "-m", "lastgood.keeper"),
                *(os.fspath(job.path), str(listener.fileno()), str(linger_s)),
                "detach" if is_detached else "stay",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=dict(environment),
            pass_fds=(listener.fileno(),),
            start_new_session=True,
        )
    if not is_detached:
        return process
    try:
        if process.wait(_START_LIMIT_S) != 0:
            raise OSError(f"the keeper did not start (exit code {process.returncode})")
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise OSError(f"the keeper did not start within {_START_LIMIT_S:.0f} s") from None
    return None
