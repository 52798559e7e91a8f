"""Links through which a run would write into the user's own directories."""

import os
from pathlib import Path

import pytest

from lastgood.core.errors import UsageError
from lastgood.trial.links import refuse_links_out, told_links_out
from lastgood.trial.target import Target


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """A directory with its checkpoints on another disk."""
    (tmp_path / "scratch" / "run1").mkdir(parents=True)
    (tmp_path / "user" / "deep").mkdir(parents=True)
    (tmp_path / "user" / "deep" / "out").symlink_to(tmp_path / "scratch" / "run1")
    return tmp_path / "user"


def target(directory: Path, *left_out: str) -> Target:
    return Target(command=("true",), directory=directory, leave_out=left_out)


def test_a_directory_of_the_user_that_every_run_would_write_into_is_refused_and_named(user: Path) -> None:
    with pytest.raises(UsageError) as refused:
        refuse_links_out(target(user), False)
    said = str(refused.value)
    assert f"deep/out -> {user.parent / 'scratch' / 'run1'}" in said
    assert "nothing was started" in said
    assert "--leave-out out" in said and "--through-links" in said


def test_a_link_that_is_left_out_or_meant_is_not_refused(user: Path) -> None:
    refuse_links_out(target(user, "out"), False)
    refuse_links_out(target(user), True)


def test_what_cannot_be_written_is_neither_refused_nor_said(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Root may write everywhere but where a disk is mounted to be read only.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    refuse_links_out(target(user), False)
    assert told_links_out(target(user)) == ""


def test_links_to_files_and_into_the_copy_are_not_refused(user: Path) -> None:
    (user / "deep" / "out").unlink()
    (user / "up").symlink_to("deep")
    (user.parent / "big.bin").write_text("data")
    (user / "big.bin").symlink_to("../big.bin")
    refuse_links_out(target(user), False)
    assert told_links_out(target(user)) == (
        f"what the job writes through these links changes your own files: big.bin -> {user.parent / 'big.bin'}"
    )


def test_many_links_are_counted_and_three_of_them_named(user: Path) -> None:
    for number in range(4):
        (user / f"link-{number}").symlink_to(user.parent / "scratch")
    assert told_links_out(target(user)).endswith(" and 2 more")
