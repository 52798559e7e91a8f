"""How an attempt begins: find the newest checkpoint that is whole, and decide by the contract fresh, resumed
or refused. Rank 0 looks and tells the others; each rank reads its own data."""

from collections.abc import Callable, Iterator, Set
from typing import Any

import msgspec

from lastgood.core import layout, tree
from lastgood.core.errors import (
    DamagedError,
    FormatVersionError,
    LastgoodError,
    StartRefusedError,
    StateMismatchError,
)
from lastgood.core.events import Event
from lastgood.core.manifest import Manifest
from lastgood.core.outcome import Outcome
from lastgood.core.start import Candidate, EarlierAttempt, Expectation, Start, StartKind, decide_start
from lastgood.core.tensorfile import ArraySpec
from lastgood.runtime import adapters
from lastgood.runtime.agreement import from_rank_0, named, of_each_rank, raise_together
from lastgood.runtime.ports import Framework, Ranks
from lastgood.store import durable
from lastgood.store.attempts import Journal, attempt_numbers, read_events
from lastgood.store.catalogue import list_checkpoints, newest_fresh_attempt, set_mark
from lastgood.store.jobdir import JobDirectory
from lastgood.store.reader import Checkpoint, open_checkpoint

_UNREADABLE, _DAMAGED = 1, 2

MemoryLender = Callable[[int, int, int], tuple[int, Callable[[], None]] | None]
"""(step, attempt, rank) -> a descriptor of memory that holds that rank's file, and what to call when it is not read
any more; None if it is not held."""


class Restored(msgspec.Struct, frozen=True):
    """A checkpoint's content for this rank, verified and decoded, not yet put into the program."""

    manifest: Manifest
    entries: dict[str, Any]
    left_behind: list[str]
    """Entries that belong to single ranks and were not read, because the number of ranks changed."""
    is_from_memory: bool = False
    """The arrays came from the keeper's memory, not from storage."""


class Found(msgspec.Struct, frozen=True):
    start: Start
    restored: Restored | None
    rejected: list[Candidate]


