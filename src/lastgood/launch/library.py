"""A program that saves with this library: its checkpoints are in the job's own directory, or staged on this node."""

import time

from lastgood.core.errors import LastgoodError
from lastgood.core.layout import Env
from lastgood.core.outcome import Ending, Evidence
from lastgood.core.units import byte_size, duration
from lastgood.launch.ports import LastGood, Prepared, StopRequest, Told
from lastgood.store.attempts import Journal, read_events
from lastgood.store.jobdir import JobDirectory
from lastgood.store.reader import open_checkpoint
from lastgood.store.staging import find_stages, list_copies


class LibraryProgram:
    """The program decides its start itself; the launcher tells it what it has seen."""

    def __init__(self, job: JobDirectory) -> None:
        self._job = job

    def last_good(self) -> LastGood | None:
        """The newest checkpoint whose manifest can be trusted. The content is checked when it is restored."""
        for copy in list_copies(self._job, find_stages(self._job)):
            listed = copy.listed
            if not listed.is_committed or listed.rejected or listed.is_set_aside:
                continue
            try:
                manifest = open_checkpoint(copy.job, listed.name).manifest
            except LastgoodError:
                continue
            return LastGood(listed.name, listed.step, manifest.created, listed.age_key, manifest.bytes)
        return None

    def prepare(self, attempt: int, *, is_fresh: bool, journal: Journal) -> Prepared:
        if is_fresh:
            return Prepared(environment={Env.FRESH: "1"}, message="a new start is meant (--fresh)")
        good = self.last_good()
        if good is None:
            return Prepared(message="no checkpoint yet")
        return Prepared(environment={Env.EXPECT_STEP: str(good.step)}, message=f"last good: {describe(good)}")

    def note_progress(self, journal: Journal) -> None:
        """The program writes its own events."""

    def explain_no_progress(self) -> str:
        return ""

    def can_see_checkpoints(self, attempt: int) -> bool:
        if self.last_good() is not None:
            return True
        return any(event.kind in ("started", "committed") for event in read_events(self._job, attempt))

    def ask_to_stop(self, number: int) -> StopRequest:
        return StopRequest(number)

    def told(self, output: str) -> Told | None:
        """Its heartbeats tell."""
        return None

    def judge(self, evidence: Evidence) -> Ending | None:
        return None


def describe(good: LastGood) -> str:
    size = "" if good.size_bytes is None else f", {byte_size(good.size_bytes)}"
    return f"step {good.step}{size}, {duration(max(time.time() - good.at, 0.0))} old"
