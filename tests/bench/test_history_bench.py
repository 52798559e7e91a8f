"""The benchmark of `lastgood history --sacct`, with few rows: its totals are exact, and a wrong one is noticed."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

BENCH = Path(__file__).parents[2] / "bench"


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *program.split()], cwd=BENCH, capture_output=True, text=True, check=False)


def test_the_totals_are_exact(tmp_path: Path) -> None:
    done = run(f"history.py --rows 30000 --rounds 1 --directory {tmp_path}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "made 30,000 rows" in done.stdout
    assert "totals: exact" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_an_answer_that_is_wrong_by_one_second_is_noticed(tmp_path: Path) -> None:
    check = """\
import sys, pathlib, history
path = pathlib.Path(sys.argv[1])
totals = history.make(path, 30000)
answer = history.measured(path)[-1]
assert history.differences(totals, answer) == [], history.differences(totals, answer)
totals.node_s += 1
print(history.differences(totals, answer))
"""
    (tmp_path / "check.py").write_text(check)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "check.py"), str(tmp_path / "jobs.txt")],
        env={"PYTHONPATH": str(BENCH), "PATH": "/usr/bin:/bin", "LASTGOOD_STATE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "node-seconds: " in done.stdout
