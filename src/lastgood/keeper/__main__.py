"""`python -m lastgood.keeper JOB FD LINGER DETACH`: started by `lastgood.keeper.starting`, not by people."""

import os
import sys

if __name__ == "__main__" and sys.argv[4] == "detach" and os.fork():
    # Whoever started us waits for this process only, and has no child of its own left.
    os._exit(0)

import socket
import threading
import traceback
from pathlib import Path
from types import TracebackType

from lastgood.keeper.server import Server
from lastgood.store.durable import AppendFile
from lastgood.store.jobdir import JobDirectory, open_job


def main(path: str, fd: int, linger_s: float) -> int:
    """Serve the job until nobody needs the keeper; the exit code."""
    job = open_job(path)

    def end(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        # Whoever is connected sees the connection break, and writes for itself.
        _leave_word(job, "".join(traceback.format_exception(kind, error, trace)))
        os._exit(1)

    sys.excepthook = end
    threading.excepthook = lambda told: end(told.exc_type, told.exc_value, told.exc_traceback)
    Server(job, socket.socket(fileno=fd), linger_s).run()
    return 0


def _leave_word(job: JobDirectory, text: str) -> None:
    """The last words of a keeper that fails go where the output of the job is."""
    try:
        AppendFile(Path(job.log)).append(f"lastgood: the keeper (process {os.getpid()}) has failed:\n{text}".encode())
    except OSError:
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
