"""Programs and keepers that die, alone or together, at random moments: nothing whose copy was over is lost, training
comes to the same end, and nothing of them stays."""

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from faults.nursery import Nursery
from faults.practice import Note, Practice, moments
from faults.scale import scaled
from keeper.leftovers import keepers_of
from keeper.ranks import until

pytestmark = pytest.mark.slow

Count = Callable[[int, str], None]
KILLS = scaled(100, 40)
"""Of the program, over some jobs."""
FEW_KILLS = scaled(30, 12)


@pytest.fixture(scope="module")
def expected(gym: Nursery, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What is learned in an undisturbed run."""
    practice = Practice(gym, tmp_path_factory.mktemp("undisturbed") / "it", **SETTINGS)
    assert practice.run() == 0
    return practice.result()


SETTINGS = {"total": 120, "every": 2, "pause_s": 0.002}


@pytest.mark.parametrize("seed", range(4))
def test_killed_at_any_moment_it_goes_on_from_the_newest_snapshot(
    gym: Nursery, tmp_path: Path, expected: str, count_points: Count, seed: int
) -> None:
    kills = from_memory = turn = 0
    while kills < KILLS // 4:
        practice = Practice(gym, tmp_path / f"job-{turn}", **SETTINGS)
        turn += 1
        before: Note | None = None
        for number, delay_s in enumerate([*moments(seed + 10 * turn, 15, 0.25), 100.0]):
            practice.start()
            if before is not None:
                started = practice.events("started")[-1].data
                assert started["step"] >= before.taken, f"{before} before, {started} after"
                from_memory += started["is_from_memory"]
                # Unless it had taken none of its own, and so only read what another one held; or was at its end, and
                # perhaps had let go of the keeper.
                is_at_end = before.done >= SETTINGS["total"] - 1
                assert started["is_from_memory"] or before.taken == before.began or is_at_end
            if delay_s == 100.0:
                assert practice.wait() == 0
                break
            if number % 2 == 0:
                # On a busy machine all of these moments could come before it has taken a snapshot of its own.
                practice.await_snapshot()
            time.sleep(delay_s)
            if not practice.kill():
                break
            kills += 1
            before = practice.note()
        assert practice.result() == expected
        practice.assert_nothing_is_left()
    count_points(kills, "kills of a program with a keeper")
    assert from_memory > kills // 4


def kill_keepers(practice: Practice, source: random.Random) -> int:
    """Kill one after the other while it trains, each when it may have done something; how many."""
    kills = 0
    while practice.note().done < 90:
        for keeper in keepers_of(practice.directory):
            # It goes by itself when its program is done.
            with suppress(psutil.NoSuchProcess):
                keeper.kill()
                kills += 1
        # A keeper may be killed while it is starting, which its program takes for one loss with the one before.
        enough = min(practice.note().done + 5, SETTINGS["total"] - 1)
        until(lambda enough=enough: practice.note().done >= enough)
        time.sleep(source.uniform(0, 0.2))
    return kills


def test_a_keeper_that_is_killed_is_replaced_and_nothing_is_lost(
    gym: Nursery, tmp_path: Path, expected: str, count_points: Count
) -> None:
    source = random.Random(5)
    kills = turn = 0
    while kills < FEW_KILLS:
        practice = Practice(gym, tmp_path / f"job-{turn}", **{**SETTINGS, "pause_s": 0.03})
        turn += 1
        practice.start()
        kills += kill_keepers(practice, source)
        assert practice.wait() == 0
        assert practice.events("save_failed") == []
        assert practice.result() == expected
        # Its keeper deletes older ones until it goes.
        practice.assert_nothing_is_left()
        assert practice.committed()[0] == SETTINGS["total"]
    count_points(kills, "kills of a keeper")
    assert gym.errors().count("a new one has taken its place") >= kills // 2


def test_both_killed_at_once_lose_no_more_than_what_was_not_committed(
    gym: Nursery, tmp_path: Path, expected: str, count_points: Count
) -> None:
    kills, turn = 0, 0
    while kills < FEW_KILLS:
        practice = Practice(gym, tmp_path / f"job-{turn}", **SETTINGS)
        turn += 1
        for delay_s in moments(turn, 15, 0.25):
            practice.start()
            time.sleep(delay_s)
            keeper = keepers_of(practice.directory)
            order = [*(k.pid for k in keeper), practice.pid][:: random.Random(kills).choice([1, -1])]
            for pid in order:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if practice.wait() == 0:
                break
            kills += 1
            note = practice.note()
            assert (practice.committed() or [0])[0] >= note.committed
        else:
            assert practice.run() == 0
        assert practice.result() == expected
        practice.assert_nothing_is_left()
    count_points(kills, "kills of a program and its keeper at once")


def test_killed_over_and_over_before_its_first_save_it_keeps_what_it_has(
    gym: Nursery, tmp_path: Path, expected: str
) -> None:
    practice = Practice(gym, tmp_path / "job", **SETTINGS)
    practice.start()
    practice.await_step(20)
    practice.kill()
    note = practice.note()
    for _ in range(5):
        practice.start(pause_s=1.0)
        assert practice.events("started")[-1].data["step"] >= note.taken
        practice.kill()
    assert practice.run() == 0
    assert practice.result() == expected
