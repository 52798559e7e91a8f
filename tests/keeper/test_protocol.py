"""Messages and the descriptors that come with them: what arrives, what is refused, and that nothing stays open."""

import os
import socket
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from descriptors import open_descriptors
from lastgood.core.errors import StorageError
from lastgood.core.retention import Keep
from lastgood.core.writing import Writing
from lastgood.keeper import protocol
from lastgood.keeper.protocol import Channel, Order


class Line:
    """Both ends of a connection."""

    def __init__(self) -> None:
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.here, self.there = Channel(here), Channel(there)
        self.raw = here

    def close(self) -> None:
        self.here.close()
        self.there.close()


@pytest.fixture
def line() -> Iterator[Line]:
    made = Line()
    yield made
    made.close()


def send_raw(line: Line, data: bytes, descriptors: int = 0) -> None:
    """Send bytes, and that many descriptors of one file, none of which is left here."""
    fd = os.open(os.devnull, os.O_RDONLY)
    try:
        rights = [
            (socket.SOL_SOCKET, socket.SCM_RIGHTS, b"".join(fd.to_bytes(4, "little") for _ in range(descriptors)))
        ]
        line.raw.sendmsg([data], rights if descriptors else [])
    finally:
        os.close(fd)


ORDER = Order(
    step=7,
    attempt=2,
    rank=1,
    world_size=2,
    file_bytes=4096,
    entries={"model": {"w": {"$array": "model.w", "kind": "numpy"}}},
    shared=["model.w"],
    began=1234.5,
    limit_s=60.0,
    keep=Keep(last=3),
    writing=Writing(limit="200MB/s"),
)

MESSAGES: list[tuple[Any, Any]] = [
    (protocol.Hello(1, "2", "job", "00ff", 3), protocol.Request),
    (protocol.Slots([4096, 4096]), protocol.Request),
    (protocol.Begin(1), protocol.Request),
    (protocol.Save(0), protocol.Request),
    (protocol.GiveUp(1, 2, "why"), protocol.Request),
    (protocol.Lend(1, 2, 3), protocol.Request),
    (protocol.Take(), protocol.Request),
    (protocol.Drain(), protocol.Request),
    (protocol.Ask(), protocol.Request),
    (protocol.Bye(), protocol.Request),
    (protocol.Welcome(1), protocol.Answer),
    (protocol.Refused(1, 2, "3", "four"), protocol.Answer),
    (protocol.Lent(is_held=True), protocol.Answer),
    (protocol.Taken([1], [protocol.Held(0, 1, 2, 3)]), protocol.Answer),
    (protocol.Drained(), protocol.Answer),
    (protocol.Standing(1, [2], 3), protocol.Answer),
    (protocol.Written(1), protocol.Answer),
    (protocol.Committed(1, "name", 3, 4.5), protocol.Answer),
    (protocol.Cleared(1, "trouble"), protocol.Answer),
    (protocol.failed(7, StorageError("a", safe="b", remedy="c")), protocol.Answer),
]


@pytest.mark.parametrize(("message", "kind"), MESSAGES, ids=lambda value: type(value).__name__)
def test_every_message_arrives_as_it_was_sent(line: Line, message: Any, kind: Any) -> None:
    line.here.send(message)
    assert line.there.receive(kind, 1.0) == (message, [])


def test_descriptors_arrive_as_copies_that_belong_to_the_receiver(line: Line) -> None:
    fd = os.memfd_create("test")
    os.write(fd, b"hello")
    line.here.send(protocol.Save(0), [fd, fd])
    os.close(fd)
    _, descriptors = line.there.receive(protocol.Request, 1.0)
    assert [os.pread(copy, 10, 0) for copy in descriptors] == [b"hello", b"hello"]
    assert not any(os.get_inheritable(copy) for copy in descriptors), "a command that is started must not get them"
    for copy in descriptors:
        os.close(copy)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"hello?", id="no JSON"),
        pytest.param(b'{"type":"begin"', id="torn"),
        pytest.param(b'{"type":"begin"}', id="without a field"),
        pytest.param(b'{"type":"begin","slot":"one"}', id="wrong type"),
        pytest.param(b'{"type":"unheard of"}', id="unknown"),
        pytest.param(b'{"type":"drained"}', id="of the other side"),
        pytest.param(b'{"type":"hello","protocol":1,"version":"\xff","job":"j","place":""}', id="no UTF-8"),
        pytest.param(b"[" * 60000, id="deep"),
        pytest.param(b" " * (protocol.MAX_PACKET_BYTES + 1), id="too long"),
    ],
)
@pytest.mark.parametrize("descriptors", [0, 1, protocol.MAX_DESCRIPTORS])
def test_what_is_no_message_breaks_the_connection_and_leaves_nothing_open(
    line: Line, data: bytes, descriptors: int
) -> None:
    before = open_descriptors()
    send_raw(line, data, descriptors)
    with pytest.raises(ConnectionError):
        line.there.receive(protocol.Request, 1.0)
    assert not open_descriptors() - before


