"""What `gmx dump` says of a file, and what it means where it says nothing."""

import os
import re
import sys
from pathlib import Path

import pytest

from lastgood.apps.gromacs_dump import ask_dump
from lastgood.apps.gromacs_files import NotACheckpointError, read_outputs
from lastgood.core.errors import StorageError

WANTED = re.compile(r"(nsteps)\s*=\s*(\d+)")


def program(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "gmx.py"
    path.write_text(f"import os, sys, time\ncount = {str(tmp_path / 'count')!r}\nopen(count, 'a').write('x')\n{text}")
    return [sys.executable, str(path)]


def starts(tmp_path: Path) -> int:
    return len((tmp_path / "count").read_text())


def test_long_answers_and_long_complaints_are_read_together(tmp_path: Path) -> None:
    gmx = program(tmp_path, "sys.stderr.write('e' * 500_000)\nprint('x\\n' * 300_000 + 'nsteps = 7')")
    assert ask_dump(gmx, "-s", "topol.tpr", WANTED).matches == [("nsteps", "7")]


def test_one_that_is_killed_is_asked_again(tmp_path: Path) -> None:
    gmx = program(tmp_path, "if len(open(count).read()) == 1: os.kill(os.getpid(), 9)\nprint('nsteps = 7')")
    assert ask_dump(gmx, "-s", "topol.tpr", WANTED).matches == [("nsteps", "7")]


def test_one_that_is_killed_again_says_nothing_of_the_file(tmp_path: Path) -> None:
    gmx = program(tmp_path, "os.kill(os.getpid(), 9)")
    with pytest.raises(StorageError, match="ended by SIGKILL while it read"):
        read_outputs(gmx, "state.cpt")
    assert starts(tmp_path) == 2


def test_one_that_does_not_answer_is_ended_at_the_limit_with_all_that_it_has_started(tmp_path: Path) -> None:
    gmx = program(tmp_path, "child = os.fork()\nprint('pid', child, flush=True)\ntime.sleep(600)")
    pids = re.compile(r"(pid) (\d+)")
    with pytest.raises(StorageError):
        ask_dump(gmx, "-s", "topol.tpr", pids, limit_s=1.0)
    assert not [p for p in os.listdir("/proc") if p.isdigit() and str(tmp_path) in _words(p)]


def test_one_that_refuses_the_file_is_believed(tmp_path: Path) -> None:
    gmx = program(tmp_path, "sys.exit('Fatal error:\\nCheckpoint file corrupted')")
    with pytest.raises(NotACheckpointError, match="Checkpoint file corrupted"):
        read_outputs(gmx, "state.cpt")
    assert starts(tmp_path) == 1


def _words(pid: str) -> str:
    try:
        return Path("/proc", pid, "cmdline").read_text()
    except OSError:
        return ""
