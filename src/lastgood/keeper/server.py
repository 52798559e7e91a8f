"""The keeper's side of the protocol: who is connected, what is held of whom, and when it is time to go."""

import errno
import os
import selectors
import signal
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import lastgood
from lastgood.keeper import protocol
from lastgood.keeper.arena import Arena, is_sound
from lastgood.keeper.desk import Desk
from lastgood.keeper.protocol import Channel, Event, Held
from lastgood.keeper.starting import NOT_FOR_US
from lastgood.store.jobdir import JobDirectory
from lastgood.store.processes import birth_of, is_alive

FIRST_CONTACT_S = 30.0
"""How long to wait for the first connection."""

_TURN_S = 0.2
_SAY_LIMIT_S = 5.0


class _Slot:
    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.held: Held | None = None


class _Peer:
    """Somebody who is connected."""

    def __init__(self, channel: Channel, number: int) -> None:
        self.channel = channel
        self.number = number
        """Which of all that ever connected: news of an order are for who gave it."""
        self.rank: int | None = None
        self.is_deaf = False
        """It is told nothing more; what it has sent still counts."""
        self.has_greeted = False
        self.waits_for: protocol.Drained | None = None
        """What it will be told when nothing is left to write."""
        self.waits_for_all = False
        """Not before nothing is left to promote, either."""


