"""Runs in this process, and programs in processes of their own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lastgood
from lastgood.store.catalogue import list_checkpoints
from lastgood.store.jobdir import open_job
from runtime.zygote import Zygote, zygote

OURS = ("LASTGOOD_JOB", "LASTGOOD_ATTEMPT", "SLURM_RESTART_COUNT", "SLURM_JOB_END_TIME", "WORLD_SIZE", "RANK")


@pytest.fixture(autouse=True)
def _no_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OURS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _foreground(monkeypatch: pytest.MonkeyPatch) -> None:
    """A save is committed when it returns, unless a test asks for the keeper."""
    monkeypatch.setenv("LASTGOOD_KEEPER", "off")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the job lives."""
    return tmp_path / "job"


@pytest.fixture
def start(path: Path) -> Iterator[Callable[..., lastgood.Run]]:
    """`start(state, every=...)`: a Run on `path`, closed at the end of the test."""
    made = []

    def make(state: Any = None, **settings: Any) -> lastgood.Run:
        settings = {"job": path, "every": 1, **settings}
        run = lastgood.Run({} if state is None else state, **settings)
        made.append(run)
        return run

    yield make
    for run in reversed(made):
        run.close()


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    pytest.importorskip("torch")
    with zygote(tmp_path_factory.mktemp("zygote")) as made:
        yield made


def names(path: Path) -> list[str]:
    """Committed checkpoints, newest first."""
    return [c.name for c in list_checkpoints(open_job(path)) if c.is_committed]
