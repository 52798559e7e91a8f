"""The checkpoints that a job has, for a report: how old, how large, who has read them, and what each rank took to write.

Nothing but manifests is read, unless verification is asked for.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from lastgood.core import layout
from lastgood.core.accounting import Record
from lastgood.core.errors import DamagedError, LastgoodError, NoSuchJobError
from lastgood.core.manifest import Manifest
from lastgood.launch.ports import LastGood
from lastgood.report.figures import median
from lastgood.report.model import Checkpoint, RankFigures, RankWrite
from lastgood.report.timeline import step_of
from lastgood.store.jobdir import JobDirectory
from lastgood.store.reader import open_checkpoint
from lastgood.store.staging import find_stages
from lastgood.store.survey import State, Surveyed, last_good, survey

_CLOCK_S = 0.05
"""Times of files are as coarse as the kernel's clock tick, and come from the file server's clock."""


class Read(msgspec.Struct, frozen=True):
    """That an attempt read all of a checkpoint, or could not."""

    is_whole: bool
    attempt: int
    at: float


def resumed_from(records: Sequence[Record], found: Sequence[Surveyed]) -> dict[int, str]:
    """The name of the checkpoint that each attempt resumed from, where that can be told."""
    names = {one.name: one.listed.step for one in found}
    for record in records:
        for event in record.events:
            if event.kind == "committed" and (step := step_of(event)) is not None:
                names[str(event.data.get("name", ""))] = step
    by_step: dict[int, list[str]] = {}
    for name, step in names.items():
        by_step.setdefault(step, []).append(name)
    told: dict[int, str] = {}
    for record in records:
        started = record.first("started")
        if started is None or started.data.get("how") != "resumed":
            continue
        if started.data.get("name"):
            told[record.number] = str(started.data["name"])
            continue
        at_step, rejected = step_of(started), started.data.get("rejected")
        candidates = [
            name
            for name in by_step.get(-1 if at_step is None else at_step, [])
            if not (isinstance(rejected, list) and name in rejected)
            and (layout.parse_checkpoint_name(name) or (0, 0))[1] < record.number
        ]
        if candidates:
            told[record.number] = max(candidates, key=lambda name: layout.parse_checkpoint_name(name) or (0, 0))
    return told


def reads_of(records: Sequence[Record], resumed: dict[int, str]) -> dict[str, Read]:
    """Which checkpoints attempts have read, the newest word on each. One that came from memory was not read."""
    found: dict[str, Read] = {}
    for record in records:
        for event in record.events:
            if event.kind == "rejected":
                found[str(event.data.get("name", ""))] = Read(False, record.number, event.at)
        started, name = record.first("started"), resumed.get(record.number, "")
        if started is not None and name and not started.data.get("is_from_memory") and not record.is_wrapped:
            found[name] = Read(True, record.number, started.at)
    return found


def survey_all(job: JobDirectory) -> list[tuple[Surveyed, str]]:
    """Each checkpoint with the stage that it is on (empty for the job's own directory), newest first. Raises StorageError
    or PermissionDeniedError if the job's own cannot be listed."""
    found = [(one, "") for one in survey(job)]
    here = {one.name for one, _ in found if one.state is State.GOOD}
    found += [(one, stage) for one, stage in _staged(job) if one.name not in here]
    return sorted(found, key=lambda pair: pair[0].listed.age_key, reverse=True)


def _staged(job: JobDirectory) -> Iterator[tuple[Surveyed, str]]:
    for stage in find_stages(job):
        with suppress(OSError, LastgoodError):
            for one in survey(stage.staged):
                if one.state is not State.INCOMPLETE:
                    yield one, os.fspath(stage.path)


def checkpoints_of(
    job: JobDirectory, found: list[tuple[Surveyed, str]], reads: dict[str, Read], now: float, *, is_verified: bool
) -> list[Checkpoint]:
    """`is_verified`: read all of each, which takes as long as a restart would."""
    newest = last_good([one for one, _ in found])
    whole: set[str] = set()
    lines = []
    for one, stage in found:
        line = _line(job, one, stage, reads.get(one.name), now, is_last_good=one is newest)
        if is_verified and not stage and one.manifest is not None:
            line = _read(job, one, line, whole)
            if line.problem and not os.path.lexists(job.checkpoints / one.name / layout.MANIFEST_FILE):
                # Retention has deleted it meanwhile.
                continue
        lines.append(line)
    return lines


def _line(
    job: JobDirectory, one: Surveyed, stage: str, read: Read | None, now: float, *, is_last_good: bool
) -> Checkpoint:
    manifest = one.manifest
    directory = job.checkpoints / one.name
    who = "" if read is None else f"attempt {read.attempt}"
    return Checkpoint(
        name=one.name,
        step=one.listed.step,
        attempt=one.listed.attempt,
        state=one.state.value,
        problem=one.problem,
        created=manifest.created if manifest else None,
        age_s=now - manifest.created if manifest else None,
        bytes=manifest.bytes if manifest else None,
        world_size=manifest.world_size if manifest else None,
        is_last_good=is_last_good,
        is_pinned=bool(one.listed.pinned),
        stage=stage,
        verified="no" if read is None else "restored" if read.is_whole else "failed",
        verified_by=f"{who}, which resumed from it" if read is not None and read.is_whole else who,
        verified_at=None if read is None else read.at,
        ranks=rank_writes(directory, manifest) if manifest is not None and not stage else [],
    )


def _read(job: JobDirectory, one: Surveyed, line: Checkpoint, whole: set[str]) -> Checkpoint:
    try:
        problems = open_checkpoint(job, one.name).verify(whole)
    except (DamagedError, NoSuchJobError) as error:
        problems = [error.what]
    except OSError as error:
        return msgspec.structs.replace(line, problem=line.problem or f"cannot be read: {error.strerror or error}")
    return msgspec.structs.replace(
        line,
        verified="failed" if problems else "read",
        verified_by="this report",
        verified_at=time.time(),
        problem=line.problem or "; ".join(problems),
    )


def of_application(good: LastGood, attempt: int, now: float) -> Checkpoint:
    """The checkpoint that a command of its own has left, as its launcher saw it last."""
    return Checkpoint(
        name=good.name,
        step=good.step,
        attempt=attempt,
        state="seen",
        problem="",
        created=good.at,
        age_s=now - good.at,
        bytes=good.size_bytes,
        world_size=None,
        is_last_good=True,
        is_pinned=False,
        stage="",
        verified="no",
        verified_by="",
        verified_at=None,
        ranks=[],
    )


def rank_writes(directory: Path, manifest: Manifest) -> list[RankWrite]:
    """What each rank wrote, and how long after the save began its part was there. A copy of a checkpoint has files that
    are younger than its commit, and tells nothing of that."""
    began = manifest.created - manifest.write_s
    writes = []
    for part in manifest.parts:
        took_s: float | None = None
        with suppress(OSError):
            took_s = os.stat(directory / layout.part_file(part.rank)).st_mtime - began
        if took_s is not None and not (manifest.write_s > 0 and -_CLOCK_S <= took_s <= manifest.write_s + _CLOCK_S):
            took_s = None
        write_s = None if took_s is None else min(max(took_s, 0.0), manifest.write_s)
        writes.append(RankWrite(rank=part.rank, bytes=part.bytes + part.data_bytes, write_s=write_s))
    return writes


def rank_figures(checkpoints: Sequence[Checkpoint]) -> list[RankFigures]:
    """`checkpoints` newest first."""
    times: dict[int, list[float]] = {}
    sizes: dict[int, int] = {}
    for checkpoint in checkpoints:
        for write in checkpoint.ranks:
            if write.write_s is not None:
                times.setdefault(write.rank, []).append(write.write_s)
                sizes.setdefault(write.rank, write.bytes)
    return [
        RankFigures(
            rank=rank,
            checkpoints=len(found),
            median_write_s=median(found) or 0.0,
            slowest_write_s=max(found),
            bytes=sizes[rank],
        )
        for rank, found in sorted(times.items())
    ]
