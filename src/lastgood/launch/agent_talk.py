"""What the launcher and its agents on the nodes say to each other: one JSON object a line.

    launcher                                 agent of a node
                                         <-  Ready
    Begin(attempt, heartbeats)           ->                        an attempt begins
                                         <-  Beats                 what its ranks here say, when that has changed
    Deliver(number), Stacks, Drain       ->
                                         <-  Done                  the answer to each of them
                                         <-  Told, Happened        for people, and for the journal
                                         <-  Signalled             the agent got a signal itself
    Over                                 ->                        the attempt has ended
    Bye                                  ->                        an orderly end

Commands go to all agents at once (srun copies its standard input to every task), so each answer says which node it
is from.
"""

from typing import Any

import msgspec

from lastgood.core.heartbeat import Heartbeat
from lastgood.core.stopping import Manner

MAX_LINE_BYTES = 900
"""Slurm passes lines of up to 1,024 bytes on as they are, and cuts longer ones between those of other tasks."""

MAX_TEXT = 500


class Begin(msgspec.Struct, frozen=True, tag_field="kind", tag="begin"):
    """Also told again to an agent that comes late: it then changes nothing for the others."""

    id: int
    launch: str
    attempt: int
    heartbeats: str
    grace_s: float


class Deliver(msgspec.Struct, frozen=True, tag_field="kind", tag="signal"):
    """Send a signal to the processes of the attempt, as core.stopping says. 0, as it is, counts those that live."""

    id: int
    number: int
    only_to: tuple[str, ...] = ()
    """Names of the processes that get it; empty: all of them."""
    manner: Manner = Manner.STOP


class Stacks(msgspec.Struct, frozen=True, tag_field="kind", tag="stacks"):
    id: int


class Drain(msgspec.Struct, frozen=True, tag_field="kind", tag="drain"):
    """Answered when the keeper has written what there was; with `is_last`, also promoted it."""

    id: int
    is_last: bool = False


class GiveUpRest(msgspec.Struct, frozen=True, tag_field="kind", tag="give_up_rest"):
    """For the keeper that still waits: the others have nothing left to write, and no rank lives."""


class Over(msgspec.Struct, frozen=True, tag_field="kind", tag="over"):
    pass


class Bye(msgspec.Struct, frozen=True, tag_field="kind", tag="bye"):
    pass


class Ready(msgspec.Struct, frozen=True, tag_field="kind", tag="ready"):
    node: str
    pid: int
    version: str
    sees_job: bool
    keeper: int
    """Its process; 0 if there is none."""


class Beat(msgspec.Struct, frozen=True, array_like=True):
    """A heartbeat, with the time since then in place of the time: each node has a clock of its own."""

    rank: int
    pid: int
    step: int
    total_steps: int
    last_good_step: int
    age_s: float
    phase: str
    sequence: int
    listens: bool
    """It writes its stacks when asked."""


class Beats(msgspec.Struct, frozen=True, tag_field="kind", tag="beats"):
    """Sent now and then even if nothing has changed: a sign of life of the agent."""

    node: str
    attempt: int
    beats: list[Beat] = []


class Done(msgspec.Struct, frozen=True, tag_field="kind", tag="done"):
    node: str
    id: int
    count: int = 0
    """How many processes got the signal."""


class Told(msgspec.Struct, frozen=True, tag_field="kind", tag="told"):
    node: str
    text: str


class Happened(msgspec.Struct, frozen=True, tag_field="kind", tag="happened"):
    node: str
    event: str
    data: dict[str, Any]


class Signalled(msgspec.Struct, frozen=True, tag_field="kind", tag="signalled"):
    """A scheduler signals all steps of a job, and so this one."""

    node: str
    number: int


Command = Begin | Deliver | Stacks | Drain | GiveUpRest | Over | Bye
Answer = Ready | Beats | Done | Told | Happened | Signalled

_encode = msgspec.json.Encoder().encode


def line_of(message: Command | Answer) -> bytes:
    return _encode(message) + b"\n"


def shortened(text: str) -> str:
    """A text that fits into a line."""
    text = text.encode(errors="backslashreplace").decode()
    while len(msgspec.json.encode(text)) > MAX_TEXT:
        text = text[: len(text) * 3 // 4] + "..."
    return text


def as_beat(rank: int, beat: Heartbeat, now: float, *, listens: bool) -> Beat:
    age_s = round(max(0.0, now - beat.at), 3)
    return Beat(
        rank, beat.pid, beat.step, beat.total_steps, beat.last_good_step, age_s, beat.phase, beat.sequence, listens
    )


def as_heartbeat(beat: Beat, now: float) -> Heartbeat:
    """By the clock of whoever hears of it.

    >>> as_heartbeat(Beat(0, 7, 3, 10, 2, 1.5, "step", 4, True), 100.0).at
    98.5
    """
    at = now - beat.age_s
    return Heartbeat(beat.pid, beat.step, beat.total_steps, beat.last_good_step, at, beat.phase, beat.sequence)


class Lines:
    """Bytes as they come, taken apart into lines; one that is too long is dropped."""

    def __init__(self) -> None:
        self._rest = b""
        self._is_skipping = False

    def feed(self, data: bytes) -> list[bytes]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if lines and self._is_skipping:
            del lines[0]
            self._is_skipping = False
        if len(self._rest) > 64 * 1024:
            self._rest, self._is_skipping = b"", True
        return lines
