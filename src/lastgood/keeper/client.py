"""Talking to the keeper: from a rank, from the start of a job, from the launcher."""

import os
import socket
import time
from collections import deque
from contextlib import suppress
from typing import TypeVar

import msgspec

from lastgood.core.retention import Keep
from lastgood.core.writing import Writing
from lastgood.keeper import protocol
from lastgood.keeper.arena import Arena
from lastgood.keeper.protocol import Channel, Event, Held, Order
from lastgood.store.jobdir import JobDirectory
from lastgood.store.processes import birth_of, is_alive

ANSWER_LIMIT_S = 20.0
"""Answers that need no writing come at once; a machine that swaps may take a while."""

T = TypeVar("T", bound=msgspec.Struct)


class NoKeeperError(OSError):
    """No keeper can be talked to; the text says why."""


class RefusedError(NoKeeperError):
    """There is a keeper, and it will not serve this program."""


class Keeper:
    """A connection to the keeper of a job on this node. Methods raise OSError when it is lost."""

    def __init__(
        self, job: JobDirectory, rank: int | None = None, limit_s: float = ANSWER_LIMIT_S, drain_s: float = 0.0
    ) -> None:
        """Connect. Raises NoKeeperError if there is none, or none that answers; RefusedError if it refuses, with
        `drain_s` after it has written what there was, or that time."""
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel = Channel(link)
        self._events: deque[Event] = deque()
        try:
            _connect(link, protocol.address(job.id), limit_s)
            if not self._channel.is_of_our_user():
                raise NoKeeperError("a process of another user answers under the keeper's name")
            self.pid = self._greet(job, rank, limit_s, drain_s)
            self._birth = birth_of(self.pid) or ""
        except OSError as error:
            self._channel.close()
            if isinstance(error, NoKeeperError):
                raise
            reason = "none is running" if isinstance(error, ConnectionRefusedError) else str(error)
            raise NoKeeperError(reason) from error

    def _greet(self, job: JobDirectory, rank: int | None, limit_s: float, drain_s: float) -> int:
        self._channel.send(protocol.hello(job, rank))
        answer, _ = self._channel.receive(protocol.Welcome | protocol.Refused, limit_s)
        if isinstance(answer, protocol.Refused):
            with suppress(OSError):
                if drain_s:
                    self._await(protocol.Drained, drain_s)
            raise RefusedError(f"{answer.reason} (process {answer.pid})")
        return int(answer.pid)

    def may_live(self) -> bool:
        """False if the process is known to have ended."""
        return is_alive(self.pid, self._birth)

    def offer(self, arenas: list[Arena]) -> None:
        """The memory that this rank's snapshots will be in, from now on."""
        self._channel.send(protocol.Slots([arena.capacity for arena in arenas]), [arena.fd for arena in arenas])

    def begin(self, slot: int) -> None:
        """What is in a slot is about to be overwritten."""
        self._channel.send(protocol.Begin(slot))

    def give_up(self, step: int, attempt: int, reason: str) -> None:
        """The ranks know that this save has failed: what waits for a part of it may stop waiting."""
        self._channel.send(protocol.GiveUp(step, attempt, protocol.printable(reason)))

    def give_up_rest(self, reason: str) -> None:
        """No rank lives, and the keepers of other nodes have nothing left to write."""
        self._channel.send(protocol.GiveUpRest(reason))

    def save(self, slot: int, order: Order) -> None:
        """A slot holds a snapshot: write it, and commit it with the others."""
        fd = protocol.pack(order)
        try:
            self._channel.send(protocol.Save(slot), [fd])
        finally:
            os.close(fd)

    def events(self, wait_s: float = 0.0) -> list[Event]:
        """What has become of the orders since the last call; waits that long for the first."""
        while True:
            try:
                event, _ = self._channel.receive(Event, 0.0 if self._events else wait_s)
            except (BlockingIOError, TimeoutError):
                break
            self._events.append(event)
        found, self._events = list(self._events), deque()
        return found

    def lend(self, step: int, attempt: int, rank: int) -> int | None:
        """A descriptor of the memory with the snapshot of a rank, which is the caller's; None if it is not held."""
        _, descriptors = self._ask(protocol.Lend(step, attempt, rank), protocol.Lent)
        _close(descriptors[1:])
        return descriptors[0] if descriptors else None

    def take(self) -> tuple[list[Arena], list[Held]]:
        """The memory that an earlier attempt of this rank left, and what lies in it."""
        taken, descriptors = self._ask(protocol.Take(), protocol.Taken)
        arenas: list[Arena] = []
        try:
            while len(arenas) < len(taken.capacities):
                arenas.append(Arena(taken.capacities[len(arenas)], descriptors.pop(0)))
        except (OSError, IndexError) as error:
            for arena in arenas:
                arena.close()
            raise OSError(f"the memory of an earlier attempt cannot be used: {error}") from error
        finally:
            _close(descriptors)
        return arenas, taken.held

    def standing(self) -> protocol.Standing:
        return self._ask(protocol.Ask(), protocol.Standing)[0]

    def answers(self) -> bool:
        """True if it is at work, however long that takes; one that is frozen does not say so."""
        try:
            self.standing()
        except OSError:
            return False
        return True

    def take_up(self, stage: str, attempt: int, keep: Keep, writing: Writing) -> None:
        """This attempt stages its checkpoints there: what is there already becomes its business."""
        self._channel.send(protocol.TakeUp(stage, attempt, keep, writing))

    def drain(self, limit_s: float, *, is_last: bool = False) -> None:
        """Wait until nothing is left to write; with `is_last`, nor to promote. Raises TimeoutError after the limit;
        may be called again then."""
        self._channel.send(protocol.Drain(is_last))
        self._await(protocol.Drained, limit_s)

    def bye(self) -> None:
        """An orderly end: what is held for us is not needed again."""
        with suppress(OSError):
            self._channel.send(protocol.Bye())
        self.close()

    def close(self) -> None:
        """Let go without a word, as a process that dies does."""
        self._channel.close()

    def _ask(self, question: msgspec.Struct, kind: type[T]) -> tuple[T, list[int]]:
        self._channel.send(question)
        return self._await(kind, ANSWER_LIMIT_S)

    def _await(self, kind: type[T], limit_s: float) -> tuple[T, list[int]]:
        """The answer of that kind; events that come before it are kept."""
        while True:
            message, descriptors = self._channel.receive(protocol.Answer, limit_s)
            if isinstance(message, kind):
                return message, descriptors
            # An answer to what was asked before, and not waited for.
            _close(descriptors)
            if isinstance(message, Event):
                self._events.append(message)


def _connect(link: socket.socket, address: bytes, limit_s: float) -> None:
    """Raises OSError. Where many come at once the queue can be full, which is no reason to give up."""
    limit = time.monotonic() + limit_s
    link.settimeout(limit_s)
    while True:
        try:
            link.connect(address)
            return
        except BlockingIOError:
            if time.monotonic() > limit:
                raise
            time.sleep(0.01)


def _close(descriptors: list[int]) -> None:
    for fd in descriptors:
        os.close(fd)
