"""What becomes of orders: written, committed and told in order; given up when a part will not come."""

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keeper.ranks import LIMIT_S, until
from lastgood.core.errors import LastgoodError, StorageError
from lastgood.core.layout import part_file
from lastgood.core.retention import Keep
from lastgood.core.tensorfile import ArraySpec, plan
from lastgood.core.writing import Writing
from lastgood.keeper import desk as desk_module
from lastgood.keeper import work
from lastgood.keeper.desk import IN_VAIN_S, Desk
from lastgood.keeper.promoting import Chores
from lastgood.keeper.protocol import Cleared, Committed, Event, Failed, Order, Written
from lastgood.store import durable, writer
from lastgood.store.attempts import claim_attempt, read_events
from lastgood.store.catalogue import list_checkpoints
from lastgood.store.jobdir import JobDirectory
from lastgood.store.reader import open_checkpoint
from lastgood.store.sweep import sweep_incomplete
from lastgood.store.writer import CheckpointWriter

FLOATS = 500


class Told:
    """What the desk has told, and a clock that stands still until it is moved."""

    def __init__(self, job: JobDirectory) -> None:
        self.job = job
        self.heard: list[tuple[int, Event]] = []
        self.now = 1000.0
        self.desk = Desk(job, lambda giver, event: self.heard.append((giver, event)), clock=lambda: self.now)

    def give(self, step: int, rank: int = 0, giver: int = 0, floats: int = FLOATS, **changes: Any) -> None:
        content, order = made(step, rank, floats, **changes)
        self.desk.accept(order, memoryview(content), giver)

    def hear(self, kind: type[Event], step: int, giver: int | None = None) -> Any:
        def found() -> list[Event]:
            return [e for who, e in list(self.heard) if isinstance(e, kind) and e.step == step and giver in (None, who)]

        until(found)
        return found()[0]

    def kinds(self, step: int) -> list[str]:
        return [type(event).__name__ for _, event in self.heard if event.step == step]

    def rest(self) -> None:
        until(self.desk.is_idle)

    def poke(self) -> None:
        """Have it look again at once."""
        self.desk.note_rank(99, is_gone=False)


@pytest.fixture
def told(job: JobDirectory) -> Told:
    return Told(job)


def made(step: int, rank: int = 0, floats: int = FLOATS, **changes: Any) -> tuple[bytearray, Order]:
    spec = ArraySpec("model.w", "F64", (floats,))
    layout = plan([spec])
    content = bytearray(layout.file_bytes)
    content[: len(layout.header)] = layout.header
    content[layout.arrays[0].begin : layout.arrays[0].end] = np.full(floats, float(step + rank)).tobytes()
    facts: dict[str, Any] = {
        "step": step,
        "attempt": 1,
        "rank": rank,
        "world_size": 1,
        "file_bytes": len(content),
        "entries": {"model": {"w": {"$array": "model.w", "kind": "numpy"}}},
        "shared": [],
        "began": time.monotonic(),
        "limit_s": 3600.0,
        "keep": Keep(last=None),
        "writing": Writing(),
    }
    return content, Order(**facts | changes)


def write_elsewhere(job: JobDirectory, step: int, rank: int, world_size: int) -> None:
    """The part of a rank of another node comes."""
    content, order = made(step, rank, world_size=world_size)
    assert work.write_part(job, order, memoryview(content), work.pacer_of(order)) is None


def committed(job: JobDirectory) -> list[int]:
    names = [c.name for c in list_checkpoints(job) if c.is_committed]
    assert all(open_checkpoint(job, name).verify() == [] for name in names)
    return sorted(int(name.split("-")[0]) for name in names)


def directories(job: JobDirectory) -> list[int]:
    return sorted(int(path.name.split("-")[0]) for path in job.checkpoints.iterdir())


