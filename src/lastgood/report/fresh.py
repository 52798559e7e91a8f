"""Metrics of a job that runs, written anew at each event and now and then, by a process of its own.

A process beside the launcher, because reading journals and writing the file may each take as long as a file system likes:
the launcher must not wait for it, nor have a second thread. It ends when it is told to on its standard input. Where that
ends without a word its launcher is gone, and it goes on until nobody runs the job any more.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from lastgood.core import layout
from lastgood.core.errors import LastgoodError
from lastgood.report.collect import fleet_of, report_on
from lastgood.report.openmetrics import openmetrics_of
from lastgood.report.saving import Planned
from lastgood.store import durable
from lastgood.store.attempts import attempt_numbers
from lastgood.store.jobdir import JobDirectory, open_job
from lastgood.store.lock import holder

EVERY_S = 15.0
"""At least that often, so that who reads it sees how old it is."""

_LOOK_S = 1.0
_MOST_OF_TIME = 0.05
"""What it takes of one core, at most: a job whose journal is long is looked at less often."""

_ORPHAN_S = 300.0
"""How long a command is watched whose launcher is gone: it is asked to save and stop by the kernel."""

Stamp = tuple[object, ...]


class EventsSeen:
    """Tells whether something was written down since it was last asked, without reading journals."""

    def __init__(self, job: JobDirectory) -> None:
        self._job = job
        self._listed: int | None = None
        self._newest = 0

    def stamp(self) -> Stamp:
        """Changes with each event. Raises OSError."""
        listed = os.stat(self._job.attempts).st_mtime_ns
        if listed != self._listed:
            self._listed, self._newest = listed, max(attempt_numbers(self._job), default=0)
        is_finished = (self._job.path / layout.FINISHED_FILE).exists()
        with suppress(FileNotFoundError):
            found = os.stat(self._job.attempts / layout.events_file(self._newest))
            return (self._newest, found.st_size, found.st_mtime_ns, is_finished)
        return (self._newest, is_finished)


def keep_fresh(
    job: JobDirectory,
    file: Path,
    wait: Callable[[float], bool],
    say: Callable[[str], None],
    planned: Planned | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Write the job's metrics to `file` until `wait` (for at most so many seconds) is true, and once more then.

    What does not work is said once, and tried again.
    """
    seen, told = EventsSeen(job), False
    newest: Stamp | None = None
    wrote_at, took_s = float("-inf"), 0.0
    is_over = False
    while True:
        began = clock()
        try:
            stamp = seen.stamp()
            is_new = stamp != newest and began - wrote_at >= took_s / _MOST_OF_TIME
            if is_new or is_over or began - wrote_at >= EVERY_S:
                newest = stamp
                write_metrics(job, file, planned)
                wrote_at, took_s = began, clock() - began
        except (OSError, LastgoodError) as error:
            wrote_at = began
            if not told:
                told = True
                what = error.what if isinstance(error, LastgoodError) else str(error)
                say(f"the metrics are not kept fresh: {what}; the job carries on, and it is tried again")
        if is_over:
            return
        is_over = wait(_LOOK_S)


def write_metrics(job: JobDirectory, file: Path, planned: Planned | None = None) -> None:
    """One file, in place of the one before. Raises StorageError or PermissionDeniedError."""
    text = openmetrics_of(fleet_of([report_on(job, planned)], [], time.time()))
    with durable.explained("write", file):
        durable.write_shared_file(file, text.encode(errors="backslashreplace"))


def main(argv: list[str]) -> int:
    """`argv`: the job's directory, the file, and seconds between saves by the plan, or nothing."""
    for name in ("TERM", "HUP", "INT", "QUIT", "USR1", "USR2", "TSTP"):
        # They are for the job: what stops it, its launcher tells us by ending.
        signal.signal(getattr(signal, f"SIG{name}"), signal.SIG_IGN)
    job = open_job(argv[0])
    planned = Planned(float(argv[2]), layout.BATCH_FILE) if len(argv) > 2 and argv[2] else None
    keep_fresh(job, Path(argv[1]), Launcher(job).wait, lambda text: _say(job, text), planned)
    return 0


class Launcher:
    """Who has started us, seen through standard input."""

    def __init__(self, job: JobDirectory) -> None:
        self._job = job
        self._lost_at: float | None = None

    def wait(self, limit_s: float) -> bool:
        """True as soon as there is nothing more to watch; False after at most `limit_s`."""
        if self._lost_at is None:
            if not select.select([0], [], [], limit_s)[0]:
                return False
            if os.read(0, 64):
                return True
            # Its files are closed before it is gone: looked at now, it would still seem to run the job.
            self._lost_at = time.monotonic()
            return False
        time.sleep(limit_s)
        return time.monotonic() - self._lost_at > _ORPHAN_S or self._is_over()

    def _is_over(self) -> bool:
        try:
            return holder(self._job) is None
        except OSError:
            return False


def _say(job: JobDirectory, text: str) -> None:
    """To who looks at the launcher's output, and into the job's log."""
    line = f"lastgood: {text}\n".encode(errors="backslashreplace")
    with suppress(OSError):
        os.write(2, line)
    with suppress(OSError):
        log = durable.AppendFile(job.log)
        log.append(line)
        log.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
