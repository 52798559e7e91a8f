"""The heartbeat of a rank: readable at any moment by another process, and never a reason for the job to fail."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import lastgood
from lastgood.core import heartbeat
from lastgood.core.heartbeat import Heartbeat
from lastgood.core.layout import Env
from lastgood.runtime.heartbeats import HeartbeatWriter

Start = Callable[..., lastgood.Run]


def read(directory: Path, rank: int = 0) -> Heartbeat:
    beat = heartbeat.decode((directory / heartbeat.heartbeat_file(rank)).read_bytes())
    assert beat is not None
    return beat


@pytest.fixture
def beats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The launcher's directory, as a launched program is told of it."""
    directory = tmp_path / "beats"
    directory.mkdir()
    monkeypatch.setenv(Env.HEARTBEATS, str(directory))
    return directory


def test_a_beat_says_who_where_and_when(tmp_path: Path) -> None:
    writer = HeartbeatWriter(str(tmp_path), 3)
    writer.total_steps, writer.last_good_step = 100, 7
    before = time.monotonic()
    writer.beat(9, "step")
    beat = read(tmp_path, 3)
    writer.close()
    assert (beat.pid, beat.step, beat.total_steps, beat.last_good_step, beat.phase) == (os.getpid(), 9, 100, 7, "step")
    assert before <= beat.at <= time.monotonic()


def test_each_beat_has_a_new_sequence_number(tmp_path: Path) -> None:
    writer = HeartbeatWriter(str(tmp_path), 0)
    numbers = []
    for step in range(4):
        writer.beat(step, "step")
        numbers.append(read(tmp_path).sequence)
    writer.close()
    assert numbers == [1, 2, 3, 4]


@pytest.mark.parametrize("phase", ["", "x" * 24, "x" * 300, "é" * 30, "\ud800", "line\nbreak"])
def test_any_phase_can_be_said(tmp_path: Path, phase: str) -> None:
    writer = HeartbeatWriter(str(tmp_path), 0)
    writer.beat(1, phase)
    beat = read(tmp_path)
    writer.close()
    assert beat.step == 1
    assert phase.startswith(beat.phase.rstrip("\ufffd?"))


def test_no_directory_or_one_that_is_gone_means_no_beats_and_no_trouble(tmp_path: Path) -> None:
    for directory in (None, str(tmp_path / "gone")):
        writer = HeartbeatWriter(directory, 0)
        writer.beat(1, "step")
        writer.close()
        writer.close()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_goes_away_later_is_no_trouble(tmp_path: Path) -> None:
    directory = tmp_path / "beats"
    directory.mkdir()
    writer = HeartbeatWriter(str(directory), 0)
    (directory / heartbeat.heartbeat_file(0)).unlink()
    directory.rmdir()
    writer.beat(1, "step")
    writer.close()


def test_beats_after_the_end_go_nowhere(tmp_path: Path) -> None:
    writer = HeartbeatWriter(str(tmp_path), 0)
    writer.beat(1, "step")
    writer.close()
    writer.beat(2, "step")
    assert read(tmp_path).step == 1


def test_a_run_without_a_launcher_writes_none(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(Env.HEARTBEATS, raising=False)
    list(start().steps(2))
    assert not list(tmp_path.rglob("rank-*[0-9]"))


def test_a_run_says_its_step_its_total_and_its_last_good(start: Start, beats: Path) -> None:
    run = start(every=2)
    seen = []
    assert (read(beats).phase, read(beats).last_good_step) == ("start", -1)
    for step in run.steps(5):
        beat = read(beats)
        seen.append((step, beat.step, beat.total_steps, beat.last_good_step, beat.phase))
    assert seen == [
        (1, 0, 5, -1, "step"),
        (2, 1, 5, -1, "step"),
        (3, 2, 5, 2, "step"),
        (4, 3, 5, 2, "step"),
        (5, 4, 5, 4, "step"),
    ]
    beat = read(beats)
    assert (beat.step, beat.last_good_step, beat.phase) == (5, 5, "finished")


def test_a_resumed_run_knows_its_last_good_from_the_start(start: Start, beats: Path) -> None:
    with start() as run:
        list(run.steps(3))
    run = start()
    beat = read(beats)
    assert (beat.step, beat.last_good_step, beat.phase) == (3, 3, "start")


def test_a_safe_point_shows_its_phase_and_a_save_shows_that_it_saves(start: Start, beats: Path) -> None:
    phases: list[str] = []

    class Watched:
        def state_dict(self) -> dict[str, int]:
            if run is not None:
                phases.append(read(beats).phase)
            return {}

        def load_state_dict(self, state: dict[str, int]) -> None: ...

    run: lastgood.Run | None = None
    run = start({"watched": Watched()}, every=2)
    for step in run.steps(2):
        if step == 1:
            run.safe_point("half way")
            phases.append(read(beats).phase)
    assert phases == ["half way", "save"]


def test_a_mixture_of_two_records_is_none_whatever_is_of_which() -> None:
    old, new = (heartbeat.encode(Heartbeat(1, step, 10, 5, 3.5 + step, f"step {step}", step)) for step in (7, 8))
    differing = [i for i in range(len(old)) if old[i] != new[i]]
    for bits in range(1, 2 ** len(differing) - 1):
        record = bytearray(old)
        for place, index in enumerate(differing):
            if bits >> place & 1:
                record[index] = new[index]
        assert heartbeat.decode(bytes(record)) is None


WRITER = """
import sys
from lastgood.runtime.heartbeats import HeartbeatWriter
writer = HeartbeatWriter(sys.argv[1], 0)
print("ready", flush=True)
step = 0
while True:
    step += 1
    # All of them tell the step, so that a mixture of two records would show.
    writer.total_steps = writer.last_good_step = step
    writer.beat(step, f"phase {step}")
"""


@pytest.mark.slow
def test_a_record_that_is_read_while_it_is_written_is_whole_or_none(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            whole: list[Heartbeat] = []
            end = time.monotonic() + 180
            while len(whole) < 20_000 and time.monotonic() < end:
                beat = heartbeat.decode((tmp_path / heartbeat.heartbeat_file(0)).read_bytes())
                if beat is not None:
                    whole.append(beat)
        finally:
            process.kill()
    assert len(whole) > 100
    mixed = [b for b in whole if not b.step == b.total_steps == b.last_good_step or b.phase != f"phase {b.step}"]
    assert not mixed, f"{len(mixed)} of {len(whole)}: {mixed[0]}"
    steps = [beat.step for beat in whole]
    assert steps == sorted(steps)
    assert {beat.pid for beat in whole} == {process.pid}


STACKS = """
import sys, time
from lastgood.runtime.heartbeats import HeartbeatWriter
writer = HeartbeatWriter(sys.argv[1], 0)
def a_place_with_a_name():
    writer.beat(1, "step")
    print("ready", flush=True)
    sys.stdin.readline()
    print("alive", flush=True)
a_place_with_a_name()
"""


@pytest.mark.slow
def test_a_rank_that_beats_shows_its_stacks_when_it_is_asked_and_goes_on(tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", STACKS, str(tmp_path)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        assert signal.SIGRTMIN + 16 == heartbeat.STACK_SIGNAL
        process.send_signal(heartbeat.STACK_SIGNAL)
        while "a_place_with_a_name" not in (line := process.stderr.readline()):
            assert line, "its standard error has ended without that place"
        rest, _ = process.communicate("go on\n", timeout=180)
    assert rest == "alive\n"
    assert process.returncode == 0
