"""What the keeper and those who talk to it say: messages over a Unix socket, with memory passed as descriptors.

    rank                                   keeper
    Hello                               -> Welcome (what is held of this rank), or Refused
    Slots + their memory                ->                       the memory that snapshots will be in
    Begin(slot)                         ->                       what was in it is no snapshot any more
    ... copies into the memory ...
    Save(slot) + the order              ->
                                        <- Written, then Committed; or Failed
    GiveUp(step)                        ->                       the ranks know that this save has failed
    GiveUpRest                          ->                       nothing more will come from other nodes
    Lend(name, rank)                    -> Lent + the memory     to restore from it
    Take                                -> Taken + the memory    a later attempt takes over the slots of this rank
    TakeUp(stage)                       ->                       an attempt begins: promote what is staged
    Drain                               -> Drained               when nothing is left to write, or to promote
    Bye                                 ->                       an orderly end

The socket has an abstract name (no file, gone with its holder), made of the user, the job and the node, so that one
job has one keeper on a node and everybody finds it. Both sides check that the other belongs to the same user.
Each message is one packet; an order, which can be large, travels in memory of its own.
"""

import array
import os
import socket
import struct
from contextlib import suppress
from typing import Any

import msgspec

import lastgood
from lastgood.core.errors import LastgoodError
from lastgood.core.manifest import MAX_DOCUMENT_BYTES, Constants
from lastgood.core.retention import Keep
from lastgood.core.writing import Writing
from lastgood.keeper.node import node_tag, this_node
from lastgood.store.jobdir import JobDirectory

PROTOCOL = 1
"""Raised when the meaning of a message changes. `Hello`, `Refused` and `Drained` never change."""

MAX_PACKET_BYTES = 64 * 2**10
MAX_DESCRIPTORS = 4

MAX_TEXT = 2000
"""Longer texts are cut, so that every message fits into a packet."""


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """First message of whoever connects. `rank` is None for one that is no rank: the launcher, a start."""

    protocol: int
    version: str
    job: str
    place: str
    """The path of the job's directory, its bytes in hexadecimal. A copy of it has the same id, and is another job all
    the same."""
    rank: int | None = None


class Held(msgspec.Struct, frozen=True):
    """A snapshot in the keeper's memory."""

    slot: int
    step: int
    attempt: int
    file_bytes: int


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    pid: int


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """`Drained` follows when nothing is left to write: then who is refused may go on without losing a snapshot."""

    pid: int
    protocol: int
    version: str
    reason: str


class Slots(msgspec.Struct, frozen=True, tag="slots"):
    """The memory of this rank's slots, in order; replaces what was there."""

    capacities: list[int]


class Begin(msgspec.Struct, frozen=True, tag="begin"):
    slot: int


class GiveUp(msgspec.Struct, frozen=True, tag="give_up"):
    """A part of this save will not come: what waits for it may stop waiting."""

    step: int
    attempt: int
    reason: str


class GiveUpRest(msgspec.Struct, frozen=True, tag="give_up_rest"):
    """The same for all saves that are being made: no rank lives on any node, and other keepers have nothing left."""

    reason: str


class Save(msgspec.Struct, frozen=True, tag="save"):
    """A descriptor comes with it: the `Order` as JSON."""

    slot: int


class Order(msgspec.Struct, frozen=True):
    """All that is needed to make a checkpoint's part of what lies in a slot, and to commit it."""

    step: int
    attempt: int
    rank: int
    world_size: int
    file_bytes: int
    entries: dict[str, Any]
    shared: list[str]
    began: float
    """When the save began, by the clock that nobody sets (time.monotonic) and that processes of a machine share."""
    limit_s: float
    """How long the commit waits for the parts of other nodes."""
    keep: Keep
    writing: Writing
    is_urgent: bool = False
    """The job waits for it: no gentleness."""
    metrics: dict[str, float] = {}
    config: dict[str, Any] = {}
    fingerprint: dict[str, str] = {}
    constants: list[Constants] = []
    """Further arrays of this part, which are in constants files already."""
    constants_stage: str = ""
    """The stage where these files are; empty for the job's own directory."""
    stage: str = ""
    """Path of the stage where the checkpoint is committed first; empty for the job's own directory."""

    @property
    def key(self) -> tuple[int, int]:
        """The checkpoint that it belongs to."""
        return (self.attempt, self.step)


class Written(msgspec.Struct, frozen=True, tag="written"):
    """This rank's part is durable."""

    step: int


class Committed(msgspec.Struct, frozen=True, tag="committed"):
    step: int
    name: str
    bytes: int
    write_s: float
    """From the beginning of the save to the commit."""
    stage: str = ""
    """Where it is until it is promoted; empty for the job's own directory."""
    detour: str = ""
    """Why it is not on the stage that was asked for; empty if it is."""


class Cleared(msgspec.Struct, frozen=True, tag="cleared"):
    """What retention did after a commit."""

    step: int
    trouble: str = ""
    """Why it could not do its work; empty if it could."""


class Promoted(msgspec.Struct, frozen=True, tag="promoted"):
    """What became of what was staged."""

    step: int
    """The newest step that the job's own directory has; 0 if that could not be found out."""
    trouble: str = ""
    """Why something could not be promoted; empty if all could."""
    is_left: bool = False
    """It is tried again."""


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """A save that did not become a checkpoint."""

    step: int
    kind: str
    what: str
    safe: str
    remedy: str


class Lend(msgspec.Struct, frozen=True, tag="lend"):
    step: int
    attempt: int
    rank: int


class Lent(msgspec.Struct, frozen=True, tag="lent"):
    """The answer; the memory comes with it if it is held."""

    is_held: bool


