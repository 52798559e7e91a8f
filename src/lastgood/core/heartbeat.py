"""The heartbeat that each rank keeps in a small file on its node, and how the launcher reads it. Pure.

One fixed-size record per rank, rewritten in place through a memory mapping (a few microseconds), in a
directory that the launcher made. Its checksum tells a record that changed while it was read: a reader's copy is made
in no order that one could build on. Times are of CLOCK_MONOTONIC, which all processes of a node share.
"""

import struct

import msgspec
import xxhash

MAGIC = b"lastgood"
_RECORD = struct.Struct("<8sIIqqqd24s")
_CHECKSUM = struct.Struct("<I")
RECORD_BYTES = _RECORD.size + _CHECKSUM.size

STACK_SIGNAL = 50
"""Real-time signal (SIGRTMIN + 16) on which a rank writes the Python stacks of all its threads to standard
error. Sent only to processes whose heartbeat says that they listen: the default action would end them."""

TOLD = "told"
"""Phase in the record that the launcher keeps of an application without heartbeats, by what that says of itself."""


class Heartbeat(msgspec.Struct, frozen=True):
    pid: int
    step: int
    """Last finished step."""
    total_steps: int
    """-1 if not known."""
    last_good_step: int
    """Newest step that this rank knows to be committed; -1 if none is."""
    at: float
    """Monotonic time of the last sign of life."""
    phase: str
    """What it is doing: "start", "step", "save", or the name given to `run.safe_point(...)`."""
    sequence: int = 0


def heartbeat_file(rank: int) -> str:
    return f"rank-{rank:05d}"


def encode(beat: Heartbeat) -> bytes:
    phase = beat.phase.encode("utf-8", "replace")[:24]
    sequence = beat.sequence & 0xFFFFFFFF
    body = _RECORD.pack(MAGIC, sequence, beat.pid, beat.step, beat.total_steps, beat.last_good_step, beat.at, phase)
    return body + _CHECKSUM.pack(xxhash.xxh32_intdigest(body))


def decode(data: bytes) -> Heartbeat | None:
    """The heartbeat in a record; None if there is none yet, or if it is being written right now.

    >>> decode(encode(Heartbeat(1, 7, 10, 5, 3.5, "step"))).step
    7
    """
    if len(data) < RECORD_BYTES:
        return None
    body = data[: _RECORD.size]
    magic, sequence, pid, step, total, last_good, at, phase = _RECORD.unpack(body)
    if magic != MAGIC or _CHECKSUM.unpack_from(data, _RECORD.size) != (xxhash.xxh32_intdigest(body),):
        return None
    return Heartbeat(pid, step, total, last_good, at, phase.rstrip(b"\0").decode("utf-8", "replace"), sequence)
