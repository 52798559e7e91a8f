"""States of which every byte is known, so that a checker can tell one from another and from a mixture."""

import os
import random
import time
import uuid
from collections.abc import Iterable
from functools import cache

from lastgood.core import tree
from lastgood.core.errors import DamagedError, FormatVersionError
from lastgood.core.tensorfile import ArraySpec
from lastgood.store import catalogue, reader, writer
from lastgood.store.jobdir import JobDirectory
from lastgood.store.writer import CheckpointWriter

RANKS = 2
BLOCK_BYTES = 4096
FLOATS = 3000


def use_small_blocks() -> None:
    """Several blocks per file from a few kilobytes of state. For processes that write checkpoints."""
    writer.BLOCK_BYTES = BLOCK_BYTES


def make_repeatable(seed: int) -> None:
    """From here on this process writes the same bytes each time that it does the same."""
    source = random.Random(seed)
    os.urandom = source.randbytes
    os.getpid = lambda: 4711
    uuid.uuid4 = lambda: uuid.UUID(bytes=source.randbytes(16))
    time.time = lambda: 1.8e9


@cache
def arrays_of(step: int, rank: int) -> dict[str, bytes]:
    weights = bytes((step * 7 + rank * 3 + at * 13) % 251 for at in range(4 * FLOATS))
    return {"model.w": weights, "count": step.to_bytes(8, "little")}


def entries_of(step: int, rank: int) -> dict[str, object]:
    return {"values": {"step": step, "rank": rank, "text": f"state of {step}"}}


def write(job: JobDirectory, step: int, attempt: int) -> None:
    """A whole save of all ranks, up to the return of its commit."""
    save = CheckpointWriter(job, step, attempt)
    for rank in range(RANKS):
        content = arrays_of(step, rank)
        specs = [ArraySpec("model.w", "F32", (FLOATS,)), ArraySpec("count", "I64", ())]
        save.write_part(rank, [(spec, memoryview(content[spec.name])) for spec in specs], entries_of(step, rank))
    save.commit(RANKS, metrics={"loss": 1.0 / step})


def matches(checkpoint: reader.Checkpoint, step: int) -> bool:
    """Whether all that can be read from a checkpoint is the state of that step, bit for bit."""
    return checkpoint.manifest.world_size == RANKS and all(
        {name: bytes(data) for name, data in checkpoint.read(rank, checkpoint.arrays(rank)).items()}
        == arrays_of(step, rank)
        and tree.unflatten(checkpoint.part(rank).entries, lambda name, kind, tag: name) == entries_of(step, rank)
        for rank in range(RANKS)
    )


def is_whole(job: JobDirectory, name: str) -> bool:
    """Whether a committed checkpoint passes its checks and is what was written, bit for bit."""
    checkpoint = reader.open_checkpoint(job, name)
    return checkpoint.verify() == [] and matches(checkpoint, checkpoint.manifest.step)


def newest_good(job: JobDirectory, damaged: list[str] | None = None) -> int | None:
    """The step that a start would resume from: the newest whole one, compared with what was written.

    Names that failed their checks are added to `damaged`; a whole one with other content is an assertion.
    """
    for listed in catalogue.list_checkpoints(job):
        if not listed.is_committed or listed.rejected:
            continue
        try:
            checkpoint = reader.open_checkpoint(job, listed.name)
            problems = checkpoint.verify()
            if problems:
                raise DamagedError(problems[0])
            assert matches(checkpoint, listed.step), f"{listed.name} passes its checks but is not what was written"
        except (DamagedError, FormatVersionError):
            assert damaged is not None, f"{listed.name} is committed but damaged"
            damaged.append(listed.name)
            continue
        return listed.step
    return None


def leftovers(job: JobDirectory, allowed: Iterable[str] = ()) -> list[str]:
    """Files that no reader counts: temporary ones, and checkpoint directories without a manifest."""
    found = [str(p.relative_to(job.path)) for p in job.path.rglob("*.part")]
    found += [c.name for c in catalogue.list_checkpoints(job) if not c.is_committed]
    return sorted(set(found) - set(allowed))
