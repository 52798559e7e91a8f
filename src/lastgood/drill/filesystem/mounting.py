"""Mounts a file system that a process of its own serves, and talks to it.

It runs in a process of its own, because a process that waits for a file system that it serves itself hangs. It
unmounts when its user ends in whatever way: then the channel between the two closes.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

from lastgood.core.errors import LastgoodError

FUSE_DEVICE = Path("/dev/fuse")
_UNMOUNT = "fusermount3"
_START_LIMIT_S = 60.0
_END_LIMIT_S = 10.0
_LOOK_S = 0.005


def missing() -> str:
    """What this machine lacks to mount one, in words; empty if it lacks nothing."""
    if not os.access(FUSE_DEVICE, os.R_OK | os.W_OK):
        return (
            f"{FUSE_DEVICE} cannot be opened by this user (in a container: --device {FUSE_DEVICE} --cap-add SYS_ADMIN)"
        )
    if shutil.which(_UNMOUNT) is None:
        return f"{_UNMOUNT} is not installed (package fuse3)"
    if find_spec("mfusepy") is None:
        return "mfusepy is not installed (pip install 'lastgood[drill]')"
    try:
        import mfusepy  # type: ignore[import-untyped]  # noqa: F401
    except (ImportError, OSError) as error:
        return f"libfuse cannot be loaded: {error}"
    return ""


class Channel:
    """Requests to the process that serves a file system. May be used by several threads."""

    def __init__(self, connection: Connection, path: Path) -> None:
        self.path = path
        self._connection = connection
        self._lock = threading.Lock()

    def ask(self, *request: object) -> Any:
        """Raises LastgoodError if the process has ended."""
        try:
            with self._lock:
                self._connection.send(request)
                return self._connection.recv()
        except (EOFError, OSError) as error:
            raise LastgoodError(f"the process that serves the file system at {self.path} has ended") from error


@contextmanager
def mounted(server: Sequence[str], path: Path, *, cwd: Path | None = None) -> Iterator[Channel]:
    """Mount what `server` serves on a directory that exists: words after `python`, to which the directory and a descriptor
    are added. On leaving it is unmounted, and its process has ended.

    Raises LastgoodError if it cannot be mounted.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs, tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [sys.executable, *server, str(path), str(theirs.fileno())],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stderr=said,
            pass_fds=[theirs.fileno()],
            # Ctrl-C in a terminal is for the drill, which then unmounts.
            start_new_session=True,
        )
        theirs.close()
        try:
            _await_mount(path, process, said)
            with Connection(ours.detach()) as connection:
                yield Channel(connection, path)
        finally:
            ours.close()
            unmount(path)
            _end(process)
            # One that was interrupted while it began may have mounted it since.
            unmount(path)


def serve(requests: Mapping[str, Callable[..., object]], path: str, descriptor: int) -> None:
    """In the process that serves: answer requests, in a thread of its own; unmount when nobody can ask any more."""

    def answer() -> None:
        with suppress(EOFError, OSError), Connection(descriptor) as connection:
            while True:
                request, *arguments = connection.recv()
                connection.send(requests[request](*arguments))
        # Until this process has ended by it: the mount may not be there yet.
        while True:
            unmount(Path(path))
            time.sleep(_LOOK_S)

    threading.Thread(target=answer, daemon=True).start()


def unmount(path: Path) -> None:
    """Take it from there at once, also while it is used; nothing happens where nothing is mounted."""
    subprocess.run(
        [_UNMOUNT, "-u", "-z", str(path)], check=False, capture_output=True, stdin=subprocess.DEVNULL, timeout=30
    )


def _await_mount(path: Path, process: "subprocess.Popen[bytes]", said: IO[bytes]) -> None:
    end = time.monotonic() + _START_LIMIT_S
    while not os.path.ismount(path):
        if process.poll() is not None or time.monotonic() > end:
            process.kill()
            process.wait()
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines()
            raise LastgoodError(
                f"cannot mount a file system on {path}: {lines[-1] if lines else 'it did not appear'}",
                safe="nothing is mounted",
            )
        time.sleep(_LOOK_S)


def _end(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(_END_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