class Resumer:
    """Finds what to resume from, for one attempt."""

    def __init__(
        self,
        job: JobDirectory,
        attempt: int,
        ranks: Ranks,
        frameworks: list[Framework],
        lender: MemoryLender | None = None,
    ) -> None:
        self._lender = lender
        self._job = job
        self._attempt = attempt
        self._ranks = ranks
        self._frameworks = {framework.name: framework for framework in frameworks}

    def find(self, expectations: list[Expectation], is_fresh_meant: bool) -> Found:
        """The start, and the content if it is resumed. Raises StartRefusedError if it must not start."""
        unusable: list[Candidate] = []
        restored: Restored | None = None
        if not is_fresh_meant:
            for candidate in self._candidates():
                if candidate.problem:
                    unusable.append(candidate)
                    continue
                restored, problem = self._read(candidate)
                if not problem:
                    break
                unusable.append(Candidate(candidate.name, candidate.step, problem))
        usable = Candidate(restored.manifest.name, restored.manifest.step) if restored else None
        told = from_rank_0(
            self._ranks,
            lambda: msgspec.to_builtins(decide_start(usable, unusable, self._earlier(), expectations, is_fresh_meant)),
        )
        start = msgspec.convert(told, Start)
        if start.kind is StartKind.REFUSED:
            self._note_refused(start)
            raise StartRefusedError(
                f"will not start the job in {self._job.path} from zero: {start.reason}",
                safe="nothing was changed"
                if not unusable
                else "nothing was deleted; `lastgood verify` says what is damaged",
                remedy="make the checkpoints visible again (mount, path, backup), or begin anew: `lastgood run --fresh`, or lastgood.Run(..., fresh=True) once",
            )
        return Found(start, restored, unusable)

    def _candidates(self) -> Iterator[Candidate]:
        """Committed checkpoints, newest first; rank 0 lists them once for all."""

        def listing() -> dict[str, Any]:
            with durable.explained("list the checkpoints in", self._job.checkpoints, safe="nothing was changed"):
                listed = [c for c in list_checkpoints(self._job) if c.is_committed and not c.is_set_aside]
            return {
                "found": [[c.name, c.step, f"rejected earlier: {c.rejected}" if c.rejected else ""] for c in listed]
            }

        for name, step, problem in from_rank_0(self._ranks, listing)["found"]:
            yield Candidate(name, step, problem)

    def _read(self, candidate: Candidate) -> tuple[Restored | None, str]:
        """The content for this rank, or why no rank can use it. All ranks come to the same answer.

        Raises FormatVersionError and StateMismatchError: an older checkpoint would only hide that this
        program is not the one that can read what was saved.
        """
        restored: Restored | None = None
        refusal: LastgoodError | None = None
        problem, is_damage = "", False
        try:
            restored = self._decode(candidate.name)
        except (FormatVersionError, StateMismatchError) as error:
            refusal = error
        except LastgoodError as error:
            problem, is_damage = error.what, isinstance(error, DamagedError)
        except OSError as error:
            # Storage that fails to answer says nothing about the content: no lasting mark for that.
            problem, is_damage = f"{candidate.name} cannot be read: {error.strerror or error}", False
        raise_together(self._ranks, refusal, safe="nothing was changed; the checkpoint is whole")
        flags = of_each_rank(self._ranks, 0 if not problem else _DAMAGED if is_damage else _UNREADABLE)
        if not any(flags):
            return restored, ""
        problem = problem or f"{named(flags)} cannot use it"
        if _DAMAGED in flags and self._ranks.rank == 0:
            self._remember(candidate.name, problem)
        return None, problem

    def _remember(self, name: str, problem: str) -> None:
        """Mark a damaged checkpoint, so that the next attempt does not spend its time on it again."""
        try:
            set_mark(self._job, name, layout.REJECTED_FILE, problem, self._attempt)
        except OSError:
            # A directory that cannot be written to will be refused soon enough, with its own message.
            return

    def _decode(self, name: str) -> Restored:
        checkpoint = open_checkpoint(self._job, name)
        if self._lender is None:
            return self._decode_from(checkpoint)
        step, attempt, lender = checkpoint.manifest.step, checkpoint.manifest.attempt, self._lender
        checkpoint.borrow_from(lambda rank: lender(step, attempt, rank))
        try:
            return self._decode_from(checkpoint)
        except DamagedError:
            if not checkpoint.lent:
                raise
            # What was in memory is no checkpoint: only what is stored is.
            return self._decode_from(open_checkpoint(self._job, name))

    def _decode_from(self, checkpoint: Checkpoint) -> Restored:
        manifest = checkpoint.manifest
        if manifest.world_size == self._ranks.world_size:
            entries = self._entries_of(checkpoint, self._ranks.rank)
            return Restored(manifest, entries, [], is_from_memory=bool(checkpoint.lent))
        return self._with_other_world_size(checkpoint)

    def _with_other_world_size(self, checkpoint: Checkpoint) -> Restored:
        """Entries that were the same on all ranks serve any number of ranks; others belong to one rank."""
        manifest = checkpoint.manifest
        parts = [checkpoint.part(rank) for rank in range(manifest.world_size)]
        shared = {name for part in parts for name in part.shared}
        if manifest.world_size == 1:
            shared |= set(checkpoint.arrays(0))
        own = {
            name
            for name, skeleton in parts[0].entries.items()
            if any(part.entries.get(name) != skeleton for part in parts)
            or not shared.issuperset(tree.array_names(skeleton))
        }
        return Restored(manifest, self._entries_of(checkpoint, 0, skip=own), sorted(own))

    def _entries_of(self, checkpoint: Checkpoint, rank: int, skip: Set[str] = frozenset()) -> dict[str, Any]:
        skeletons = {name: s for name, s in checkpoint.part(rank).entries.items() if name not in skip}
        wanted = {name for skeleton in skeletons.values() for name in tree.array_names(skeleton)}
        found: dict[str, tuple[ArraySpec, memoryview]] = {}
        for other in [rank, *(r for r in range(checkpoint.manifest.world_size) if r != rank)]:
            missing = wanted - found.keys()
            if not missing and other != rank:
                # Thousands of ranks that each read every other's part would read millions of them.
                break
            here = checkpoint.arrays(other) if other == rank else None
            names = missing & (here.keys() if here is not None else set(checkpoint.part(other).shared))
            if names:
                placed = checkpoint.arrays(other)
                found |= {name: (placed[name].spec, data) for name, data in checkpoint.read(other, names).items()}
        if absent := wanted - found.keys():
            raise DamagedError(f"{checkpoint.name} lacks the array {min(absent)!r}")

        def array(name: str, kind: str, tag: dict[str, Any]) -> object:
            return frameworks[kind].from_buffer(found[name][0], tag, found[name][1])

        frameworks = self._frameworks_for(checkpoint.manifest)
        try:
            return {name: tree.unflatten(s, array, frameworks.values()) for name, s in skeletons.items()}
        except DamagedError as error:
            # Every byte has passed its checksum: this is what was written, and it is not understood here.
            raise StateMismatchError(
                f"{checkpoint.name} passes its checks, but this program cannot decode it: {error.what}",
                safe="the checkpoint is whole",
                remedy="use the versions that wrote it; `lastgood show` names them",
            ) from error

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
