"""`lastgood run --metrics`: the process that keeps a job's metrics fresh while its launcher lives."""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import lastgood
from lastgood.store.jobdir import JobDirectory

_LAST_S = 5.0
"""For the last write, when the launcher leaves."""

_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from lastgood.report.fresh import main; sys.exit(main(sys.argv[1:]))"
"""With the very code that this process runs, wherever it was imported from."""


class MetricsKept:
    """Begun when the job is ours, ended when it is not any more. Without a file it does nothing; that it does not work is
    said, and never disturbs the job."""

    def __init__(self, file: Path | None, say: Callable[..., None]) -> None:
        self._file = file
        self._say = say
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self, job: JobDirectory) -> None:
        """Before the command starts: what the launcher has started by then is none of the command's processes."""
        if self._file is None:
            return
        from lastgood.cli.noted_plan import noted_plan

        plan = noted_plan(job)
        where = os.path.dirname(os.path.dirname(os.path.abspath(lastgood.__file__)))
        planned = "" if plan is None else repr(plan.interval_s)
        try:
            self._process = subprocess.Popen(
                # -P: files that happen to lie beside a program must not be taken for modules.
                [sys.executable, "-P", "-c", _START, where, os.fspath(job.path), os.fspath(self._file), planned],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            self._say(f"the metrics are not kept fresh: {error}; the job carries on", is_important=True)

    def end(self) -> None:
        """Have it write a last time, within a limit."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        with suppress(OSError):
            # Without a word it would take us for dead, and stay with the command.
            self._process.stdin.write(b"end")
            self._process.stdin.close()
        try:
            self._process.wait(_LAST_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
