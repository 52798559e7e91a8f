"""The documents of a job on disk, as types. docs/reference/format.md describes them for readers.

Unknown members are ignored, so that later versions of the same format may add some; a higher
`format` number is refused, because it may mean that a known member changed its meaning.
"""

import re
from typing import Any

import msgspec

from lastgood.core import layout
from lastgood.core.errors import DamagedError, FormatVersionError

MAX_DOCUMENT_BYTES = 256 * 2**20
"""No document of ours is larger; a claim beyond it is damage, and is not read into memory."""

MAX_RANKS = 1_000_000

MAX_BLOCK_BYTES = 64 * 2**20
"""Largest piece of a file with a checksum of its own: a reader holds one in memory."""


class Job(msgspec.Struct, frozen=True):
    """job.json: the identity of a job. `created` is in seconds since 1970."""

    format: int
    id: str
    created: float


class Attempt(msgspec.Struct, frozen=True):
    """attempts/NNNN.json: one execution of the job; its exclusive creation claims the number."""

    format: int
    job: str
    attempt: int
    started: float
    host: str
    pid: int
    launch: str
    """Token of the launcher that claimed it; empty when the program ran without one."""
    fresh: bool = False
    """A new start was meant: checkpoints of earlier attempts are set aside from here on."""
    restarts: dict[str, int] = {}
    """Restart counts that the scheduler and others stated, by variable name."""


class DataFile(msgspec.Struct, frozen=True):
    """A safetensors file with the checksum of each of its blocks (XXH3-64, 16 hex digits each, joined)."""

    file: str
    bytes: int
    block_bytes: int
    xxh3: str


class Constants(msgspec.Struct, frozen=True):
    """Arrays that a part takes from a constants file: written once, and referred to by several checkpoints."""

    data: DataFile
    arrays: list[str]
    """Those of the file that belong to this part's state."""


class Part(msgspec.Struct, frozen=True):
    """rank-NNNNN.json: what one rank put into a checkpoint."""

    format: int
    job: str
    step: int
    attempt: int
    rank: int
    data: DataFile
    entries: dict[str, Any]
    """The skeleton of each entry of the state (see core.tree)."""
    shared: list[str] = []
    """Arrays of this rank that every rank's state refers to: equal on all ranks, stored once."""
    constants: list[Constants] = []
    """Arrays of this rank that are not in its file. Where there are any, the format is CONSTANTS_FORMAT."""


class PartRef(msgspec.Struct, frozen=True):
    """A rank's part as the manifest knows it: its size and the XXH3-64 of its bytes."""

    rank: int
    bytes: int
    xxh3: str
    data_bytes: int


class ConstantsRef(msgspec.Struct, frozen=True):
    """A constants file that some part refers to. Retention keeps what a manifest names here."""

    file: str
    bytes: int


class Manifest(msgspec.Struct, frozen=True):
    """manifest.json: a checkpoint exists when this file does.

    It vouches for every part by checksum, and each part for every block of its data, so that the
    manifest stays small however many arrays there are.
    """

    format: int
    job: str
    step: int
    attempt: int
    created: float
    world_size: int
    parts: list[PartRef]
    metrics: dict[str, float] = {}
    config: dict[str, Any] = {}
    fingerprint: dict[str, str] = {}
    write_s: float = 0.0
    constants: list[ConstantsRef] = []
    """Every constants file that a part refers to, in the order of their names."""

    @property
    def name(self) -> str:
        return layout.checkpoint_name(self.step, self.attempt)

    @property
    def bytes(self) -> int:
        """What this checkpoint alone takes; constants belong to several."""
        return sum(part.bytes + part.data_bytes for part in self.parts)

    @property
    def constants_bytes(self) -> int:
        return sum(constants.bytes for constants in self.constants)


class Mark(msgspec.Struct, frozen=True):
    """rejected.json and pinned.json: something that was decided about a checkpoint, and why."""

    format: int
    reason: str
    at: float
    attempt: int = 0


class StageRecord(msgspec.Struct, frozen=True):
    """stages/<digest>.json: where a node stages checkpoints of the job before they come to its own directory."""

    format: int
    job: str
    host: str
    path: str
    """The directory that was given; what belongs to the job is in its directory named like the job's id."""
    attempt: int
    """The newest attempt that staged there."""


class Finished(msgspec.Struct, frozen=True):
    """finished.json: all steps are done; ends a chain of segments."""

    format: int
    job: str
    step: int
    attempt: int
    at: float


_HEX16 = re.compile(r"[0-9a-f]{16}\Z")


