"""Asking Slurm's accounting for a whole cluster: which fields to ask for, and millions of rows as a stream.

`SlurmCommands.history` asks for a few jobs, and has all of its answer in memory.
"""

import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self

from lastgood.core.errors import SchedulerError
from lastgood.core.units import duration
from lastgood.schedulers.slurm_commands import HISTORY_S, run_command

_FIELDS = (
    *("Cluster", "JobID", "State", "ExitCode", "Submit", "Start", "End", "ElapsedRaw"),
    *("NNodes", "NodeList", "FailedNode", "AllocTRES", "Partition", "Reason"),
)


def fields_of_sacct(environment: Mapping[str, str]) -> list[str]:
    """The fields that this version of sacct knows, of those that we want. Raises SchedulerError."""
    try:
        answer = run_command(["sacct", "--helpformat"], environment, HISTORY_S)
    except OSError as error:
        raise SchedulerError(
            f"cannot run sacct: {error.strerror}",
            remedy="run this where Slurm's commands are installed, or give the file of its output: --sacct FILE",
        ) from error
    except subprocess.TimeoutExpired:
        raise SchedulerError(f"sacct gave no answer for {duration(HISTORY_S)}") from None
    if answer.code != 0:
        raise SchedulerError(f"sacct said: {answer.words or f'exit code {answer.code}'}")
    can = set(answer.out.split())
    return [field for field in _FIELDS if field in can]


def words_of_sacct(
    fields: Sequence[str],
    since: datetime,
    until: datetime,
    *,
    users: Collection[str] = (),
    partitions: Collection[str] = (),
) -> list[str]:
    """The command that tells of all runs in this time, by local clocks.

    >>> from datetime import datetime
    >>> " ".join(words_of_sacct(["JobID", "State"], datetime(2026, 1, 1), datetime(2026, 2, 1), users=["ada"]))
    'sacct -X --duplicates -P -S 2026-01-01T00:00:00 -E 2026-02-01T00:00:00 -u ada -o JobID,State'
    """
    words = ["sacct", "-X", "--duplicates", "-P", "-S", since.isoformat("T", "seconds")]
    words += ["-E", until.isoformat("T", "seconds")]
    words += ["-u", ",".join(users)] if users else ["-a"]
    if partitions:
        words += ["-r", ",".join(partitions)]
    return [*words, "-o", ",".join(fields)]


class Stream:
    """What a command prints, as a file to read from; for `with`. Raises SchedulerError where it fails or takes too long."""

    def __init__(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        limit_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._words = words
        self._limit_s = limit_s
        self._clock = clock
        self._end = clock() + limit_s
        # Not a pipe: nobody reads it while the answer is read.
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 (closed in __exit__)
        try:
            self._process = subprocess.Popen(
                words,
                env={**environment, "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
                start_new_session=True,
            )
        except OSError as error:
            self._complaints.close()
            raise SchedulerError(f"cannot run {words[0]}: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._complaints.close()

    def read(self, size: int = -1) -> bytes:
        """So many bytes; fewer at the end only. That the command has done well is known when nothing is left."""
        assert self._process.stdout is not None
        place = self._process.stdout.fileno()
        parts: list[bytes] = []
        missing = size
        while missing:
            ready, _, _ = select.select([place], [], [], max(self._end - self._clock(), 0))
            if not ready:
                raise self._late()
            part = os.read(place, 1 << 20 if missing < 0 else min(missing, 1 << 20))
            if not part:
                break
            parts.append(part)
            missing -= len(part) if missing > 0 else 0
        if not parts and size:
            self._check_end()
        return b"".join(parts)

    def _check_end(self) -> None:
        try:
            code = self._process.wait(max(self._end - self._clock(), 0.1))
        except subprocess.TimeoutExpired:
            raise self._late() from None
        if code != 0:
            self._complaints.seek(0)
            said = "; ".join(self._complaints.read(4096).decode("utf-8", "backslashreplace").split("\n")).strip("; ")
            raise SchedulerError(
                f"{self._words[0]} said: {said or f'exit code {code}'}",
                safe="nothing was counted",
                remedy="`sacctmgr show cluster` tells whether there is an accounting at all",
            )

    def _late(self) -> SchedulerError:
        return SchedulerError(
            f"{self._words[0]} did not finish within {duration(self._limit_s)}",
            safe="nothing was counted",
            remedy="ask for less time (--since, --until), or write its output to a file and give that: --sacct FILE",
        )
