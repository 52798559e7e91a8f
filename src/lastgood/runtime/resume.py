"""How an attempt begins: find the newest checkpoint that is whole, and decide by the contract fresh, resumed
or refused. Rank 0 looks and tells the others; each rank reads its own data."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from lastgood.core import layout
from lastgood.core.errors import (
    ConfigChangedError,
    DamagedError,
    FormatVersionError,
    LastgoodError,
    RankTimeoutError,
    StartRefusedError,
    StateMismatchError,
    UsageError,
)
from lastgood.core.events import Event
from lastgood.core.manifest import Manifest
from lastgood.core.outcome import Outcome
from lastgood.core.start import Candidate, EarlierAttempt, Expectation, Start, StartKind, decide_start
from lastgood.runtime import adapters
from lastgood.runtime.agreement import from_rank_0, named, of_each_rank, raise_together
from lastgood.runtime.offer import Offer, Restored, Target
from lastgood.runtime.ports import Framework, Ranks
from lastgood.runtime.sharing import OneReads
from lastgood.runtime.supply import EachReads, ElsewhereError, Read, Supply
from lastgood.store import durable
from lastgood.store.attempts import Journal, attempt_numbers, read_events
from lastgood.store.catalogue import newest_fresh_attempt, set_mark
from lastgood.store.jobdir import JobDirectory
from lastgood.store.reader import open_checkpoint
from lastgood.store.staging import Stage, list_copies

_UNREADABLE, _DAMAGED, _REFUSED, _ELSEWHERE = 1, 2, 3, 4

MemoryLender = Callable[[int, int, int], tuple[int, Callable[[], None]] | None]
"""(step, attempt, rank) -> a descriptor of memory that holds that rank's file, and what to call when it is not read
any more; None if it is not held."""


class Found(msgspec.Struct, frozen=True):
    start: Start
    restored: Restored | None
    rejected: list[Candidate]
    stage: str = ""
    """Where it was read from, if not from the job's own directory."""

    def told(self) -> dict[str, Any]:
        """For the journal, see core.events."""
        return {
            "how": self.start.kind.value,
            "step": self.start.step,
            "reason": self.start.reason,
            "rejected": [candidate.name for candidate in self.rejected],
            "is_from_memory": self.restored is not None and self.restored.is_from_memory,
        }