def check_format(number: int, name: str, *, may_have_constants: bool = False) -> None:
    """Raise FormatVersionError if a document was written by a newer version than this."""
    newest = layout.CONSTANTS_FORMAT if may_have_constants else layout.FORMAT_VERSION
    if number > newest:
        raise FormatVersionError(
            f"{name} has format {number}; this version of lastgood reads up to {newest}",
            safe="nothing was changed",
            remedy="use the version of lastgood that wrote it, or a newer one",
        )
    if number < 1:
        raise DamagedError(f"{name} has format {number}")


def check_manifest(manifest: Manifest, name: str, job: str | None) -> None:
    """Raise DamagedError unless a manifest is consistent in itself and belongs where it was found.

    `name` is the checkpoint's directory name; `job` the id of the job it should belong to.
    """
    if manifest.name != name:
        raise DamagedError(f"{name}/manifest.json speaks of {manifest.name}: it was copied from another checkpoint")
    if job is not None and manifest.job != job:
        raise DamagedError(f"{name}/manifest.json belongs to job {manifest.job}, not to this job, {job}")
    if not 1 <= manifest.world_size <= MAX_RANKS:
        raise DamagedError(f"{name}/manifest.json claims {manifest.world_size} ranks")
    if [part.rank for part in manifest.parts] != list(range(manifest.world_size)):
        raise DamagedError(f"{name}/manifest.json lists {len(manifest.parts)} parts for {manifest.world_size} ranks")
    for part in manifest.parts:
        if not 0 < part.bytes <= MAX_DOCUMENT_BYTES or part.data_bytes < 0 or not _HEX16.match(part.xxh3):
            raise DamagedError(f"{name}/manifest.json has an impossible entry for rank {part.rank}")
    _check_constants_of_manifest(manifest, name)


def _check_constants_of_manifest(manifest: Manifest, name: str) -> None:
    names = [constants.file for constants in manifest.constants]
    if names and manifest.format < layout.CONSTANTS_FORMAT:
        raise DamagedError(f"{name}/manifest.json refers to constants, which format {manifest.format} does not have")
    if names != sorted(set(names)):
        raise DamagedError(f"{name}/manifest.json lists its constants files in disorder")
    for constants in manifest.constants:
        parsed = layout.parse_constants_file(constants.file)
        if parsed is None or parsed[1] != manifest.attempt or constants.bytes < 10:
            raise DamagedError(f"{name}/manifest.json has an impossible entry for the constants {constants.file!r}")


def check_part(part: Part, manifest: Manifest, rank: int) -> None:
    """Raise DamagedError unless a part fits the manifest that vouches for it."""
    name = f"{manifest.name}/{layout.part_file(rank)}"
    found = (part.job, part.step, part.attempt, part.rank)
    if found != (manifest.job, manifest.step, manifest.attempt, rank):
        raise DamagedError(f"{name} belongs to rank {part.rank} of step {part.step}, attempt {part.attempt}")
    data = part.data
    if data.file != layout.data_file(rank):
        raise DamagedError(f"{name} names the file {data.file!r}; only {layout.data_file(rank)} is allowed")
    _check_blocks(data, manifest.parts[rank].data_bytes, name)
    if part.constants and part.format < layout.CONSTANTS_FORMAT:
        raise DamagedError(f"{name} refers to constants, which format {part.format} does not have")
    listed = {constants.file: constants.bytes for constants in manifest.constants}
    taken: set[str] = set()
    for constants in part.constants:
        if constants.data.file not in listed:
            raise DamagedError(f"{name} refers to {constants.data.file!r}, and the manifest does not")
        _check_blocks(constants.data, listed[constants.data.file], name)
        if not constants.arrays or len(taken) + len(constants.arrays) > len(taken.union(constants.arrays)):
            raise DamagedError(f"{name} takes no array, or one twice, from {constants.data.file}")
        taken.update(constants.arrays)


def _check_blocks(data: DataFile, expected_bytes: int, name: str) -> None:
    if data.bytes != expected_bytes or data.bytes < 10:
        raise DamagedError(f"{name} and the manifest disagree on the size of {data.file}")
    if not 4096 <= data.block_bytes <= MAX_BLOCK_BYTES:
        raise DamagedError(f"{name} states blocks of {data.block_bytes} bytes")
    blocks = -(-data.bytes // data.block_bytes)
    if len(data.xxh3) != 16 * blocks:
        raise DamagedError(f"{name} has {len(data.xxh3) // 16} checksums for {blocks} blocks")
