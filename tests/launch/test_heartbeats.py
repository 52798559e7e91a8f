"""The directory for heartbeats: private, removed, and swept when its launcher was killed."""

import os
import stat
from pathlib import Path

import pytest

from lastgood.core.heartbeat import Heartbeat, encode, heartbeat_file
from lastgood.launch import heartbeats
from lastgood.launch.heartbeats import heartbeat_directory, read_heartbeats, share_directory


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(heartbeats, "_MEMORY", tmp_path)
    return tmp_path


def make_old(directory: Path) -> None:
    os.utime(directory, (1.0, 1.0))


def test_it_is_private_and_gone_afterwards(memory: Path) -> None:
    with heartbeat_directory() as directory:
        assert directory.parent == memory
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        (directory / heartbeat_file(0)).write_bytes(encode(Heartbeat(1, 7, 10, 5, 3.5, "step")))
        assert read_heartbeats(directory)[0].step == 7
    assert list(memory.iterdir()) == []
    assert read_heartbeats(directory) == {}


def test_what_a_killed_launcher_left_is_swept_by_the_next(memory: Path) -> None:
    left = memory / "lastgood-heartbeats-left"
    left.mkdir()
    (left / heartbeat_file(0)).write_bytes(b"x")
    make_old(left)
    with heartbeat_directory():
        assert not left.exists()


def test_the_directory_of_a_living_launcher_stays_however_old_it_is(memory: Path) -> None:
    with heartbeat_directory() as first:
        make_old(first)
        with heartbeat_directory() as second:
            assert first.exists()
            assert second != first


def test_a_new_directory_may_not_be_locked_yet_and_stays(memory: Path) -> None:
    (memory / "lastgood-heartbeats-new").mkdir()
    with heartbeat_directory():
        assert (memory / "lastgood-heartbeats-new").exists()


def test_what_is_not_ours_stays(memory: Path) -> None:
    (memory / "target").mkdir()
    (memory / "target" / "rank-00000").write_text("precious")
    (memory / "lastgood-heartbeats-link").symlink_to(memory / "target")
    foreign = memory / "lastgood-heartbeats-foreign"
    foreign.mkdir()
    (foreign / "notes.txt").write_text("precious")
    (memory / "lastgood-results").mkdir()
    for path in (foreign, memory / "lastgood-results", memory / "target"):
        make_old(path)
    with heartbeat_directory():
        pass
    assert (memory / "target" / "rank-00000").exists()
    assert (foreign / "notes.txt").exists()
    assert (memory / "lastgood-results").exists()


@pytest.mark.parametrize("content", [b"", b"x" * 20, b"\0" * 128, b"\xff" * 500])
def test_what_is_no_heartbeat_is_none(memory: Path, content: bytes) -> None:
    (memory / "rank-00000").write_bytes(content)
    (memory / "rank-x").write_bytes(content)
    assert read_heartbeats(memory) == {}


def test_a_directory_that_several_hold_goes_with_the_last() -> None:
    with heartbeat_directory() as path:
        first, second = share_directory(path), share_directory(path)
        (path / "agent-n1").write_text("1\n")
        first.close()
        assert path.exists()
    assert path.exists(), "an agent is slow"
    second.close()
    assert not path.exists()


def test_an_agent_on_another_host_makes_the_directory_for_its_user_alone() -> None:
    path = Path("/dev/shm") / f"lastgood-heartbeats-test-{os.getpid()}"
    held = share_directory(path)
    assert path.stat().st_mode & 0o777 == 0o700
    held.close()
    assert not path.exists()


@pytest.mark.parametrize("kind", ["open to others", "a link", "a file", "another name"])
def test_no_agent_uses_a_directory_that_could_be_somebody_elses(tmp_path: Path, kind: str) -> None:
    path = tmp_path / ("something" if kind == "another name" else "lastgood-heartbeats-x")
    if kind == "open to others":
        path.mkdir()
        path.chmod(0o755)
    elif kind == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        path.symlink_to("elsewhere")
    elif kind == "a file":
        path.write_text("")
    with pytest.raises(OSError):
        share_directory(path)
    assert not (tmp_path / "something").exists()
