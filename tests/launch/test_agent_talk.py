"""What launcher and agents say to each other fits through srun, and survives what comes between."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.core.heartbeat import Heartbeat
from lastgood.core.stopping import Manner
from lastgood.launch import agent_talk
from lastgood.launch.agent_talk import MAX_LINE_BYTES, Answer, Beats, Command, Lines, line_of, shortened

MOST = 2**63 - 1
LONGEST = Heartbeat(2**32 - 1, MOST, MOST, MOST, 0.0, "\0" * 24, 2**32 - 1)
"""Of a phase each byte of which takes six in JSON."""


def test_a_heartbeat_of_the_longest_kind_fits_into_a_line() -> None:
    beat = agent_talk.as_beat(99_999, LONGEST, 1e9, listens=False)
    assert len(line_of(Beats("n" * 255, MOST, [beat]))) <= MAX_LINE_BYTES


@given(st.text(max_size=3000))
def test_whatever_is_said_fits_into_a_line(text: str) -> None:
    line = line_of(agent_talk.Told("n" * 255, shortened(text)))
    assert len(line) <= MAX_LINE_BYTES
    assert line.count(b"\n") == 1
    assert msgspec.json.decode(line, type=Answer)


def test_names_that_are_no_text_can_be_said() -> None:
    assert "\\udcff" in shortened("caf\udcff")


@pytest.mark.parametrize(
    "command",
    [
        agent_talk.Begin(1, "launch", 2, "/dev/shm/lastgood-heartbeats-x", 30.0),
        agent_talk.Deliver(2, 15),
        agent_talk.Deliver(2, 15, ("gmx_mpi",)),
        agent_talk.Deliver(2, 1, manner=Manner.AS_IS),
        agent_talk.Stacks(3),
        agent_talk.Drain(4, is_last=True),
        agent_talk.GiveUpRest(),
        agent_talk.Over(),
        agent_talk.Bye(),
    ],
)
def test_commands_arrive_as_they_were_sent(command: Command) -> None:
    assert msgspec.json.decode(line_of(command), type=Command) == command


def test_a_heartbeat_keeps_all_but_its_clock() -> None:
    beat = Heartbeat(7, 3, 10, 2, 100.0, "step", 4)
    there = agent_talk.as_beat(5, beat, 101.5, listens=True)
    assert agent_talk.as_heartbeat(there, 2001.5) == msgspec.structs.replace(beat, at=2000.0)


@given(st.lists(st.binary(max_size=20).filter(lambda line: b"\n" not in line)), st.integers(1, 7))
def test_lines_are_the_same_however_they_come(lines: list[bytes], size: int) -> None:
    data = b"".join(line + b"\n" for line in lines)
    reader = Lines()
    assert [line for at in range(0, len(data), size) for line in reader.feed(data[at : at + size])] == lines


def test_a_line_without_end_takes_no_memory_and_hides_nothing_after_it() -> None:
    reader = Lines()
    for _ in range(100):
        assert reader.feed(b"x" * 65_000) == []
    assert reader.feed(b"xx\nfirst\nsec") == [b"first"]
    assert reader.feed(b"ond\n") == [b"second"]
