"""`python __main__.py JOB FD LINGER DETACH PLACES...`: started by `lastgood.keeper.starting`, not by people."""

import os
import sys

if __name__ == "__main__":
    import importlib.util

    # Modules are found where who started us finds them, after our own places; this package is the one that it runs.
    sys.path += [place for place in sys.argv[5:] if place not in sys.path]
    _home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    _found = importlib.util.spec_from_file_location(
        "lastgood", os.path.join(_home, "__init__.py"), submodule_search_locations=[_home]
    )
    assert _found is not None and _found.loader is not None
    sys.modules["lastgood"] = importlib.util.module_from_spec(_found)
    _found.loader.exec_module(sys.modules["lastgood"])

import resource
import socket
import threading
import traceback
from pathlib import Path
from types import TracebackType

from lastgood.core import layout
from lastgood.keeper.server import Server
from lastgood.store.durable import AppendFile
from lastgood.store.jobdir import open_job


def main(path: str, fd: int, linger_s: float) -> int:
    """Serve the job until nobody needs the keeper; the exit code."""

    def end(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        # Whoever is connected sees the connection break, and writes for itself.
        _leave_word(Path(path), "".join(traceback.format_exception(kind, error, trace)))
        os._exit(1)

    sys.excepthook = end
    threading.excepthook = lambda told: end(told.exc_type, told.exc_value, told.exc_traceback)
    # It holds the memory and the connections of all ranks here. What limits one program need not limit it.
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_FSIZE):
        _, most = resource.getrlimit(limit)
        resource.setrlimit(limit, (most, most))
    Server(open_job(path), socket.socket(fileno=fd), linger_s).run()
    return 0


def _leave_word(job: Path, text: str) -> None:
    """The last words of a keeper that fails go where the output of the job is."""
    try:
        words = f"lastgood: the keeper (process {os.getpid()}) has failed:\n{text}"
        AppendFile(job / layout.LOG_FILE).append(words.encode(errors="backslashreplace"))
    except OSError:
        return


if __name__ == "__main__":
    if sys.argv[4] == "detach" and os.fork():
        # All that it needs is there. Whoever started us waits for this process only, and has no child of its own left.
        os._exit(0)
    os.dup2(0, 2)
    sys.exit(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
