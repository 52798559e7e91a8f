"""From the stage to the job's own directory, in the background: promotion, and then retention on both sides."""

from pathlib import Path

import msgspec

from lastgood.core.errors import DamagedError, FencedError, LastgoodError
from lastgood.core.retention import Keep
from lastgood.core.writing import Writing
from lastgood.keeper.protocol import Cleared, Event, Promoted, printable
from lastgood.store.attempts import Journal
from lastgood.store.catalogue import list_checkpoints
from lastgood.store.committing import retain
from lastgood.store.gentle import Pacer
from lastgood.store.jobdir import JobDirectory
from lastgood.store.promotion import Promoter
from lastgood.store.staging import Stage
from lastgood.store.sweep import Retention


class Chore(msgspec.Struct, frozen=True):
    """What is to be done after a commit, or when an attempt begins."""

    attempt: int
    step: int
    """What was committed; 0 at the beginning."""
    keep: Keep
    writing: Writing
    stage: str
    """Empty if there is none."""


class Chores:
    """Promotes and deletes. One thread works; others may raise `attempt` meanwhile."""

    def __init__(self, job: JobDirectory) -> None:
        self.attempt = 0
        """The newest that is known of: what is promoted, is on its behalf."""
        self._job = job
        self._promoters: dict[str, Promoter] = {}
        self._retention: tuple[tuple[int, Keep], Retention] | None = None
        """It remembers what it has verified, so it is kept as long as it serves."""

    def promoter(self, stage: str) -> Promoter:
        """From that stage; it remembers what is in place."""
        if stage not in self._promoters:
            self._promoters[stage] = Promoter(Stage(self._job, Path(stage)), lambda: self.attempt)
        return self._promoters[stage]

    def do(self, chore: Chore, pacer: Pacer) -> list[Event]:
        """What is to be told of it. Where `Promoted` says that something is left, it is to be done again.

        Where a newer attempt has begun, nothing is done: the next save of this one meets the fence, too, and says so.
        """
        pacer.enter()
        self.attempt = max(self.attempt, chore.attempt)
        journal = Journal(self._job, chore.attempt)
        events: list[Event] = []
        try:
            if chore.stage:
                events.append(self._promote(chore, pacer, journal))
            if chore.step or chore.stage:
                events.append(Cleared(chore.step, printable(self._retire(chore, journal))))
        except FencedError:
            return events
        finally:
            journal.close()
        return events

    def _promote(self, chore: Chore, pacer: Pacer, journal: Journal) -> Promoted:
        """Newest first: while the durable storage is slower than the saves, what is overtaken is left out."""
        stage, promoter = Stage(self._job, Path(chore.stage)), self.promoter(chore.stage)
        trouble = ""
        tried: set[str] = set()
        try:
            while pending := [listed.name for listed in stage.pending() if listed.name not in tried]:
                # Each once: a damaged one that cannot be marked stays pending.
                tried.add(pending[0])
                try:
                    promoted = promoter.promote(pending[0], pacer)
                except DamagedError as error:
                    # The one before may be whole.
                    trouble = trouble or error.what
                    continue
                if promoted is not None:
                    journal.write(
                        "promoted",
                        step=promoted.step,
                        name=promoted.name,
                        bytes=promoted.bytes,
                        took_s=round(promoted.took_s, 6),
                    )
            return Promoted(self._newest_step(), printable(trouble), is_left=False)
        except FencedError:
            raise
        except (LastgoodError, OSError) as error:
            trouble = error.what if isinstance(error, LastgoodError) else str(error)
            journal.write("not_promoted", step=chore.step, error=trouble)
            return Promoted(0, printable(trouble), is_left=True)

    def _newest_step(self) -> int:
        return next((c.step for c in list_checkpoints(self._job) if c.is_committed and not c.rejected), 0)

    def _retire(self, chore: Chore, journal: Journal) -> str:
        if self._retention is None or self._retention[0] != (chore.attempt, chore.keep):
            self._retention = ((chore.attempt, chore.keep), Retention(self._job, chore.keep, chore.attempt))
        trouble = retain(self._retention[1], journal, chore.step)
        if trouble or not chore.stage:
            return trouble
        return _clear_stage(Stage(self._job, Path(chore.stage)), chore.attempt)


def _clear_stage(stage: Stage, attempt: int) -> str:
    try:
        stage.retain(attempt)
    except FencedError:
        raise
    except (LastgoodError, OSError) as error:
        return error.what if isinstance(error, LastgoodError) else str(error)
    return ""
