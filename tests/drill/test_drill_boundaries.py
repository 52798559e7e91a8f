"""A kill at each file operation of a save: where scripts as users write them break is shown, and what is sound is not blamed."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drill.drill_programs import FORGIVING, IN_PLACE, REPLACED, TWO_FILES, WITH_LIBRARY
from drill.drill_scenes import PlainJournal, program, target_of
from lastgood.drill import saving, tracing
from lastgood.drill.boundary_answer import Next, Point
from lastgood.drill.fault import Answer, Call, Calm, Campaign, Stage, Tried, make_fault
from lastgood.drill.filesystem import mounting
from lastgood.drill.filesystem.changes import Change
from lastgood.trial.target import Way

needs_strace = pytest.mark.skipif(bool(tracing.missing()), reason=tracing.missing() or "-")
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


# -- what strace saw

LOG = """\
7 1.0 openat(AT_FDCWD</w>, "ckpt", O_WRONLY|O_CREAT|O_TRUNC|O_CLOEXEC, 0666) = 3</w/ckpt>
7 1.1 write(3</w/ckpt>, ""..., 27) = 27
8 1.1 write(1</elsewhere/out>, ""..., 5) = 5
7 1.2 openat(AT_FDCWD</w>, "absent", O_RDONLY) = -1 ENOENT (No such file or directory)
7 1.3 rename("ckpt.tmp", "ckpt") = 0
7 1.4 openat(AT_FDCWD</w>, "ckpt.tmp", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 3</w/ckpt.tmp>
7 1.5 mkdirat(4</w/deep>, "er", 0777) = 0
7 1.6 unlinkat(AT_FDCWD</w>, "deep/er", AT_REMOVEDIR) = 0
7 1.7 ftruncate(3</w/ckpt>, 12) = 0
7 1.8 write(3</w/ckpt.tmp>, ""..., 100000) = ?
7 1.9 +++ killed by SIGKILL +++
8 1.9 +++ killed by SIGKILL +++
"""


def test_a_log_of_strace_is_read_as_the_same_changes() -> None:
    changes = tracing.changes_in(LOG, Path("/w"), Path("/w"), frozenset({"ckpt", "ckpt.tmp"}))
    assert [(c.operation, c.path, c.other, c.size, c.call, c.nth_of_call) for c in changes] == [
        ("empty", "ckpt", "", 0, "openat", 1),
        ("write", "ckpt", "", 27, "write", 1),
        ("rename", "ckpt.tmp", "ckpt", 0, "rename", 1),
        ("create", "ckpt.tmp", "", 0, "openat", 3),
        ("mkdir", "deep/er", "", 0, "mkdirat", 1),
        ("rmdir", "deep/er", "", 0, "unlinkat", 1),
        ("truncate", "ckpt", "", 12, "ftruncate", 1),
    ]


def test_the_call_that_a_killed_thread_did_not_get_is_told() -> None:
    struck = tracing.struck_in(LOG, Path("/w"), Path("/w"), frozenset())
    assert struck is not None
    assert (struck.operation, struck.path, struck.size, struck.nth_of_call) == ("write", "ckpt.tmp", 100000, 2)
    assert tracing.struck_in(LOG.replace("killed", "exited"), Path("/w"), Path("/w"), frozenset()) is None


@given(st.text(alphabet='0123456789 .()<>",=?abwrite\n', max_size=200))
def test_no_line_of_a_log_is_a_surprise(text: str) -> None:
    tracing.changes_in(text, Path("/w"), Path("/w"), frozenset())
    tracing.struck_in(text, Path("/w"), Path("/w"), frozenset())


def test_without_a_file_system_of_ours_strace_serves_programs_but_not_our_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounting, "FUSE_DEVICE", tmp_path / "no-device")
    monkeypatch.setattr(tracing, "missing", lambda: "")
    fault = make_fault("kill-at-every-operation", {})
    assert fault.missing(Call(target_of(tmp_path), Way.AGAIN)) == ""
    said = fault.missing(Call(target_of(tmp_path), Way.LASTGOOD))
    assert "no-device" in said and "strace" in said


# -- real programs, really killed


def campaign(tmp_path: Path, text: str, points: int, way: Way = Way.AGAIN, **more: str) -> list[Tried]:
    # So many steps that it is not over before it is killed, however late that is.
    target = target_of(program(tmp_path / "src", text), "3000", checkpoints="" if way is Way.LASTGOOD else "ckpt.bin")
    made = make_fault("kill-at-every-operation", {"points": str(points), **more})
    assert isinstance(made, Campaign)
    (tmp_path / "root").mkdir()
    return made.run(Stage(target, way, tmp_path / "root", PlainJournal(), Calm(took_s=3), random.Random(1)))


def nexts(tried: list[Tried]) -> list[str]:
    return [str(one.evidence.get("next", one.reason)) for one in tried]


@needs_fuse
@pytest.mark.slow
def test_a_script_that_saves_in_place_is_shown_where_it_breaks(tmp_path: Path) -> None:
    tried = campaign(tmp_path, IN_PLACE, 0)
    assert nexts(tried) == ["resumed", *["fails"] * (len(tried) - 1)]
    assert len(tried) >= 3
    assert tried[1].answer is Answer.FAIL
    assert "after emptying ckpt.bin" in tried[1].what and "before write 1" in tried[1].what
    assert tried[1].reason == "the next start fails: EOFError: Ran out of input"


@needs_strace
@pytest.mark.slow
def test_strace_shows_the_same_where_nothing_can_be_mounted(tmp_path: Path) -> None:
    tried = campaign(tmp_path, IN_PLACE, 3, **{"seen-by": "strace"})
    assert nexts(tried) == ["resumed", "fails", "fails"]
    assert tried[0].what.endswith("before emptying ckpt.bin (opened to be written anew)")


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
