"""Memory that the kernel takes back: seen in the cgroup's own counter, in a real cgroup."""

import errno
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastgood.launch import evidence, mounts

from .conftest import Launcher, wait_for

pytestmark = pytest.mark.slow

HUNGRY = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_DFL)
# The kernel should choose this process, not the launcher.
open("/proc/self/oom_score_adj", "w").write("1000")
held = []
print("eating", flush=True)
while True:
    held.append(bytearray(os.urandom(1 << 20)))
"""


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A memory cgroup of 256 MB below our own; version 1 or 2, whichever this machine has."""
    v1, v2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    if (v1 / "memory.limit_in_bytes").exists():
        parent, limit = v1, "memory.limit_in_bytes"
    elif (v2 / "cgroup.controllers").exists():
        parent, limit = v2, "memory.max"
    else:
        pytest.skip("no memory cgroup on this machine")
    group = parent / f"lastgood-test-{uuid.uuid4().hex[:8]}"
    try:
        group.mkdir()
        (group / limit).write_text(str(256 << 20))
        for swap in ("memory.memsw.limit_in_bytes", "memory.swap.max"):
            if (group / swap).exists():
                (group / swap).write_text(str(256 << 20) if swap.startswith("memory.memsw") else "0")
    except OSError as error:
        if group.exists():
            group.rmdir()
        pytest.skip(f"may not make a memory cgroup here: {error}")
    yield group
    wait_for(lambda: is_removed(group), "the end of the last process in it")


def is_removed(group: Path) -> bool:
    try:
        group.rmdir()
    except OSError as error:
        # Who has just been ended is still in it for a moment.
        assert error.errno == errno.EBUSY, error
        return False
    return True


def test_a_process_that_the_kernel_killed_for_memory_is_told_from_other_kills(
    launcher: Launcher, script, cgroup: Path
) -> None:
    def enter() -> None:
        (cgroup / "cgroup.procs").write_text(str(os.getpid()))

    command = ["--checkpoints", "*.none", "--", sys.executable, script("hungry.py", HUNGRY)]
    ended = launcher.run(*command, preexec_fn=enter)
    assert ended.code == 84, ended.err
    assert launcher.outcomes() == ["out of memory"] * 2
    assert "the kernel killed 1 process(es) of the job for memory" in ended.err


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Stand-ins for /proc/self/cgroup and /proc/self/mountinfo."""

    def write(groups: str, mounted: str) -> None:
        (tmp_path / "cgroup").write_text(groups)
        (tmp_path / "mountinfo").write_text(mounted.replace("ROOT", str(tmp_path)))
        monkeypatch.setattr(evidence, "_CGROUP_FILE", tmp_path / "cgroup")
        monkeypatch.setattr(mounts, "MOUNTS_FILE", tmp_path / "mountinfo")

    return write


def test_the_counter_is_found_in_version_2(proc, tmp_path: Path) -> None:
    (tmp_path / "cg" / "job").mkdir(parents=True)
    (tmp_path / "cg" / "job" / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    proc("0::/job\n", "41 31 0:38 / ROOT/cg rw - cgroup2 cgroup2 rw\n")
    assert evidence.oom_kills() == 2


def test_the_counter_is_found_in_version_1_below_a_containers_root(proc, tmp_path: Path) -> None:
    (tmp_path / "cg" / "job").mkdir(parents=True)
    (tmp_path / "cg" / "job" / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n")
    proc(
        "4:memory:/docker/abc/job\n0::/\n",
        "32 31 0:29 / ROOT/other rw - cgroup cgroup rw,cpu\n36 31 0:32 /docker/abc ROOT/cg rw - cgroup cgroup rw,memory\n",
    )
    assert evidence.oom_kills() == 5


@pytest.mark.parametrize("groups", ["", "0::/nowhere\n", "nonsense\n"])
def test_without_a_counter_nothing_is_claimed(proc, groups: str) -> None:
    proc(groups, "41 31 0:38 / ROOT/cg rw - cgroup2 cgroup2 rw\n")
    assert evidence.oom_kills() is None
