"""A job's directory has to be where its next attempt finds it."""

from pathlib import Path

import pytest

from lastgood.core.errors import UsageError
from lastgood.core.filesystem import Reach
from lastgood.launch import mounts
from lastgood.launch.mounts import type_of
from lastgood.launch.storage_check import check_reach, check_seen

HERE = Path(__file__)


def test_the_type_of_a_file_system_is_the_kernels() -> None:
    assert type_of(Path("/proc")) == "proc"
    assert type_of(Path("/dev/shm")) == "tmpfs"


def test_where_the_kernel_tells_nothing_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "MOUNTS_FILE", tmp_path / "none")
    assert type_of(HERE) == ""
    assert check_reach(HERE, None) == ""


def test_a_mount_below_another_counts_and_so_does_a_space_in_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "a b" / "job"
    place.mkdir(parents=True)
    lines = ["1 0 250:9 / / rw - ext4 /dev/a rw", f"2 1 250:8 / {tmp_path}/a\\040b rw - nfs4 server:/x rw"]
    (tmp_path / "mountinfo").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(mounts, "MOUNTS_FILE", tmp_path / "mountinfo")
    assert (type_of(place), type_of(tmp_path)) == ("nfs4", "ext4")


def test_memory_is_refused_unless_that_is_allowed() -> None:
    with pytest.raises(UsageError, match="in the memory of this node"):
        check_reach(Path("/dev/shm"), None)
    assert "in the memory of this node (tmpfs)" in check_reach(Path("/dev/shm"), "warn")
    assert check_reach(Path("/dev/shm"), "allow") == ""


@pytest.mark.parametrize(("kind", "reach"), [("ext4", Reach.NODE), ("xfs", Reach.NODE)])
def test_a_disk_of_the_node_is_warned_of_and_refused_only_if_told(
    kind: str, reach: Reach, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lastgood.launch.storage_check.type_of", lambda path: kind)
    assert f"{reach.value} ({kind})" in check_reach(HERE, None)
    with pytest.raises(UsageError, match="another node would not find"):
        check_reach(HERE, "refuse")


@pytest.mark.parametrize("kind", ["nfs4", "lustre", "fuse.juicefs", ""])
def test_nothing_is_said_of_what_is_shared_or_not_known(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lastgood.launch.storage_check.type_of", lambda path: kind)
    assert check_reach(HERE, "refuse") == ""


def test_nodes_that_do_not_see_the_job_are_named() -> None:
    check_seen(HERE, {"n1": True, "n2": True})
    check_seen(HERE, {})
    with pytest.raises(UsageError, match="is not there on n2, n3"):
        check_seen(HERE, {"n1": True, "n3": False, "n2": False})
