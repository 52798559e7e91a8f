"""The keeper and a stage: committed there, promoted in the background, and past it when it fails."""

import os
from pathlib import Path
from typing import Any

import pytest

from keeper.ranks import LIMIT_S, until
from keeper.test_desk import Held, Told, committed
from lastgood.core import layout
from lastgood.core.errors import StorageError
from lastgood.core.retention import Keep
from lastgood.core.tensorfile import ArraySpec
from lastgood.core.writing import Writing
from lastgood.keeper import desk as desk_module
from lastgood.keeper import work
from lastgood.keeper.client import Keeper
from lastgood.keeper.protocol import Cleared, Committed, Failed, Promoted, TakeUp, Written
from lastgood.store import copying, promotion
from lastgood.store import writer as writer_module
from lastgood.store.attempts import claim_attempt, read_events
from lastgood.store.catalogue import list_checkpoints
from lastgood.store.constants import ConstantsWriter
from lastgood.store.jobdir import JobDirectory
from lastgood.store.promotion import Promoter
from lastgood.store.reader import open_checkpoint
from lastgood.store.staging import Stage, open_stage
from lastgood.store.sweep import sweep_incomplete


@pytest.fixture
def stage(job: JobDirectory, tmp_path: Path) -> Stage:
    return open_stage(job, tmp_path / "scratch")


class Staged(Told):
    """Orders go to the stage, unless they say otherwise."""

    def __init__(self, job: JobDirectory, stage: Stage) -> None:
        super().__init__(job)
        self.stage = stage

    def give(self, step: int, rank: int = 0, giver: int = 0, floats: int = 500, **changes: Any) -> None:
        super().give(step, rank, giver, floats, **{"stage": str(self.stage.path), **changes})

    def take_up(self, attempt: int, keep: Keep | None = None) -> None:
        self.desk.take_up(TakeUp(str(self.stage.path), attempt, keep or Keep(), Writing()), 0)

    def staged(self) -> list[int]:
        return sorted(c.step for c in list_checkpoints(self.stage.staged) if c.is_committed)


@pytest.fixture
def told(job: JobDirectory, stage: Stage) -> Staged:
    return Staged(job, stage)


def name(step: int, attempt: int = 1) -> str:
    return layout.checkpoint_name(step, attempt)


def no_space(*_: Any, **__: Any) -> Any:
    raise OSError(28, "No space left on device")


def test_a_save_is_committed_on_the_stage_and_then_promoted(told: Staged, job: JobDirectory) -> None:
    told.give(10)
    told.rest()
    assert told.kinds(10) == ["Written", "Committed", "Promoted", "Cleared"]
    done = told.hear(Committed, 10)
    assert (done.stage, done.detour) == (str(told.stage.path), "")
    assert (told.staged(), committed(job)) == ([10], [10])
    kinds = {event.kind: event.data for event in read_events(job, 1)}
    assert list(kinds) == ["committed", "promoted"]
    assert (kinds["committed"]["stage"], kinds["committed"]["host"]) == (str(told.stage.path), os.uname().nodename)