class Take(msgspec.Struct, frozen=True, tag="take"):
    pass


class Taken(msgspec.Struct, frozen=True, tag="taken"):
    """The slots of this rank, whose memory comes with it."""

    capacities: list[int]
    held: list[Held]


class TakeUp(msgspec.Struct, frozen=True, tag="take_up"):
    """An attempt begins that stages its checkpoints: what is there already, and not promoted, becomes its business."""

    stage: str
    attempt: int
    keep: Keep
    writing: Writing


class Drain(msgspec.Struct, frozen=True, tag="drain"):
    is_last: bool = False
    """Nothing will be given any more: also what is staged is waited for, until it is promoted or given up."""


class Drained(msgspec.Struct, frozen=True, tag="drained"):
    pass


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    """What is going on?"""


class Standing(msgspec.Struct, frozen=True, tag="standing"):
    pid: int
    waiting: list[int]
    """Steps that are being written or wait for it."""
    held_bytes: int


class Bye(msgspec.Struct, frozen=True, tag="bye"):
    pass


Request = Hello | Slots | Begin | Save | GiveUp | GiveUpRest | Lend | Take | TakeUp | Drain | Ask | Bye
Event = Written | Committed | Cleared | Promoted | Failed
Answer = Welcome | Refused | Lent | Taken | Drained | Standing | Event

_encode = msgspec.json.Encoder().encode


def address(job: str, node: str | None = None) -> bytes:
    """The abstract name of the keeper of a job (by its id) of this user on a node, this one if none is named."""
    tag = node_tag(this_node() if node is None else node)
    return f"\0lastgood-keeper-{os.getuid()}-{job}{tag and '-'}{tag}".encode(errors="surrogateescape")


def hello(job: JobDirectory, rank: int | None) -> Hello:
    return Hello(PROTOCOL, lastgood.__version__, job.id, os.fsencode(job.path).hex(), rank)


class Channel:
    """One side of a connection. Raises OSError (ConnectionError, TimeoutError among them) where it breaks."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link

    def fileno(self) -> int:
        return self._link.fileno()

    def is_of_our_user(self) -> bool:
        credentials = self._link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        uid: int = struct.unpack("3i", credentials)[1]
        return uid == os.getuid()

    def peer_pid(self) -> int:
        credentials = self._link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid: int = struct.unpack("3i", credentials)[0]
        return pid

    def send(self, message: msgspec.Struct, descriptors: list[int] | None = None, limit_s: float = 10.0) -> None:
        """Send a message and copies of descriptors, which stay the caller's."""
        self._link.settimeout(limit_s)
        ancillary = []
        if descriptors:
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        self._link.sendmsg([_encode(message)], ancillary)

    def receive(self, kind: Any, limit_s: float) -> tuple[Any, list[int]]:
        """The next message, one of `kind`, and the descriptors that came with it, which are now the caller's.

        Raises TimeoutError after the limit (BlockingIOError at once where it is 0), ConnectionError if the other
        side is gone or does not speak as it should.
        """
        self._link.settimeout(limit_s)
        room = socket.CMSG_SPACE(MAX_DESCRIPTORS * array.array("i").itemsize)
        try:
            data, ancillary, flags, _ = self._link.recvmsg(MAX_PACKET_BYTES, room, socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:
            # The other side died with news of ours unread, which is told first. What it had sent is still there.
            data, ancillary, flags, _ = self._link.recvmsg(MAX_PACKET_BYTES, room, socket.MSG_CMSG_CLOEXEC)
        descriptors = array.array("i")
        for level, number, content in ancillary:
            if (level, number) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
        try:
            if not data:
                raise ConnectionError("the other side has closed the connection")
            if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                raise ConnectionError("a message was cut short")
            return msgspec.json.decode(data, type=kind), list(descriptors)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ConnectionError) as error:
            for fd in descriptors:
                os.close(fd)
            if isinstance(error, ConnectionError):
                raise
            raise ConnectionError(f"a message that makes no sense: {error}") from error

    def stop_sending(self) -> None:
        """The other side reads that this connection is at its end. What it still sends can be received."""
        with suppress(OSError):
            self._link.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._link.close()


def printable(text: str) -> str:
    """A text that a message can carry: names of files can have bytes that are no text."""
    return text[:MAX_TEXT].encode(errors="backslashreplace").decode()


def failed(step: int, error: LastgoodError) -> Failed:
    texts = [printable(text) for text in (error.what, error.safe, error.remedy)]
    # The other side knows the classes of core only.
    known = next(kind for kind in type(error).__mro__ if kind.__module__ == LastgoodError.__module__)
    return Failed(step, known.__name__, *texts)


def pack(order: Order) -> int:
    """A descriptor of memory that holds an order."""
    fd = os.memfd_create("lastgood-order", os.MFD_CLOEXEC)
    data = memoryview(_encode(order))
    while data:
        data = data[os.write(fd, data) :]
    return fd


def unpack(fd: int) -> Order:
    """The order in a descriptor, which is closed. Raises ConnectionError for what is none."""
    try:
        size = os.fstat(fd).st_size
        if size > MAX_DOCUMENT_BYTES:
            raise ConnectionError(f"it has {size} bytes")
        data = b"".join(_pieces(fd, size))
        return msgspec.json.decode(data, type=Order)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConnectionError(f"an order that makes no sense: {error}") from error
    finally:
        os.close(fd)


def _pieces(fd: int, size: int) -> list[bytes]:
    pieces, at = [], 0
    while at < size and (piece := os.pread(fd, size - at, at)):
        pieces.append(piece)
        at += len(piece)
    return pieces
