"""The scripts that the benchmark of the audit makes."""

import importlib
import random
import subprocess
from pathlib import Path

import pytest

from lastgood.audit.engine import models_of
from lastgood.audit.source import Source

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.syspath_prepend(str(BENCH))
    bench = importlib.import_module("audit")
    chance = random.Random(bench.SEED)
    return [bench.script(chance) for _ in range(40)]


def test_they_differ_and_are_understood(scripts: list[str]) -> None:
    assert len(set(scripts)) == len(scripts)
    for text in scripts:
        read = models_of(Source("job.sh", text.encode()))
        assert read.models and not read.problems


@pytest.mark.slow
def test_bash_takes_them_too(scripts: list[str]) -> None:
    for text in scripts:
        assert subprocess.run(["bash", "-n"], input=text.encode(), check=False).returncode == 0
