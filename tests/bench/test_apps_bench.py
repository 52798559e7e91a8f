"""The benchmark of the launcher around an application, with a simulation of a moment."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from apps.conftest import need

pytestmark = pytest.mark.slow

BENCH = Path(__file__).parents[2] / "bench" / "apps.py"


def test_both_commands_run_in_each_round_and_nothing_is_left(tmp_path: Path) -> None:
    need("gmx", "GROMACS")
    output, work = tmp_path / "found.json", tmp_path / "work"
    work.mkdir()
    words = ["--rounds", "2", "--seconds", "0.3", "--directory", str(work), "--output", str(output)]
    done = subprocess.run(
        [sys.executable, str(BENCH), *words], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(output.read_text())
    assert found["ratios"] == [o / b for o, b in zip(found["launched_s"], found["bare_s"], strict=True)]
    assert len(found["ratios"]) == 2
    assert f"ratio {found['median_ratio']:.4f}" in done.stdout
    assert list(work.iterdir()) == []
