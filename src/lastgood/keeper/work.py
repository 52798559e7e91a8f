"""What is done with an order, by the keeper or, where there is none, by the rank itself: write the part, commit."""

import time
from contextlib import suppress
from pathlib import Path

import msgspec

from lastgood.core.errors import LastgoodError, RankTimeoutError
from lastgood.core.units import duration
from lastgood.keeper.protocol import Cleared, Committed, Event, Order, Written, failed, printable
from lastgood.store import durable
from lastgood.store.attempts import Journal, check_fence
from lastgood.store.committing import commit, note_failure, retain
from lastgood.store.gentle import FullSpeed, Pacer
from lastgood.store.jobdir import JobDirectory
from lastgood.store.promotion import Promoter
from lastgood.store.staging import Stage
from lastgood.store.sweep import Retention
from lastgood.store.writer import CheckpointWriter

_LOOK_S = 0.1

FENCE_LOOK_S = 2.0
"""How often it is looked for a newer attempt, while parts are waited for."""


def writer_of(job: JobDirectory, order: Order) -> CheckpointWriter:
    if order.stage:
        return Stage(job, Path(order.stage)).writer(order.step, order.attempt)
    return CheckpointWriter(job, order.step, order.attempt)


def pacer_of(order: Order) -> Pacer:
    return FullSpeed(order.writing.threads) if order.is_urgent else Pacer(order.writing)


def refuse_fenced(job: JobDirectory, order: Order) -> None:
    """Raise FencedError if a newer attempt has begun."""
    if order.stage:
        Stage(job, Path(order.stage)).check_fence(order.attempt)
        return
    with durable.explained("look for newer attempts in", job.attempts):
        check_fence(job, order.attempt)


def is_committed(job: JobDirectory, order: Order) -> bool:
    """Raises LastgoodError if that cannot be seen."""
    writer = writer_of(job, order)
    with durable.explained("look into", writer.directory, safe="earlier checkpoints are untouched"):
        return writer.is_committed()


def write_part(job: JobDirectory, order: Order, content: memoryview, pacer: Pacer) -> LastgoodError | None:
    """Write a rank's part; what went wrong, after it has been noted and given back."""
    try:
        put_part(job, order, content, pacer)
    except LastgoodError as error:
        note_failed(job, order, error)
        return error
    return None


def put_part(job: JobDirectory, order: Order, content: memoryview, pacer: Pacer) -> None:
    """Write a rank's part. Raises LastgoodError."""
    refuse_fenced(job, order)
    # An order that comes again is from a rank whose keeper was lost, perhaps right after its last deed.
    if is_committed(job, order):
        return
    writer = writer_of(job, order)
    if order.stage:
        Stage(job, Path(order.stage)).refuse_without_room(order.file_bytes)
    writer.write_laid_out(order.rank, [content], order.entries, order.shared, pacer, order.constants)


def missing_parts(job: JobDirectory, order: Order) -> list[int]:
    """The ranks whose part is not there yet. Raises LastgoodError if that cannot be seen."""
    writer = writer_of(job, order)
    with durable.explained("look for the parts in", writer.directory, safe="earlier checkpoints are untouched"):
        return writer.missing_parts(order.world_size)


def part_never_came(order: Order, ranks: list[int], how: str) -> RankTimeoutError:
    named = ", ".join(str(rank) for rank in ranks[:20])
    return RankTimeoutError(
        f"rank{'s' if len(ranks) > 1 else ''} {named} {how} of the checkpoint of step {order.step}",
        safe="earlier checkpoints are untouched",
        remedy="look for the first error in that rank's output",
    )


def commit_parts(job: JobDirectory, order: Order) -> Committed:
    """Commit a checkpoint whose parts are all there. Raises LastgoodError."""
    writer = writer_of(job, order)
    if is_committed(job, order):
        manifest = writer.secure_commit()
        return Committed(order.step, manifest.name, manifest.bytes, manifest.write_s, order.stage)
    journal = Journal(job, order.attempt)
    # How long it took must not depend on who sets the clock meanwhile.
    took_s = max(0.0, time.monotonic() - order.began)
    try:
        manifest, write_s = commit(
            writer,
            journal,
            order.world_size,
            clock=time.time,
            stage=order.stage,
            began=time.time() - took_s,
            metrics=order.metrics,
            config=order.config,
            fingerprint=order.fingerprint,
        )
    finally:
        journal.close()
    return Committed(order.step, manifest.name, manifest.bytes, write_s, order.stage)


def clear(job: JobDirectory, order: Order, retention: Retention) -> Cleared:
    """Delete what need not be kept after a commit. Raises FencedError."""
    journal = Journal(job, order.attempt)
    try:
        return Cleared(order.step, printable(retain(retention, journal, order.step)))
    finally:
        journal.close()


def give_back(job: JobDirectory, order: Order) -> None:
    """Give back what all ranks have written for a checkpoint that will not be. Only for who would commit it."""
    ranks = {order.rank}
    with suppress(LastgoodError):
        ranks |= set(range(order.world_size)) - set(missing_parts(job, order))
    for rank in ranks:
        writer_of(job, order).abandon(rank)


def note_failed(job: JobDirectory, order: Order, error: LastgoodError) -> None:
    """Note a save that has failed, and give back what it took."""
    # The keeper of rank 0 may be on another node, and about to commit what it has seen.
    writer_of(job, order).abandon(order.rank, by_committer=order.rank == 0)
    journal = Journal(job, order.attempt)
    note_failure(journal, order.step, order.rank, error)
    journal.close()


def work_at_once(job: JobDirectory, order: Order, content: memoryview) -> list[Event]:
    """Do all of an order here and now: what the keeper would have told of it. Without a stage, which is of use only
    where somebody promotes in the background."""
    order = msgspec.structs.replace(order, stage="")
    if order.constants_stage:
        try:
            promoter = Promoter(Stage(job, Path(order.constants_stage)), lambda: order.attempt)
            promoter.put_constants(order.attempt, order.constants)
        except LastgoodError as problem:
            note_failed(job, order, problem)
            return [failed(order.step, problem)]
    error = write_part(job, order, content, FullSpeed(order.writing.threads))
    if error is not None:
        return [failed(order.step, error)]
    if order.rank != 0:
        return [Written(order.step)]
    try:
        limit, fence_look_at = time.monotonic() + order.limit_s, 0.0
        while missing := missing_parts(job, order):
            if (now := time.monotonic()) > limit:
                raise part_never_came(order, missing, f"gave no part within {duration(order.limit_s)}")
            if now >= fence_look_at:
                # A newer attempt has taken away what was not committed: no part would come any more.
                refuse_fenced(job, order)
                fence_look_at = now + FENCE_LOOK_S
            time.sleep(_LOOK_S)
        committed = commit_parts(job, order)
        return [committed, clear(job, order, Retention(job, order.keep, order.attempt))]
    except LastgoodError as problem:
        note_failed(job, order, problem)
        return [failed(order.step, problem)]