def test_a_commit_on_the_stage_does_not_wait_for_the_promotion_of_the_one_before(
    told: Staged, job: JobDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    promoting = Held(monkeypatch, Promoter, "promote")
    told.give(10)
    told.hear(Committed, 10)
    promoting.await_entered()
    for step in (20, 30, 40):
        told.give(step)
        told.hear(Committed, step)
    assert told.desk.is_saved() and not told.desk.is_idle()
    assert (told.staged(), committed(job)) == ([10, 20, 30, 40], [])
    promoting.let_go()
    told.rest()
    assert committed(job) == [10, 40], "what was overtaken while the storage was slow is left out"
    assert told.staged() == [30, 40]


def test_both_sides_are_retired(told: Staged, job: JobDirectory) -> None:
    for step in (10, 20, 30, 40):
        told.give(step, keep=Keep(last=1))
        told.hear(Cleared, step)
    assert (told.staged(), committed(job)) == ([30, 40], [40])


def test_what_a_dead_attempt_left_is_promoted_when_the_next_one_begins(told: Staged, job: JobDirectory) -> None:
    for step in (10, 20):
        work.write_part(job, *made_staged(told, step))
        work.commit_parts(job, made_staged(told, step)[0])
    attempt = claim_attempt(job, "next").attempt
    sweep_incomplete(job, attempt, spare=[c.name for c in told.stage.pending()])
    told.take_up(attempt)
    told.rest()
    assert told.hear(Promoted, 20).trouble == ""
    assert committed(job) == [20]
    assert [event.kind for event in read_events(job, attempt)] == ["promoted"]


def made_staged(told: Staged, step: int, rank: int = 0, world_size: int = 1) -> Any:
    from keeper.test_desk import made

    content, order = made(step, rank, world_size=world_size, stage=str(told.stage.path))
    return order, memoryview(content), work.pacer_of(order)


def fill_stage(told: Staged, monkeypatch: pytest.MonkeyPatch, *, for_rank: int) -> None:
    def full(self: writer_module.CheckpointWriter, rank: int, *rest: Any) -> Any:
        if rank == for_rank and self.job is told.stage.staged:
            raise StorageError("the stage is full")
        return real(self, rank, *rest)

    real = writer_module.CheckpointWriter.write_laid_out
    monkeypatch.setattr(writer_module.CheckpointWriter, "write_laid_out", full)


def test_a_full_stage_costs_no_save(told: Staged, job: JobDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second rank meets the full disk; what the first has written there comes along."""
    fill_stage(told, monkeypatch, for_rank=1)
    told.give(10, rank=0, world_size=3, giver=0)
    told.hear(Written, 10, giver=0)
    told.give(10, rank=1, world_size=3, giver=1)
    told.give(10, rank=2, world_size=3, giver=2)
    done = told.hear(Committed, 10)
    told.rest()
    assert (done.stage, done.detour) == ("", "the stage is full")
    assert (told.staged(), committed(job)) == ([], [10])
    assert list(told.stage.staged.checkpoints.iterdir()) == []
    assert [event.kind for event in read_events(job, 1)] == ["committed"], "no save has failed"


@pytest.mark.parametrize("full_for", [0, 1])
def test_a_full_stage_costs_no_save_either_where_rank_0_comes_last(
    told: Staged, job: JobDirectory, monkeypatch: pytest.MonkeyPatch, full_for: int
) -> None:
    """The part of rank 1 was the only one until it was done, on the stage or past it."""
    fill_stage(told, monkeypatch, for_rank=full_for)
    told.give(10, rank=1, world_size=2, giver=1)
    told.hear(Written, 10, giver=1)
    until(told.desk.is_saved)
    told.give(10, rank=0, world_size=2, giver=0)
    done = told.hear(Committed, 10)
    told.rest()
    assert (done.stage, done.detour) == ("", "the stage is full")
    assert (told.staged(), committed(job)) == ([], [10])
    assert list(told.stage.staged.checkpoints.iterdir()) == []


def test_what_a_keeper_before_has_written_to_a_stage_that_is_full_comes_along(
    told: Staged, job: JobDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_stage(told, monkeypatch, for_rank=0)
    work.write_part(job, *made_staged(told, 10, rank=1, world_size=2))
    told.give(10, rank=0, world_size=2)
    assert told.hear(Committed, 10).detour == "the stage is full"
    told.rest()
    assert (told.staged(), committed(job)) == ([], [10])


def test_the_room_on_the_stage_is_looked_at_first(
    told: Staged, job: JobDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(self: Stage, size: int) -> None:
        raise StorageError(f"no room for {size}")

    monkeypatch.setattr(Stage, "refuse_without_room", no_room)
    told.give(10)
    assert told.hear(Committed, 10).detour.startswith("no room for ")
    told.rest()
    assert (told.staged(), committed(job)) == ([], [10])


def test_a_stage_that_fails_at_the_commit_costs_no_save(
    told: Staged, job: JobDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: writer_module.CheckpointWriter, *rest: Any, **named: Any) -> Any:
        if self.job is told.stage.staged:
            raise StorageError("the stage has failed")
        return real(self, *rest, **named)

    real = writer_module.CheckpointWriter.commit
    monkeypatch.setattr(writer_module.CheckpointWriter, "commit", fails)
    for rank in (1, 0):
        told.give(10, rank=rank, world_size=2)
    done = told.hear(Committed, 10)
    told.rest()
    assert (done.stage, done.detour) == ("", "the stage has failed")
    assert (told.staged(), committed(job)) == ([], [10])


def test_saves_go_on_while_the_durable_storage_is_away(
    told: Staged, job: JobDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.listdir

    def away(path: Any = ".") -> Any:
        if str(path).startswith(str(job.path)):
            raise OSError(5, "Input/output error")
        return real(path)

    told.desk.note_rank(0, is_gone=False)
    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", away)
        for step in (10, 20):
            told.give(step)
            assert told.hear(Committed, step).stage
        assert told.hear(Promoted, 0).is_left
    told.now += desk_module.AGAIN_S + 1
    told.poke()
    told.rest()
    assert (told.staged()[-1], committed(job)) == (20, [20])


def test_where_both_fail_the_save_has_failed(told: Staged, job: JobDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pwrite", no_space)
    told.give(10)
    assert "No space left" in told.hear(Failed, 10).what
    told.rest()
    assert (told.staged(), committed(job)) == ([], [])
    monkeypatch.undo()
    told.give(20)
    told.rest()
    assert (told.staged(), committed(job)) == ([20], [20])


def test_a_promotion_that_fails_is_told_and_tried_again(
    told: Staged, job: JobDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    told.desk.note_rank(0, is_gone=False)
    with monkeypatch.context() as away:
        away.setattr(copying, "write_source", no_space)
        told.give(10)
        told.hear(Committed, 10)
        failed = told.hear(Promoted, 0)
        assert "No space left" in failed.trouble and failed.is_left
        assert not told.desk.is_idle()
    assert committed(job) == []
    told.now += desk_module.AGAIN_S + 1
    told.poke()
    assert told.hear(Promoted, 10).trouble == ""
    told.rest()
    assert committed(job) == [10]
    assert [event.kind for event in read_events(job, 1)] == ["committed", "not_promoted", "promoted"]


def test_a_keeper_that_is_left_alone_does_not_try_for_ever(
    told: Staged, job: JobDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "write_source", no_space)
    monkeypatch.setattr(desk_module, "AGAIN_S", 0.0)
    told.desk.note_rank(0, is_gone=False)
    told.give(10)
    told.hear(Committed, 10)
    told.desk.note_rank(0, is_gone=True)
    told.rest()
    assert (told.staged(), committed(job)) == ([10], [])


def test_a_damaged_staged_copy_does_not_hold_up_the_others(told: Staged, job: JobDirectory) -> None:
    for step in (10, 20):
        work.write_part(job, *made_staged(told, step))
        work.commit_parts(job, made_staged(told, step)[0])
    os.truncate(told.stage.staged.checkpoints / name(20) / layout.data_file(0), 100)
    told.take_up(1)
    told.rest()
    assert committed(job) == [10]
    assert "damaged" in told.hear(Promoted, 10).trouble


def test_a_damaged_staged_copy_that_cannot_be_marked_is_tried_once(
    told: Staged, job: JobDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (10, 20):
        work.write_part(job, *made_staged(told, step))
        work.commit_parts(job, made_staged(told, step)[0])
    os.truncate(told.stage.staged.checkpoints / name(20) / layout.data_file(0), 100)
    monkeypatch.setattr(promotion, "set_mark", no_space)
    tried: list[str] = []
    real = Promoter.promote
    monkeypatch.setattr(Promoter, "promote", lambda self, name, *rest: (tried.append(name), real(self, name, *rest))[1])
    told.take_up(1)
    told.rest()
    assert tried == [name(20), name(10)]
    assert committed(job) == [10]
    assert "damaged" in told.hear(Promoted, 10).trouble


def test_the_save_before_a_stop_goes_past_the_stage_with_the_constants_that_are_there(
    told: Staged, job: JobDirectory
) -> None:
    constants = ConstantsWriter(told.stage.staged, 1).put([(ArraySpec("base", "U8", (5000,)), memoryview(bytes(5000)))])
    told.take_up(1)
    told.rest()
    told.give(10, constants=[constants], constants_stage=str(told.stage.path), stage="", is_urgent=True)
    assert told.hear(Committed, 10).stage == ""
    told.rest()
    assert committed(job) == [10]
    assert bytes(open_checkpoint(job, name(10)).read(0, ["base"])["base"]) == bytes(5000)


def test_staged_constants_are_promoted_once(told: Staged, job: JobDirectory) -> None:
    constants = ConstantsWriter(told.stage.staged, 1).put([(ArraySpec("base", "U8", (5000,)), memoryview(bytes(5000)))])
    for step in (10, 20):
        told.give(step, constants=[constants], constants_stage=str(told.stage.path))
        told.hear(Promoted, step)
    told.rest()
    sizes = [event.data["bytes"] for event in read_events(job, 1) if event.kind == "promoted"]
    assert sizes[0] - sizes[1] > 5000
    assert (told.staged(), committed(job)) == ([10, 20], [10, 20])


def test_a_newer_attempt_stops_the_promotions_of_the_old_one_and_nothing_else(
    told: Staged, job: JobDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    promoting = Held(monkeypatch, Promoter, "promote")
    told.give(10)
    promoting.await_entered()
    claim_attempt(job, "elsewhere")
    promoting.let_go()
    told.rest()
    assert told.kinds(10) == ["Written", "Committed"]
    assert committed(job) == []


@pytest.mark.slow
def test_the_last_drain_waits_for_the_promotion(job: JobDirectory, keeper: Any, new_rank: Any, stage: Stage) -> None:
    rank = new_rank(floats=2_000_000)
    rank.save(10, stage=str(stage.path), writing=Writing(limit="40MB/s"))
    link = Keeper(job)
    link.drain(LIMIT_S, is_last=True)
    assert committed(job) == [10]
    link.close()
    until(lambda: any(isinstance(e, Promoted) for e in rank.keeper.events(0.1)))