class Server:
    """Serves one job on one node until nobody needs it any more."""

    def __init__(
        self, job: JobDirectory, listener: socket.socket, linger_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._job = job
        self._listener = listener
        self._linger_s = linger_s
        self._clock = clock
        self._peers: dict[int, _Peer] = {}
        """By the descriptor of the connection."""
        self._comers = 0
        self._slots: dict[int, list[_Slot]] = {}
        self._owners: dict[int, tuple[int, str]] = {}
        """Who gave the slots of each rank: process id and birth."""
        self._news: deque[tuple[int, Event]] = deque()
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._is_ending = False
        self._quit_at = clock() + FIRST_CONTACT_S
        """When to go if nobody is connected and nothing is left to write."""
        self._desk = Desk(job, self._post)

    def run(self) -> None:
        """Serve. Returns when nobody is connected, nothing is left to do, and nobody is expected back."""
        # Schedulers signal every process of a job. A stop is for the program, which saves now and needs us for that:
        # we go with the last who is connected.
        for number in NOT_FOR_US:
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._on_stop)
        # Who started us held them back until now.
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        while not self._is_over():
            self._turn(_TURN_S)
        self._listener.close()

    def _on_stop(self, number: int, frame: object) -> None:
        self._is_ending = True

    def _is_over(self) -> bool:
        if self._peers or not self._desk.is_idle() or self._news:
            return False
        if not self._is_ending and self._clock() < self._quit_at:
            return False
        # Somebody may have come this very moment.
        return not self._selector.select(0)

    def _turn(self, limit_s: float) -> None:
        """Attend to all that is there, or wait for it."""
        ready = [key.fileobj for key, _ in self._selector.select(limit_s)]
        is_quiet = True
        for file in ready:
            if file == self._wake_read:
                with suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)
                continue
            is_quiet = False
            if file is self._listener:
                self._welcome_next()
            elif (peer := self._peers.get(file)) is not None:  # type: ignore[arg-type]
                self._attend(peer)
        self._tell_news()
        if is_quiet:
            # What is in the other connections comes first: a rank that has died may have given an order.
            self._answer_waiting()
        else:
            self._wake()

    def _welcome_next(self) -> None:
        try:
            link, _ = self._listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                # It is still in the queue, and we would be called again at once.
                time.sleep(_TURN_S)
            return
        self._comers += 1
        peer = _Peer(Channel(link), self._comers)
        if not peer.channel.is_of_our_user():
            peer.channel.close()
            return
        self._peers[link.fileno()] = peer
        self._selector.register(link.fileno(), selectors.EVENT_READ)

    def _attend(self, peer: _Peer) -> None:
        try:
            message, descriptors = peer.channel.receive(protocol.Request, 0)
        except BlockingIOError:
            return
        except OSError:
            self._part_from(peer)
            return
        try:
            self._handle(peer, message, descriptors)
        except OSError:
            # It is gone, or does not keep to the protocol.
            self._part_from(peer)
        finally:
            for fd in descriptors:
                with suppress(OSError):
                    os.close(fd)

    def _handle(self, peer: _Peer, message: protocol.Request, descriptors: list[int]) -> None:
        """Descriptors that are kept are taken out of the list."""
        if isinstance(message, protocol.Hello):
            self._greet(peer, message)
            return
        if not peer.has_greeted:
            raise ConnectionError("no greeting")
        if isinstance(message, protocol.Drain):
            peer.waits_for, peer.waits_for_all = protocol.Drained(), message.is_last
            self._desk.hurry(promotions=message.is_last)
            self._wake()
        elif isinstance(message, protocol.Lend):
            self._lend(peer, message)
        elif isinstance(message, protocol.Ask):
            held_bytes = sum(slot.arena.capacity for slots in self._slots.values() for slot in slots)
            self._say(peer, protocol.Standing(os.getpid(), self._desk.waiting(), held_bytes))
        elif isinstance(message, protocol.GiveUpRest):
            self._desk.give_up(None, message.reason)
        elif isinstance(message, protocol.Bye):
            self._let_go(peer)
        elif peer.rank is None:
            raise ConnectionError("only ranks have slots")
        elif isinstance(message, protocol.Slots):
            self._replace_slots(peer.rank, message, descriptors)
            pid = peer.channel.peer_pid()
            self._owners[peer.rank] = (pid, birth_of(pid) or "")
        elif isinstance(message, protocol.Begin):
            self._slot(peer.rank, message.slot).held = None
        elif isinstance(message, protocol.Save):
            if len(descriptors) != 1:
                raise ConnectionError("an order without its content")
            self._accept(peer, peer.rank, message.slot, protocol.unpack(descriptors.pop()))
        elif isinstance(message, protocol.TakeUp):
            self._desk.take_up(message, peer.number)
        elif isinstance(message, protocol.GiveUp):
            self._desk.give_up((message.attempt, message.step), message.reason)
        elif isinstance(message, protocol.Take):
            slots = self._slots.get(peer.rank, []) if self._has_died(peer.rank) else []
            held = [slot.held for slot in slots if slot.held is not None]
            self._say(
                peer,
                protocol.Taken([slot.arena.capacity for slot in slots], held),
                [slot.arena.fd for slot in slots],
            )

    def _has_died(self, rank: int) -> bool:
        """True if who gave the slots of a rank is known to be dead: who lives may still write into them. (Then they
        can be lent, since their content is checked.)"""
        pid, birth = self._owners.get(rank, (0, ""))
        # A process of another namespace has no number here.
        return pid != 0 and not is_alive(pid, birth)

    def _greet(self, peer: _Peer, hello: protocol.Hello) -> None:
        reason = ""
        if (hello.protocol, hello.version) != (protocol.PROTOCOL, lastgood.__version__):
            reason = f"the keeper is of version {lastgood.__version__}, the program of version {hello.version}"
        elif hello.job != self._job.id or not self._is_here(hello.place):
            reason = f"the keeper serves the job in {self._job.path}, or one that was there"
        if reason:
            reason = protocol.printable(reason)
            if hello.rank is not None:
                # An attempt begins that has no use for us: nobody else is expected.
                self._quit_at = self._clock()
            self._say(peer, protocol.Refused(os.getpid(), protocol.PROTOCOL, lastgood.__version__, reason))
            peer.waits_for = protocol.Drained()
            self._desk.hurry(promotions=False)
            self._wake()
            return
        peer.has_greeted = True
        if hello.rank is not None:
            # An earlier attempt's process of that rank that still lives is too late: a newer one has begun.
            for other in [other for other in self._peers.values() if other.rank == hello.rank]:
                self._part_from(other)
            peer.rank = hello.rank
            self._desk.note_rank(hello.rank, is_gone=False)
        self._say(peer, protocol.Welcome(os.getpid()))

    def _is_here(self, place: str) -> bool:
        """True if a path leads to the directory that we write to, by whatever name."""
        with suppress(OSError, ValueError):
            path = bytes.fromhex(place)
            return path == os.fsencode(self._job.path) or os.path.samefile(path, self._job.path)
        return False

    def _replace_slots(self, rank: int, message: protocol.Slots, descriptors: list[int]) -> None:
        if len(message.capacities) != len(descriptors):
            raise ConnectionError("slots without their memory")
        slots: list[_Slot] = []
        try:
            for capacity, fd in zip(message.capacities, descriptors, strict=True):
                if not is_sound(fd, capacity):
                    raise ConnectionError("memory that can be taken away")
                slots.append(_Slot(Arena(capacity, os.dup(fd))))
        except OSError:
            _close(slots)
            raise
        before, self._slots[rank] = self._slots.get(rank, []), slots
        _close(before)

    def _accept(self, peer: _Peer, rank: int, number: int, order: protocol.Order) -> None:
        slot = self._slot(rank, number)
        if order.rank != rank or not 0 < order.file_bytes <= slot.arena.capacity:
            raise ConnectionError("an order that does not fit its slot")
        slot.held = Held(number, order.step, order.attempt, order.file_bytes)
        self._desk.accept(order, slot.arena.view[: order.file_bytes], peer.number)
        self._forget_before(order.attempt)

    def _forget_before(self, attempt: int) -> None:
        """This attempt saves, so it has restored: what dead ranks of earlier ones left is not needed again. (A later
        attempt may have fewer ranks.)"""
        # What one that is still connected has sent is not read to its end.
        connected = {peer.rank for peer in self._peers.values()}
        for rank in [rank for rank in self._slots if rank not in connected and self._has_died(rank)]:
            held = [slot.held for slot in self._slots[rank] if slot.held is not None]
            if all(one.attempt < attempt for one in held):
                _close(self._slots.pop(rank))

    def _slot(self, rank: int, number: int) -> _Slot:
        slots = self._slots.get(rank, [])
        if not 0 <= number < len(slots):
            raise ConnectionError("no such slot")
        return slots[number]

    def _lend(self, peer: _Peer, message: protocol.Lend) -> None:
        for slot in self._slots.get(message.rank, []):
            if slot.held is not None and (slot.held.step, slot.held.attempt) == (message.step, message.attempt):
                self._say(peer, protocol.Lent(is_held=True), [slot.arena.fd])
                return
        self._say(peer, protocol.Lent(is_held=False))

    def _let_go(self, peer: _Peer) -> None:
        """An orderly end: what is held for it is not needed again. (What is being written has its own hold.)"""
        ranks = list(self._slots) if peer.rank is None else [peer.rank]
        for rank in ranks:
            _close(self._slots.pop(rank, []))
        self._part_from(peer)
        if not self._slots:
            self._quit_at = self._clock()

    def _part_from(self, peer: _Peer) -> None:
        fd = next((fd for fd, other in self._peers.items() if other is peer), None)
        if fd is None:
            return
        del self._peers[fd]
        self._selector.unregister(fd)
        peer.channel.close()
        if peer.rank is not None and not any(other.rank == peer.rank for other in self._peers.values()):
            self._desk.note_rank(peer.rank, is_gone=True)
            self._quit_at = self._clock() + (self._linger_s if self._slots else 0.0)

    def _say(self, peer: _Peer, message: protocol.Answer, descriptors: list[int] | None = None) -> None:
        if peer.is_deaf:
            return
        try:
            peer.channel.send(message, descriptors, _SAY_LIMIT_S)
        except OSError:
            # It is dead, or does not listen. What it has sent before counts, so it is read to its end.
            peer.is_deaf = True
            peer.channel.stop_sending()

    def _answer_waiting(self) -> None:
        if not self._desk.is_saved():
            return
        is_idle = self._desk.is_idle()
        for peer in list(self._peers.values()):
            if (answer := peer.waits_for) is not None and (is_idle or not peer.waits_for_all):
                peer.waits_for = None
                self._say(peer, answer)

    # Called from the desk's threads --------------------------------------------------------------------------

    def _post(self, number: int, event: Event) -> None:
        self._news.append((number, event))
        self._wake()

    def _wake(self) -> None:
        with suppress(BlockingIOError):
            os.write(self._wake_write, b"\0")

    def _tell_news(self) -> None:
        while self._news:
            number, event = self._news.popleft()
            for peer in self._peers.values():
                if peer.number == number:
                    self._say(peer, event)


def _close(slots: list[_Slot]) -> None:
    for slot in slots:
        slot.arena.close()
