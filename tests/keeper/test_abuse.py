"""Programs that do not keep to the protocol, and programs of other users."""

import array
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from keeper.conftest import at_rest, descriptors_of
from keeper.ranks import LIMIT_S, Rank, until
from lastgood.keeper import protocol
from lastgood.keeper.arena import Arena
from lastgood.keeper.client import Keeper, NoKeeperError
from lastgood.keeper.protocol import Channel, Order
from lastgood.store.catalogue import list_checkpoints
from lastgood.store.jobdir import JobDirectory

pytestmark = pytest.mark.slow

Process = subprocess.Popen[bytes]
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be somebody else")


class Raw:
    """A connection that says what it likes. It has an arena, and a piece of memory that is no arena."""

    def __init__(self, job: JobDirectory) -> None:
        self.link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.link.settimeout(LIMIT_S)
        self.link.connect(protocol.address(job.id))
        self.arena = Arena(1)
        self.unsealed = os.memfd_create("unsealed")
        os.ftruncate(self.unsealed, 4096)

    def greet(self, job: JobDirectory, rank: int | None) -> None:
        self.say(protocol.hello(job, rank))
        assert isinstance(Channel(self.link).receive(protocol.Answer, LIMIT_S)[0], protocol.Welcome)

    def offer(self) -> None:
        self.say(protocol.Slots([self.arena.capacity]), self.arena.fd)

    def say(self, message: msgspec.Struct | bytes, *descriptors: int) -> None:
        data = message if isinstance(message, bytes) else msgspec.json.encode(message)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        self.link.sendmsg([data], rights if descriptors else [])

    def order(self, order: Order, times: int = 1, **changes: Any) -> None:
        fd = protocol.pack(msgspec.structs.replace(order, **{"rank": 1, **changes}))
        self.say(protocol.Save(0), *[fd] * times)
        os.close(fd)

    def is_cut_off(self) -> bool:
        try:
            return self.link.recv(10) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.link.close()
        self.arena.close()
        os.close(self.unsealed)


@pytest.fixture
def raw(job: JobDirectory, keeper: Process) -> Iterator[Raw]:
    made = Raw(job)
    yield made
    made.close()


ABUSE: dict[str, Callable[[Raw, Order], None]] = {
    "garbage": lambda raw, order: raw.say(b"\x00\xff garbage"),
    "a message too long": lambda raw, order: raw.say(b" " * (protocol.MAX_PACKET_BYTES + 1)),
    "too many descriptors": lambda raw, order: raw.say(protocol.Take(), *[raw.arena.fd] * 50),
    "an empty message with a descriptor": lambda raw, order: raw.say(b"", raw.arena.fd),
    "an answer": lambda raw, order: raw.say(protocol.Welcome(1)),
    "a slot that is not there": lambda raw, order: raw.say(protocol.Begin(1)),
    "a negative slot": lambda raw, order: raw.say(protocol.Begin(-1)),
    "slots without memory": lambda raw, order: raw.say(protocol.Slots([raw.arena.capacity])),
    "memory without slots": lambda raw, order: raw.say(protocol.Slots([]), raw.arena.fd),
    "memory that can shrink": lambda raw, order: raw.say(
        protocol.Slots([raw.arena.capacity, 4096]), raw.arena.fd, raw.unsealed
    ),
    "memory that is too small": lambda raw, order: raw.say(
        protocol.Slots([raw.arena.capacity, raw.arena.capacity + 1]), raw.arena.fd, raw.arena.fd
    ),
    "memory of no size": lambda raw, order: raw.say(protocol.Slots([0]), raw.arena.fd),
    "a save without an order": lambda raw, order: raw.say(protocol.Save(0)),
    "a save with two orders": lambda raw, order: raw.order(order, times=2),
    "an order that is none": lambda raw, order: raw.say(protocol.Save(0), raw.unsealed),
    "an order of another rank": lambda raw, order: raw.order(order, rank=0),
    "an order larger than its slot": lambda raw, order: raw.order(order, file_bytes=raw.arena.capacity + 1),
    "an order of nothing": lambda raw, order: raw.order(order, file_bytes=0),
}


@pytest.mark.parametrize("what", ABUSE)
def test_who_does_not_keep_to_the_protocol_is_cut_off_and_leaves_nothing(
    job: JobDirectory, keeper: Process, new_rank: Callable[..., Rank], raw: Raw, what: str
) -> None:
    rank = new_rank()
    rank.commit(1)
    raw.greet(job, 1)
    raw.offer()
    until(lambda: sum("memfd" in name for name in descriptors_of(keeper.pid)) == 6)
    before = at_rest(keeper.pid)
    ABUSE[what](raw, rank.order(2))
    assert raw.is_cut_off()
    rank.commit(3)
    # The slots that it had are held for a while, as if it had died.
    before.remove("socket:")
    until(lambda: at_rest(keeper.pid) == before)


@pytest.mark.parametrize("message", [protocol.Begin(0), protocol.Ask(), protocol.Take(), protocol.Lend(1, 1, 0)])
def test_who_has_not_greeted_is_cut_off(raw: Raw, message: msgspec.Struct) -> None:
    raw.say(message)
    assert raw.is_cut_off()


@pytest.mark.parametrize("message", [protocol.Begin(0), protocol.Take(), protocol.Slots([]), protocol.Save(0)])
def test_who_is_no_rank_has_no_slots(job: JobDirectory, raw: Raw, message: msgspec.Struct) -> None:
    raw.greet(job, None)
    raw.say(message)
    assert raw.is_cut_off()


def test_who_connects_and_says_nothing_does_not_disturb(
    job: JobDirectory, new_rank: Callable[..., Rank], raw: Raw
) -> None:
    silent = [Raw(job) for _ in range(50)]
    new_rank().commit(1)
    assert len([c for c in list_checkpoints(job) if c.is_committed]) == 1
    for one in silent:
        one.close()


def test_who_does_not_listen_does_not_disturb(
    job: JobDirectory, keeper: Process, new_rank: Callable[..., Rank], raw: Raw
) -> None:
    raw.greet(job, 1)
    raw.link.settimeout(0.2)
    with pytest.raises(OSError):
        # It is asked until nothing more fits, on either way.
        while True:
            raw.say(protocol.Ask())
    new_rank().commit(1)
    assert len([c for c in list_checkpoints(job) if c.is_committed]) == 1


@needs_root
def test_another_user_is_not_served(job: JobDirectory, keeper: Process) -> None:
    program = (
        "import os, socket\n"
        "os.setuid(65534)\n"
        "link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        f"link.connect({protocol.address(job.id)!r})\n"
        "try:\n"
        f"    link.send({msgspec.json.encode(protocol.hello(job, 0))!r})\n"
        "    print(repr(link.recv(100)))\n"
        "except OSError: print('cut off')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    assert done.stdout.strip() in ("b''", "cut off")


@needs_root
def test_a_name_that_another_user_has_taken_is_not_trusted(job: JobDirectory) -> None:
    program = (
        "import os, socket, sys\n"
        "os.setuid(65534)\n"
        "link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        f"link.bind({protocol.address(job.id)!r})\n"
        "link.listen(5)\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as squatter:
        assert squatter.stdout
        assert squatter.stdout.readline() == "ready\n"
        with pytest.raises(NoKeeperError, match="another user"):
            Keeper(job, 0)
        squatter.kill()