class Resumer:
    """Finds what to resume from, for one attempt."""

    def __init__(
        self,
        job: JobDirectory,
        attempt: int,
        ranks: Ranks,
        frameworks: list[Framework],
        lender: MemoryLender | None = None,
        stages: Sequence[Stage] = (),
        read: Read = "each",
        local_ranks: int = 1,
    ) -> None:
        """`stages`: where rank 0 looks beside the job's own directory. `read`: how what ranks share is read.
        `local_ranks`: how many of them run on this machine."""
        self._local_ranks = local_ranks
        self._stages = stages
        self._read = read
        self._lender = lender
        self._job = job
        self._attempt = attempt
        self._ranks = ranks
        self._frameworks = {framework.name: framework for framework in frameworks}

    def find(self, expectations: list[Expectation], is_fresh_meant: bool, target: Target) -> Found:
        """The start, and the content if it is resumed, which fits the target. Raises StartRefusedError if it must not
        start, or what `target` raises."""
        unusable: list[Candidate] = []
        restored: Restored | None = None
        if not is_fresh_meant:
            for candidate in self._candidates():
                if candidate.problem:
                    unusable.append(candidate)
                    continue
                restored, problem = self._use(candidate, target)
                if not problem:
                    break
                unusable.append(msgspec.structs.replace(candidate, problem=problem))
        usable = Candidate(restored.manifest.name, restored.manifest.step) if restored else None

        def earlier() -> list[EarlierAttempt]:
            # Where there are checkpoints the journals decide nothing.
            return [] if usable or unusable else self._earlier()

        told = from_rank_0(
            self._ranks,
            lambda: msgspec.to_builtins(decide_start(usable, unusable, earlier(), expectations, is_fresh_meant)),
        )
        start = msgspec.convert(told, Start)
        if start.kind is StartKind.REFUSED:
            self._note_refused(start)
            raise StartRefusedError(
                f"will not start the job in {self._job.path} from zero: {start.reason}",
                safe="nothing was changed"
                if not unusable
                else f"nothing was deleted; `lastgood verify` says what is damaged{target.warning}",
                remedy="make the checkpoints visible again (mount, path, backup), or begin anew: `lastgood run --fresh`, or lastgood.Run(..., fresh=True) once",
            )
        return Found(start, restored, unusable, candidate.stage if restored else "")

    def _candidates(self) -> Iterator[Candidate]:
        """Committed checkpoints, newest first, the nearer copy of each first; rank 0 lists them once for all."""

        def listing() -> dict[str, Any]:
            with durable.explained("list the checkpoints in", self._job.checkpoints, safe="nothing was changed"):
                copies = [c for c in list_copies(self._job, self._stages) if c.listed.is_committed]
            found = [
                Candidate(
                    copy.listed.name,
                    copy.listed.step,
                    f"rejected earlier: {copy.listed.rejected}" if copy.listed.rejected else "",
                    copy.stage,
                )
                for copy in copies
                if not copy.listed.is_set_aside
            ]
            return {"found": [msgspec.to_builtins(candidate) for candidate in found]}

        for candidate in from_rank_0(self._ranks, listing)["found"]:
            yield msgspec.convert(candidate, Candidate)

    def _directory(self, candidate: Candidate) -> JobDirectory:
        return Stage(self._job, Path(candidate.stage)).staged if candidate.stage else self._job

    def _use(self, candidate: Candidate, target: Target) -> tuple[Restored | None, str]:
        """The content for this rank, put where the target wants it, or why no rank can use it. All ranks come to the
        same answer.

        Raises FormatVersionError, StateMismatchError and ConfigChangedError: an older checkpoint would only hide
        that this program is not the one that can read what was saved.
        """
        offer: Offer | None = None
        refusal: LastgoodError | None = None
        restored: Restored | None = None

        def open_it() -> None:
            nonlocal offer
            offer = self._offer(candidate)

        def compare() -> None:
            nonlocal refusal
            assert offer is not None
            try:
                target.compare(offer.decode(self._frameworks_for(offer.manifest)))
            except (StateMismatchError, ConfigChangedError) as error:
                refusal = error

        def load() -> None:
            nonlocal restored
            assert offer is not None
            restored = offer.load(target)

        def check() -> None:
            assert offer is not None
            offer.check()

        problem = self._together(candidate, open_it) or self._together(candidate, compare)
        if not problem and any(of_each_rank(self._ranks, int(refusal is not None))):
            # Only of a whole checkpoint can be said that it does not fit; behind a damaged one there may be one that does.
            problem = self._together(candidate, check)
            if not problem:
                raise_together(self._ranks, refusal, safe=f"the checkpoint is whole{target.warning}")
        problem = problem or self._together(candidate, load)
        return (None, problem) if problem else (restored, "")

    def _together(self, candidate: Candidate, work: Callable[[], None]) -> str:
        """Do something on every rank; why the checkpoint cannot be used if it went wrong on any, else nothing."""
        refusal: LastgoodError | None = None
        problem, code = "", 0
        try:
            work()
        except FormatVersionError as error:
            refusal, code = error, _REFUSED
        except (RankTimeoutError, UsageError):
            # Of the ranks, not of the checkpoint.
            raise
        except LastgoodError as error:
            problem, code = error.what, _DAMAGED if isinstance(error, DamagedError) else _UNREADABLE
        except OSError as error:
            # Storage that fails to answer says nothing about the content: no lasting mark for that.
            problem, code = f"{candidate.name} cannot be read: {error.strerror or error}", _UNREADABLE
        except ElsewhereError:
            code = _ELSEWHERE
        codes = of_each_rank(self._ranks, code)
        if not any(codes):
            return ""
        if _REFUSED in codes:
            raise_together(self._ranks, refusal, safe="no checkpoint was changed")
        problem = problem or f"{named([code % _ELSEWHERE for code in codes])} cannot use it"
        if _DAMAGED in codes and self._ranks.rank == 0:
            self._remember(candidate, problem)
        return problem

    def _remember(self, candidate: Candidate, problem: str) -> None:
        """Mark a damaged checkpoint, so that the next attempt does not spend its time on it again."""
        try:
            set_mark(self._directory(candidate), candidate.name, layout.REJECTED_FILE, problem, self._attempt)
        except OSError:
            # A directory that cannot be written to will be refused soon enough, with its own message.
            return

    def _offer(self, candidate: Candidate) -> Offer:
        checkpoint = open_checkpoint(self._directory(candidate), candidate.name)
        step, attempt, lender = checkpoint.manifest.step, checkpoint.manifest.attempt, self._lender
        if lender is not None:
            checkpoint.borrow_from(lambda rank: lender(step, attempt, rank))
        is_other = checkpoint.manifest.world_size != self._ranks.world_size
        rank = 0 if is_other else self._ranks.rank
        is_shared = self._read == "broadcast" and self._ranks.world_size > 1
        if is_shared:
            supply: Supply = OneReads(checkpoint, rank, self._ranks)
        else:
            supply = EachReads(checkpoint, rank, self._local_ranks)
        return Offer(checkpoint, supply, rank, is_other_world_size=is_other)

    def _frameworks_for(self, manifest: Manifest) -> dict[str, Framework]:
        """Those of this process, and those that wrote the checkpoint and are not imported here yet."""
        frameworks = dict(self._frameworks)
        for name in manifest.fingerprint.keys() - frameworks.keys():
            if (framework := adapters.framework_named(name)) is not None:
                frameworks[name] = framework
        return frameworks

    def _note_refused(self, start: Start) -> None:
        if self._ranks.rank == 0:
            journal = Journal(self._job, self._attempt)
            journal.write("refused", reason=start.reason)
            journal.close()

    def _earlier(self) -> list[EarlierAttempt]:
        """What the journals say of the attempts before this one, since the last intended new start.

        One that was refused never ran: it does not explain why there is no checkpoint, else trying again
        would turn a refusal into a start from zero.
        """
        with durable.explained("read the attempts in", self._job.attempts, safe="nothing was changed"):
            first = newest_fresh_attempt(self._job)
            numbers = [n for n in attempt_numbers(self._job) if first <= n < self._attempt]
            journals = {n: read_events(self._job, n) for n in numbers}
        found = [EarlierAttempt(n, _last_saved(events)) for n, events in journals.items()]
        return [e for e in found if e.last_saved_step is not None or not _was_refused(journals[e.number])]


def _last_saved(events: list[Event]) -> int | None:
    steps = [e.data["step"] for e in events if e.kind == "committed" and "step" in e.data]
    return max(steps, default=None)


def _was_refused(events: list[Event]) -> bool:
    """By the program's own start, or by the launcher before it."""
    return any(event.kind == "refused" or event.data.get("outcome") == Outcome.REFUSED.value for event in events)
