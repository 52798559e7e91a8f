"""The heartbeat that each rank keeps in a small file on its node, and how the launcher reads it. Pure.

One fixed-size record per rank, rewritten in place through a memory mapping (a few microseconds), in a
directory that the launcher made. The sequence number stands at both ends of it. The writer changes the end
first and the beginning last, a reader goes from the beginning to the end, and numbers that differ tell a
record that changed meanwhile. Times are of CLOCK_MONOTONIC, which all processes of a node share.
"""

import struct

import msgspec

MAGIC = b"lastgood"
_RECORD = struct.Struct("<8sIIqqqqd24s")
_SEQUENCE = struct.Struct("<I")
RECORD_BYTES = 128

WRITE_ORDER = (
    slice(RECORD_BYTES - _SEQUENCE.size, RECORD_BYTES),
    slice(len(MAGIC) + _SEQUENCE.size, RECORD_BYTES - _SEQUENCE.size),
    slice(0, len(MAGIC) + _SEQUENCE.size),
)
"""The pieces of a record, in the order in which they have to be rewritten."""

STACK_SIGNAL = 50
"""Real-time signal (SIGRTMIN + 16) on which a rank writes the Python stacks of all its threads to standard
error. Sent only to processes whose heartbeat says that they listen: the default action would end them."""


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
    body = _RECORD.pack(MAGIC, sequence, beat.pid, beat.step, beat.total_steps, beat.last_good_step, 0, beat.at, phase)
    return body.ljust(RECORD_BYTES - _SEQUENCE.size, b"\0") + _SEQUENCE.pack(sequence)


def decode(data: bytes) -> Heartbeat | None:
    """The heartbeat in a record; None if there is none yet, or if it is being written right now.

    >>> decode(encode(Heartbeat(1, 7, 10, 5, 3.5, "step"))).step
    7
    """
    if len(data) < RECORD_BYTES:
        return None
    magic, sequence, pid, step, total, last_good, _, at, phase = _RECORD.unpack(data[: _RECORD.size])
    if magic != MAGIC or _SEQUENCE.unpack_from(data, RECORD_BYTES - _SEQUENCE.size) != (sequence,):
        return None
    return Heartbeat(pid, step, total, last_good, at, phase.rstrip(b"\0").decode("utf-8", "replace"), sequence)