class Held:
    """A function that is held where it begins until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, where: object, name: str) -> None:
        self.is_entered, self._may_go = threading.Event(), threading.Event()
        before = getattr(where, name)

        def held(*arguments: Any, **named: Any) -> Any:
            self.is_entered.set()
            assert self._may_go.wait(LIMIT_S)
            return before(*arguments, **named)

        monkeypatch.setattr(where, name, held)

    def await_entered(self) -> None:
        assert self.is_entered.wait(LIMIT_S)

    def let_go(self) -> None:
        self._may_go.set()


def fail_to_write(monkeypatch: pytest.MonkeyPatch, rank: int, step: int) -> None:
    before = CheckpointWriter.write_laid_out

    def write(self: CheckpointWriter, number: int, *rest: Any, **named: Any) -> Any:
        if (number, self.step) == (rank, step):
            raise StorageError("no space for this rank")
        return before(self, number, *rest, **named)

    monkeypatch.setattr(CheckpointWriter, "write_laid_out", write)


def test_an_order_is_written_then_committed_then_cleared_after(told: Told, job: JobDirectory) -> None:
    told.give(3, giver=7, metrics={"loss": 0.5})
    told.hear(Cleared, 3, giver=7)
    assert set(told.kinds(3)) == {"Written", "Committed", "Cleared"}
    assert told.hear(Committed, 3).name == "000000000003-0001"
    assert committed(job) == [3]
    assert open_checkpoint(job, "000000000003-0001").manifest.metrics == {"loss": 0.5}
    told.rest()
    assert [e.kind for e in read_events(job, 1)] == ["committed"]


def test_orders_are_committed_in_their_order(told: Told) -> None:
    for step in range(1, 30):
        told.give(step)
    told.hear(Cleared, 29)
    assert [e.step for _, e in told.heard if isinstance(e, Committed)] == list(range(1, 30))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_it_is_committed_when_all_local_ranks_have_given_their_part(
    told: Told, job: JobDirectory, order: tuple[int, ...]
) -> None:
    for rank in order:
        assert "Committed" not in told.kinds(5)
        told.give(5, rank=rank, giver=rank, world_size=3)
        told.hear(Written, 5, giver=rank)
    told.hear(Committed, 5, giver=0)
    assert committed(job) == [5]


def test_a_part_of_another_node_that_comes_late_is_waited_for(told: Told, job: JobDirectory) -> None:
    told.give(5, world_size=2)
    told.hear(Written, 5)
    assert not told.desk.is_saved()
    write_elsewhere(job, 5, rank=1, world_size=2)
    told.hear(Committed, 5)
    assert committed(job) == [5]


def test_a_rank_whose_leader_is_elsewhere_leaves_nothing_to_wait_for(told: Told, job: JobDirectory) -> None:
    told.give(5, rank=1, world_size=2)
    told.hear(Written, 5)
    told.rest()
    assert told.kinds(5) == ["Written"]


def test_a_part_that_never_comes_is_waited_for_as_long_as_was_said(told: Told, job: JobDirectory) -> None:
    told.give(5, world_size=3, limit_s=1800.0)
    write_elsewhere(job, 5, rank=1, world_size=3)
    told.hear(Written, 5)
    told.now += 1790
    told.poke()
    time.sleep(0.3)
    assert told.kinds(5) == ["Written"]
    told.now += 20
    told.poke()
    failed = told.hear(Failed, 5)
    assert failed.kind == "RankTimeoutError"
    assert "rank 2 gave no part within 30 min" in failed.what
    told.rest()
    assert directories(job) == [], "what all ranks have written for it is given back"
    assert [e.kind for e in read_events(job, 1)] == ["save_failed"]


def test_a_rank_that_ended_before_giving_its_part_is_not_waited_for(told: Told) -> None:
    told.desk.note_rank(0, is_gone=False)
    told.desk.note_rank(1, is_gone=False)
    told.give(5, world_size=2)
    told.desk.note_rank(1, is_gone=True)
    assert "rank 1 ended before giving its part" in told.hear(Failed, 5).what


def test_a_rank_that_ended_after_giving_its_part_has_given_it(told: Told, job: JobDirectory) -> None:
    told.give(5, world_size=2)
    told.give(5, rank=1, world_size=2)
    told.desk.note_rank(1, is_gone=True)
    told.desk.note_rank(0, is_gone=True)
    told.hear(Committed, 5)
    assert committed(job) == [5]


def test_a_part_that_cannot_be_written_ends_the_save_also_if_it_came_first(
    told: Told, job: JobDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_to_write(monkeypatch, rank=1, step=5)
    told.give(5, rank=1, giver=1, world_size=3)
    assert told.hear(Failed, 5, giver=1).what == "no space for this rank"
    told.give(5, rank=2, giver=2, world_size=3)
    told.hear(Written, 5, giver=2)
    told.give(5, rank=0, giver=0, world_size=3)
    assert told.hear(Failed, 5, giver=0).what == "no space for this rank"
    told.rest()
    assert directories(job) == []
    # The next save is another one.
    for rank in range(3):
        told.give(6, rank=rank, world_size=3)
    told.hear(Committed, 6)


def test_a_part_that_cannot_be_written_ends_the_save_also_if_it_comes_last(
    told: Told, job: JobDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_to_write(monkeypatch, rank=1, step=5)
    told.give(5, rank=0, giver=0, world_size=2)
    told.hear(Written, 5, giver=0)
    told.give(5, rank=1, giver=1, world_size=2)
    told.hear(Failed, 5, giver=1)
    assert told.hear(Failed, 5, giver=0).what == "no space for this rank"
    told.rest()
    assert directories(job) == []
    assert [e.data["rank"] for e in read_events(job, 1) if e.kind == "save_failed"] == [1], "it is noted once"


def test_a_part_that_failed_only_at_the_end_is_not_taken_from_under_the_commit_of_another_node(
    told: Told, job: JobDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere, flush = Told(job), durable.flush_directory
    is_seen, may_fail = threading.Event(), threading.Event()

    def fails_once(path: Path) -> None:
        if not is_seen.is_set() and (path / part_file(1)).exists():
            is_seen.set()
            assert may_fail.wait(LIMIT_S)
            raise OSError(5, "Input/output error")
        flush(path)

    monkeypatch.setattr(durable, "flush_directory", fails_once)
    elsewhere.give(5, rank=1, world_size=2)
    assert is_seen.wait(LIMIT_S)
    committing = Held(monkeypatch, CheckpointWriter, "_publish")
    told.give(5, world_size=2)
    committing.await_entered()
    may_fail.set()
    elsewhere.hear(Failed, 5)
    committing.let_go()
    told.hear(Committed, 5)
    assert committed(job) == [5]


def test_what_the_ranks_give_up_is_not_waited_for(told: Told) -> None:
    told.give(5, world_size=2)
    told.hear(Written, 5)
    told.desk.give_up((1, 5), "rank 1 had no space")
    assert "rank 1 gave no part (rank 1 had no space)" in told.hear(Failed, 5).what


def test_when_all_other_nodes_have_ended_nothing_that_lacks_a_part_is_waited_for(told: Told, job: JobDirectory) -> None:
    told.give(5, world_size=2)
    told.hear(Written, 5)
    told.give(6, world_size=2)
    told.hear(Written, 6)
    told.desk.give_up(None, "the ranks of other nodes have ended")
    for step in (5, 6):
        assert "rank 1 gave no part (the ranks of other nodes have ended)" in told.hear(Failed, step).what
    told.rest()
    assert directories(job) == []


def test_what_is_given_up_although_it_is_whole_is_committed(
    told: Told, job: JobDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing = Held(monkeypatch, work, "write_part")
    told.give(5)
    writing.await_entered()
    told.desk.give_up((1, 5), "too late")
    told.desk.give_up((1, 6), "never heard of")
    writing.let_go()
    told.hear(Committed, 5)
    assert committed(job) == [5]


def test_a_newer_attempt_ends_the_wait_for_a_part(told: Told, job: JobDirectory) -> None:
    told.give(5, world_size=2)
    told.hear(Written, 5)
    claim_attempt(job, "launch-2")
    told.now += 5
    told.poke()
    assert told.hear(Failed, 5).kind == "FencedError"


def test_after_a_newer_attempt_has_begun_nothing_is_written(told: Told, job: JobDirectory) -> None:
    claim_attempt(job, "launch-2")
    told.give(5)
    assert told.hear(Failed, 5).kind == "FencedError"
    assert directories(job) == []


def test_when_all_local_ranks_have_ended_other_nodes_are_waited_for_only_shortly(told: Told) -> None:
    # The next attempt waits for us before it begins.
    told.desk.note_rank(0, is_gone=False)
    told.give(5, world_size=2)
    told.hear(Written, 5)
    told.now += 1000
    told.desk.note_rank(0, is_gone=True)
    told.now += IN_VAIN_S - 1
    told.poke()
    time.sleep(0.3)
    assert told.kinds(5) == ["Written"]
    told.now += 2
    told.poke()
    told.hear(Failed, 5)


def test_an_older_one_that_waits_for_a_part_does_not_hold_up_a_newer_one(told: Told, job: JobDirectory) -> None:
    told.give(5, world_size=2)
    told.hear(Written, 5)
    told.give(6, world_size=2)
    write_elsewhere(job, 6, rank=1, world_size=2)
    told.poke()
    told.hear(Committed, 6)
    assert told.kinds(5) == ["Written"], "its part may be seen late"
    told.now += IN_VAIN_S + 1
    told.poke()
    told.hear(Failed, 5)
    told.rest()
    assert committed(job) == [6] == directories(job)


def test_an_order_that_comes_again_before_it_is_written_is_done_once(
    told: Told, job: JobDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing = Held(monkeypatch, work, "write_part")
    told.give(5, giver=1)
    writing.await_entered()
    told.give(5, giver=2)
    writing.let_go()
    told.hear(Committed, 5, giver=2)
    told.rest()
    assert {who for who, _ in told.heard} == {2}, "who was cut off is not told"
    assert told.kinds(5).count("Written") == 1


def test_an_order_that_comes_again_while_it_is_committed_is_done_once(
    told: Told, job: JobDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    committing = Held(monkeypatch, work, "commit_parts")
    told.give(5, giver=1)
    committing.await_entered()
    told.give(5, giver=2)
    committing.let_go()
    told.hear(Committed, 5, giver=2)
    told.rest()
    assert told.kinds(5).count("Committed") == 1


def test_an_order_that_comes_again_after_its_commit_changes_nothing(told: Told, job: JobDirectory) -> None:
    told.give(5, giver=1)
    told.hear(Cleared, 5)
    before = {p: (p.read_bytes(), p.stat().st_ino) for p in job.checkpoints.rglob("*") if p.is_file()}
    told.give(5, giver=2)
    told.hear(Committed, 5, giver=2)
    told.rest()
    assert {p: (p.read_bytes(), p.stat().st_ino) for p in job.checkpoints.rglob("*") if p.is_file()} == before


def test_a_part_that_comes_again_after_it_was_written_is_told_of_again(told: Told) -> None:
    told.give(5, giver=10, world_size=3)
    told.give(5, rank=1, giver=11, world_size=3)
    told.hear(Written, 5, giver=11)
    told.give(5, rank=1, giver=21, world_size=3)
    told.hear(Written, 5, giver=21)
    told.give(5, rank=2, giver=12, world_size=3)
    told.hear(Committed, 5, giver=10)


def test_retention_holds_up_no_commit(told: Told, job: JobDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    clearing = Held(monkeypatch, Chores, "do")
    told.give(1, keep=Keep(last=1))
    told.hear(Committed, 1)
    clearing.await_entered()
    told.give(2, keep=Keep(last=1))
    told.hear(Committed, 2)
    assert told.desk.is_saved() and not told.desk.is_idle()
    clearing.let_go()
    told.rest()
    assert committed(job) == [2]


def test_trouble_of_retention_is_told_and_costs_no_save(
    told: Told, job: JobDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "lastgood.store.sweep.delete_checkpoint", lambda job, name: (_ for _ in ()).throw(OSError(5, "bad \udcff disk"))
    )
    told.give(1, keep=Keep(last=1))
    told.give(2, keep=Keep(last=1))
    assert "bad \\udcff disk" in told.hear(Cleared, 2).trouble
    assert committed(job) == [1, 2]
    told.rest()
    assert [e.kind for e in read_events(job, 1)] == ["committed", "committed", "not_deleted"]


def test_storage_that_fails_at_any_look_fails_the_save_and_nothing_else(
    told: Told, job: JobDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: CheckpointWriter, *rest: Any) -> Any:
        raise OSError(5, "Input/output error")

    for step, name in enumerate(("is_committed", "missing_parts"), start=1):
        with monkeypatch.context() as patch:
            patch.setattr(CheckpointWriter, name, fail)
            told.give(step)
            assert told.hear(Failed, step).kind == "StorageError"
            told.rest()
    told.give(9)
    told.hear(Committed, 9)
    assert committed(job) == [9]


SLOW = Writing(limit="1kB/s")


@pytest.fixture
def _many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "BLOCK_BYTES", 2**18)


def begin_slow_write(told: Told) -> None:
    """One that would take half an hour."""
    told.give(5, floats=2**18, writing=SLOW)
    until(lambda: list(told.job.checkpoints.rglob("*.part")))
    time.sleep(0.2)
    assert told.kinds(5) == []


@pytest.mark.slow
@pytest.mark.usefixtures("_many_blocks")
@pytest.mark.parametrize("reason", ["an urgent order comes", "somebody waits for all", "nobody computes here"])
def test_gentleness_ends_when(told: Told, job: JobDirectory, reason: str) -> None:
    told.desk.note_rank(0, is_gone=False)
    begin_slow_write(told)
    told.give(6, floats=2**18, writing=SLOW, is_urgent=reason.startswith("an urgent"))
    if reason.startswith("somebody"):
        told.desk.hurry()
    if reason.startswith("nobody"):
        told.desk.note_rank(0, is_gone=True)
    told.hear(Committed, 6)
    assert committed(job) == [5, 6]


@pytest.mark.slow
@pytest.mark.usefixtures("_many_blocks")
def test_gentleness_comes_back(told: Told) -> None:
    begin_slow_write(told)
    told.desk.hurry()
    told.hear(Committed, 5)
    told.desk.hurry()
    told.give(6, floats=2**18, writing=SLOW)
    time.sleep(0.5)
    assert told.kinds(6) == []
    told.desk.hurry()
    told.hear(Committed, 6)


def test_the_clock_of_the_wall_has_no_say_in_how_long_a_save_took(
    told: Told, job: JobDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = time.monotonic() - 100
    real = time.time
    for step, jump in enumerate((0.0, 1e6, -1e6), start=1):
        monkeypatch.setattr(time, "time", lambda jump=jump: real() + jump)
        told.give(step, began=began)
        assert 100 <= told.hear(Committed, step).write_s < 100 + LIMIT_S
        assert 100 <= open_checkpoint(job, f"{step:012d}-0001").manifest.write_s < 100 + LIMIT_S


def test_other_nodes_parts_are_looked_for_less_and_less_often(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    # With thousands of ranks every look lists a directory of thousands of files.
    assert told.desk._pause_s() == desk_module._LOOK_S
    told.give(5, world_size=2)
    told.hear(Written, 5)
    pauses = []
    for _ in range(4):
        pauses.append(told.desk._pause_s())
        told.now += 10
    assert pauses == [desk_module._LOOK_S, 1.0, desk_module._SELDOM_S, desk_module._SELDOM_S]
    # It would go on looking beside all tests that follow, and open directories while they count descriptors.
    told.desk.give_up(None, "the test is over")
    told.rest()


def test_errors_of_any_class_are_told_by_name() -> None:
    from lastgood.core import errors
    from lastgood.keeper.protocol import failed

    def all_of(kind: type[LastgoodError]) -> list[type[LastgoodError]]:
        return [kind, *(found for sub in kind.__subclasses__() for found in all_of(sub))]

    kinds = all_of(LastgoodError)
    for kind in (kind for kind in kinds if kind.__module__ == errors.__name__):
        assert getattr(errors, failed(1, kind("x")).kind) is kind

    class OwnError(errors.DamagedError):
        """Of a module that the other side may not have."""

    assert failed(1, OwnError("x")).kind == "DamagedError"


def test_without_a_desk_too_nobody_waits_for_parts_that_a_newer_attempt_has_taken_away(
    job: JobDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, order = made(5)
    find = work.missing_parts

    def sweep_first(job: JobDirectory, order: Order) -> list[int]:
        # As in a process that was frozen when its own part was written.
        sweep_incomplete(job, claim_attempt(job, "launch-2").attempt)
        return find(job, order)

    monkeypatch.setattr(work, "missing_parts", sweep_first)
    (told,) = work.work_at_once(job, order, memoryview(content))
    assert isinstance(told, Failed) and told.kind == "FencedError"