def test_more_descriptors_than_any_message_has_break_the_connection(line: Line) -> None:
    before = open_descriptors()
    send_raw(line, b'{"type":"take"}', protocol.MAX_DESCRIPTORS + 3)
    with pytest.raises(ConnectionError):
        line.there.receive(protocol.Request, 1.0)
    assert not open_descriptors() - before


def test_waiting_has_a_limit(line: Line) -> None:
    with pytest.raises(TimeoutError):
        line.there.receive(protocol.Request, 0.01)
    with pytest.raises(BlockingIOError):
        line.there.receive(protocol.Request, 0)


def test_sending_to_who_does_not_read_has_a_limit(line: Line) -> None:
    with pytest.raises(OSError):
        for _ in range(100_000):
            line.here.send(protocol.Written(1), limit_s=0.01)


def test_what_was_sent_before_a_death_is_read_although_news_were_left_unread(line: Line) -> None:
    line.there.send(protocol.Written(1))
    line.here.send(protocol.Begin(0))
    line.here.send(protocol.Begin(1))
    line.here.close()
    assert line.there.receive(protocol.Request, 1.0)[0] == protocol.Begin(0)
    assert line.there.receive(protocol.Request, 1.0)[0] == protocol.Begin(1)
    with pytest.raises(ConnectionError):
        line.there.receive(protocol.Request, 1.0)


def test_texts_that_json_cannot_carry_and_long_ones_can_be_told(line: Line) -> None:
    # File names can be of any bytes, and quotes and control characters grow when they are sent.
    error = StorageError("/jobs/\udcff" + "\0" * 100_000, safe="\udc80" * 9000, remedy="\x7f" * 9000)
    line.here.send(protocol.failed(7, error))
    told, _ = line.there.receive(protocol.Answer, 1.0)
    assert (told.step, told.kind) == (7, "StorageError")
    assert told.what.startswith("/jobs/\\udcff")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(entries=st.dictionaries(st.text(), JSON, max_size=4), shared=st.lists(st.text(), max_size=3))
def test_an_order_arrives_as_it_was_given(entries: dict[str, Any], shared: list[str]) -> None:
    # Infinite floats never get here: the tree writes them in its own way.
    order = msgspec.structs.replace(ORDER, entries=msgspec.json.decode(msgspec.json.encode(entries)), shared=shared)
    assert protocol.unpack(protocol.pack(order)) == order


def test_a_large_order_arrives() -> None:
    order = msgspec.structs.replace(ORDER, entries={f"entry {i}": ["x" * 50] for i in range(100_000)})
    assert protocol.unpack(protocol.pack(order)) == order


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"step": 1}', b"\xff"])
def test_what_is_no_order_is_refused_and_closed(content: bytes) -> None:
    before = open_descriptors()
    fd = os.memfd_create("test")
    os.write(fd, content)
    with pytest.raises(ConnectionError):
        protocol.unpack(fd)
    assert not open_descriptors() - before


def test_an_order_that_is_no_memory_is_refused_and_closed() -> None:
    before = open_descriptors()
    read, write = os.pipe()
    for fd in (read, write, os.open("/", os.O_RDONLY), os.open("/dev/zero", os.O_RDONLY)):
        with pytest.raises(ConnectionError):
            protocol.unpack(fd)
    assert not open_descriptors() - before


def test_an_order_larger_than_any_document_is_refused_unread() -> None:
    fd = os.memfd_create("test")
    os.ftruncate(fd, 2**50)
    with pytest.raises(ConnectionError):
        protocol.unpack(fd)


def test_both_sides_see_the_user_and_the_process_of_the_other(line: Line) -> None:
    assert line.here.is_of_our_user() and line.there.is_of_our_user()
    assert line.here.peer_pid() == os.getpid()


def test_the_address_is_of_the_user_and_of_the_job() -> None:
    assert protocol.address("a") != protocol.address("b")
    assert str(os.getuid()).encode() in protocol.address("a")
    assert len(protocol.address("0123456789abcdef")) < 108, "the kernel's limit"
