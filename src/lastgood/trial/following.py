"""The newest attempt of a job, followed while it runs: looked at often, read only where it has changed."""

from contextlib import suppress
from pathlib import Path

from lastgood.core import layout
from lastgood.core.accounting import Record
from lastgood.core.errors import LastgoodError
from lastgood.core.heartbeat import Heartbeat
from lastgood.launch.heartbeats import directory_of, read_heartbeats
from lastgood.launch.history import read_records
from lastgood.store.attempts import attempt_numbers, read_attempt, read_events
from lastgood.store.jobdir import JobDirectory, open_job


class JobView:
    def __init__(self, path: Path, heartbeats: Path) -> None:
        """`heartbeats`: where ranks keep them if no launcher gives them a directory."""
        self._path = path
        self._heartbeats = heartbeats
        self._seen: tuple[int, int] = (0, -1)
        self._record: Record | None = None
        self._launched: Record | None = None

    def records(self) -> list[Record]:
        """The journals of all attempts, oldest first; empty while there is no job."""
        with suppress(LastgoodError, OSError):
            return read_records(open_job(self._path))
        return []

    def newest(self) -> Record | None:
        """The attempt with the highest number; None while there is none."""
        with suppress(LastgoodError, OSError):
            job = open_job(self._path)
            numbers = attempt_numbers(job)
            if numbers:
                self._read(job, numbers[-1])
        return self._record

    def heartbeat_directory(self) -> Path | None:
        """Where the ranks of the newest attempt keep them; None if it is not known yet."""
        record = self.newest()
        if record is None or not record.launch:
            return self._heartbeats
        if record.is_launched:
            self._launched = record
        # A restart inside an attempt (torchrun's) keeps them where the launcher has told.
        told = self._launched if self._launched is not None and self._launched.launch == record.launch else record
        return directory_of(told)

    def heartbeats(self) -> dict[int, Heartbeat]:
        """Of each rank of the newest attempt that has sent one."""
        return read_heartbeats(self.heartbeat_directory())

    def seen(self) -> tuple[Record | None, dict[int, Heartbeat]]:
        """The newest attempt and its heartbeats, of which none is older than what the journal says: a program writes down
        where it begins before it does a step."""
        beats = self.heartbeats()
        number = self._record.number if self._record is not None else 0
        record = self.newest()
        return record, beats if record is not None and record.number == number else {}

    def _read(self, job: JobDirectory, number: int) -> None:
        journal = job.attempts / layout.events_file(number)
        size = journal.stat().st_size if journal.exists() else 0
        if (number, size) == self._seen:
            return
        attempt = read_attempt(job, number)
        events = read_events(job, number)
        if attempt is not None:
            self._record = Record(number, attempt.started, attempt.launch, attempt.fresh, events)
            self._seen = (number, size)
