"""Runs a command and ends with its exit code, or with one that it is told by a message.

    python -m lastgood.drill.faults.exit_wrapper SOCKET-PREFIX -- COMMAND

It listens on SOCKET-PREFIX<its process id>. Signals are for the command's own processes: whoever sends them finds those.
"""

import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress

import psutil

_OUTLIVED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)


def main(words: list[str]) -> int:
    prefix, _, *command = words
    line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    line.bind(f"{prefix}{os.getpid()}")
    for number in _OUTLIVED:
        # A handler, not SIG_IGN, which the command would inherit.
        signal.signal(number, lambda *_: None)
    try:
        child = subprocess.Popen(command)
    except OSError as error:
        sys.stderr.write(f"cannot start {command[0]}: {error.strerror}\n")
        return 127 if isinstance(error, FileNotFoundError) else 126
    watch = os.pidfd_open(child.pid)
    while True:
        ready, _, _ = select.select([watch, line.fileno()], [], [])
        if line.fileno() in ready:
            code = int(line.recv(16))
            _kill_below()
            child.wait()
            return code
        if watch in ready:
            status = child.wait()
            # As a shell says it.
            return 128 - status if status < 0 else status


def _kill_below() -> None:
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            process.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
