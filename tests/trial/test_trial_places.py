"""The copy of a user's directory in which a trial works."""

from pathlib import Path

import pytest

from lastgood.core.errors import StorageError, UsageError
from lastgood.trial.place import clear, links_out, make_place
from lastgood.trial.target import Target


def test_empty_directories_are_copied_for_programs_that_do_not_make_them(tmp_path: Path) -> None:
    (tmp_path / "user" / "out" / "deep").mkdir(parents=True)
    (tmp_path / "user" / ".git").mkdir()
    (tmp_path / "user" / "train.py").write_text("x")
    work = make_place(tmp_path / "root", "a", Target(command=("true",), directory=tmp_path / "user")).work
    assert (work / "out" / "deep").is_dir()
    assert (work / "train.py").read_text() == "x"
    assert not (work / ".git").exists()


def test_what_was_left_out_of_a_directory_leaves_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "user" / "runs" / "old").mkdir(parents=True)
    target = Target(command=("true",), directory=tmp_path / "user", leave_out=("runs",))
    assert list(make_place(tmp_path / "root", "a", target).work.iterdir()) == []


def user_with_links(tmp_path: Path) -> Path:
    """Data beside the directory, and links to it, to a part that is never copied, and to each other."""
    user, data = tmp_path / "user", tmp_path / "big" / "data"
    (user / ".venv" / "bin").mkdir(parents=True)
    data.mkdir(parents=True)
    (data / "train.bin").write_text("data")
    (user / ".venv" / "bin" / "tool").write_text("tool")
    (user / "deep").mkdir()
    for link, to in (
        ("data", str(data)),
        ("data-beside", "../big/data"),
        ("deep/train.bin", "../../big/data/train.bin"),
        ("deep/up", "../data"),
        ("tool", ".venv/bin/tool"),
        ("nowhere", "nothing"),
    ):
        (user / link).symlink_to(to)
    return user


def test_links_lead_where_they_led(tmp_path: Path) -> None:
    target = Target(command=("true",), directory=user_with_links(tmp_path))
    work = make_place(tmp_path / "far" / "root", "a", target).work
    for name in ("data/train.bin", "data-beside/train.bin", "deep/train.bin", "deep/up/train.bin"):
        assert (work / name).read_text() == "data", name
    assert (work / "tool").read_text() == "tool"
    assert (work / "deep" / "up").readlink() == Path("../data"), "what is copied, too, is the copy's"
    assert (work / "data").is_symlink() and (work / "nowhere").is_symlink()


def test_links_to_directories_can_be_left_out_and_one_to_the_trials_is(tmp_path: Path) -> None:
    user = user_with_links(tmp_path)
    (user / "trials").symlink_to(tmp_path / "root")
    (tmp_path / "root").mkdir()
    target = Target(command=("true",), directory=user, leave_out=("data*",))
    work = make_place(tmp_path / "root", "a", target).work
    assert sorted(path.name for path in work.iterdir()) == ["deep", "nowhere", "tool"]


def test_links_through_which_a_trial_can_write_are_named(tmp_path: Path) -> None:
    target = Target(command=("true",), directory=user_with_links(tmp_path), leave_out=("data",))
    beside = tmp_path / "big" / "data"
    assert sorted(links_out(target)) == [
        f"data-beside -> {beside}",
        f"deep/train.bin -> {beside / 'train.bin'}",
        f"tool -> {tmp_path / 'user' / '.venv' / 'bin' / 'tool'}",
    ]


def test_a_link_to_where_checkpoints_are_kept_is_refused(tmp_path: Path) -> None:
    target = Target(command=("true",), directory=user_with_links(tmp_path), checkpoints="data/*.pt")
    with pytest.raises(UsageError, match="checkpoints would be your own") as refused:
        make_place(tmp_path / "root", "a", target)
    assert "--leave-out data" in str(refused.value)
    make_place(tmp_path / "root", "b", Target(("true",), target.directory, checkpoints="deep/*.pt"))


def test_a_trial_whose_directory_cannot_be_made_anew_says_so(tmp_path: Path) -> None:
    (tmp_path / "user").mkdir()
    target = Target(command=("true",), directory=tmp_path / "user")
    place = make_place(tmp_path / "root", "a", target)
    place.state.rmdir()
    place.state.write_text("in the way")
    with pytest.raises(StorageError, match="cannot make the directory of a trial anew"):
        clear(place, target)
