"""The copy of a user's directory in which a trial works."""

from pathlib import Path

from lastgood.trial.place import make_place
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
