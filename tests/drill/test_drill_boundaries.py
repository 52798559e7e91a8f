"""A kill at each file operation of a save: where scripts as users write them break is shown, and what is sound is not blamed."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drill.drill_programs import FORGIVING, IN_PLACE, REPLACED, TWO_FILES, WITH_LIBRARY
from drill.drill_scenes import PlainJournal, program, target_of
from lastgood.drill import saving
from lastgood.drill.boundary_answer import Next, Point
from lastgood.drill.fault import Answer, Calm, Campaign, Stage, Tried, make_fault
from lastgood.drill.filesystem import mounting
from lastgood.drill.filesystem.changes import Change
from lastgood.trial.target import Way

needs_fuse = pytest.mark.skipif(bool(mounting.missing()), reason=mounting.missing() or "-")


# -- which changes are a save


def change(operation: str, path: str, at: float = 0.0, **more: object) -> Change:
    return Change(at, operation, path, **more)  # type: ignore[arg-type]


def test_files_that_become_a_checkpoint_belong_to_its_save_and_a_log_does_not() -> None:
    changes = [
        change("write", "log.txt"),
        change("create", "ckpt.tmp"),
        change("write", "ckpt.tmp"),
        change("rename", "ckpt.tmp", other="ckpt.pt"),
        change("unlink", "ckpt.pt.old"),
    ]
    found = saving.changes_of_saves(changes, saving.is_under("ckpt.pt"))
    assert found == changes[1:4]


def test_a_directory_that_is_filled_under_another_name_belongs_to_the_save() -> None:
    changes = [
        change("mkdir", "out/tmp-1"),
        change("create", "out/tmp-1/model"),
        change("write", "out/tmp-1/model"),
        change("rename", "out/tmp-1", other="out/step-1"),
    ]
    assert saving.changes_of_saves(changes, saving.is_under("out/step-*")) == changes


def test_a_save_ends_where_the_next_begins() -> None:
    first = [change("create", "a.tmp", 1.0), change("write", "a.tmp", 1.01), change("rename", "a.tmp", 1.9, other="a")]
    second = [
        change("create", "a.tmp", 2.0),
        change("write", "a.tmp", 2.01),
        change("rename", "a.tmp", 2.02, other="a"),
    ]
    assert saving.first_save(first + second) == (0, first), (
        "also where a call of it took longer than the pause between them"
    )
    assert saving.first_save(first) == (0, first)
    swept = [change("unlink", "old", 0.0), *first, *second]
    assert saving.first_save(swept) == (1, first), "what only deletes is no save"
    assert saving.first_save([change("unlink", "old", 0.0)]) == (0, [])


def test_files_of_one_save_that_differ_by_a_number_are_not_taken_for_saves() -> None:
    def save(at: float, step: int) -> list[Change]:
        names = [f"out/step-{step}/rank-{rank}" for rank in (0, 1)]
        return [change(kind, name, at + i / 10) for i, name in enumerate(names) for kind in ("create", "write")]

    assert saving.first_save(save(1.0, 10) + save(5.0, 20)) == (0, save(1.0, 10))


@given(st.integers(1, 200), st.integers(0, 50))
def test_points_are_spread_from_the_first_to_the_last(count: int, wanted: int) -> None:
    chosen = saving.spread(count, wanted)
    assert chosen == sorted(set(chosen)) and chosen[0] == 0
    assert len(chosen) == (count if wanted == 0 else min(count, wanted))
    assert wanted == 1 or chosen[-1] == count - 1


@given(
    st.lists(st.sampled_from(["a", "b-1", "model.pt", "x[0]", "00ff00ff00ff"]), min_size=1, max_size=4).map("/".join)
)
def test_the_pattern_of_a_path_matches_it(path: str) -> None:
    assert saving.matches_any([saving.pattern_of(path)], change("write", path))


def test_places_are_told_in_words() -> None:
    save = [
        change("empty", "ckpt.pt"),
        change("write", "ckpt.pt", size=4096),
        change("write", "ckpt.pt", size=10, offset=4096),
        change("rename", "a/b/ckpt.tmp", other="a/b/ckpt.pt"),
    ]
    assert [saving.describe(save, i) for i in range(4)] == [
        "before emptying ckpt.pt (opened to be written anew)",
        "after emptying ckpt.pt (opened to be written anew), before write 1 of ckpt.pt (4.1 kB at 0)",
        "after write 1 of ckpt.pt (4.1 kB at 0), before write 2 of ckpt.pt (10 B at 4096)",
        "after write 2 of ckpt.pt (10 B at 4096), before renaming b/ckpt.tmp to b/ckpt.pt",
    ]


@pytest.mark.parametrize("what", list(Next))
def test_only_what_resumes_from_the_right_step_passes(what: Next) -> None:
    answer = Point(1, "here", "the program", what, 10).as_tried(10).answer
    expected = {Next.RESUMED: Answer.PASS, Next.NOT_HIT: Answer.UNKNOWN, Next.NOT_TOLD: Answer.UNKNOWN}
    assert answer is expected.get(what, Answer.FAIL)


# -- real programs, really killed


def campaign(tmp_path: Path, text: str, points: int, way: Way = Way.AGAIN, **more: str) -> list[Tried]:
    target = target_of(program(tmp_path / "src", text), "60", checkpoints="" if way is Way.LASTGOOD else "ckpt.bin")
    made = make_fault("kill-at-every-operation", {"points": str(points)})
    assert isinstance(made, Campaign)
    (tmp_path / "root").mkdir()
    return made.run(Stage(target, way, tmp_path / "root", PlainJournal(), Calm(took_s=3), random.Random(1)))


def nexts(tried: list[Tried]) -> list[str]:
    return [str(one.evidence["next"]) for one in tried]


@needs_fuse
@pytest.mark.slow
def test_a_script_that_saves_in_place_is_shown_where_it_breaks(tmp_path: Path) -> None:
    tried = campaign(tmp_path, IN_PLACE, 0)
    assert nexts(tried) == ["resumed", *["fails"] * (len(tried) - 1)]
    assert len(tried) >= 3
    assert tried[1].answer is Answer.FAIL
    assert "after emptying ckpt.bin" in tried[1].what and "before write 1" in tried[1].what
    assert tried[1].reason == "the next start fails: EOFError: Ran out of input"


@needs_fuse
@pytest.mark.slow
def test_a_script_that_takes_anything_for_no_checkpoint_is_caught_beginning_from_zero(tmp_path: Path) -> None:
    _, tried = campaign(tmp_path, FORGIVING, 2)
    assert (tried.answer, tried.resumed_step) == (Answer.FAIL, 0)
    assert tried.reason == "the next start begins from zero and says nothing of it"


@needs_fuse
@pytest.mark.slow
def test_a_script_that_replaces_its_checkpoint_is_not_blamed(tmp_path: Path) -> None:
    tried = campaign(tmp_path, REPLACED, 3)
    assert nexts(tried) == ["resumed"] * 3
    assert {one.answer for one in tried} == {Answer.PASS}
    assert all(one.resumed_step and one.resumed_step % 10 == 0 for one in tried)


@needs_fuse
@pytest.mark.slow
def test_two_files_of_different_saves_are_caught_by_the_numbers(tmp_path: Path) -> None:
    _first, last = campaign(tmp_path, TWO_FILES, 2)
    assert last.evidence["next"] == "resumed, other numbers"
    assert "where it was" in last.reason


@needs_fuse
@pytest.mark.slow
def test_no_call_of_our_keeper_breaks_a_job(tmp_path: Path) -> None:
    tried = campaign(tmp_path, WITH_LIBRARY, 2, Way.LASTGOOD)
    assert nexts(tried) == ["resumed"] * 2
    assert {one.evidence["who"] for one in tried} == {"the keeper"}
    assert "manifest.json" in tried[-1].what


@needs_fuse
@pytest.mark.slow
def test_a_program_that_never_resumes_fails_at_once_and_one_that_never_saves_is_unknown(tmp_path: Path) -> None:
    (tried,) = campaign(tmp_path / "a", REPLACED.replace("if os.path.exists(PATH)", "if False"), 3)
    assert tried.answer is Answer.FAIL and "does not resume at all" in tried.reason
    (tried,) = campaign(tmp_path / "b", REPLACED.replace("step % 10 == 0", "False").replace("0.02", "0"), 3)
    assert tried.answer is Answer.UNKNOWN and "without a checkpoint" in tried.reason
