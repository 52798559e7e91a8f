"""Runs in this process, and programs in processes of their own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lastgood
from keeper.leftovers import end_keepers
from lastgood.store.catalogue import list_checkpoints
from lastgood.store.jobdir import open_job
from runtime.zygote import Zygote, zygote

OURS = ("LASTGOOD_JOB", "LASTGOOD_ATTEMPT", "SLURM_RESTART_COUNT", "SLURM_JOB_END_TIME", "WORLD_SIZE", "RANK")


@pytest.fixture(autouse=True)
def _no_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OURS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """How saves are made: in the "foreground", where one is committed when it returns, unless a test says otherwise;
    or in the "background", by a keeper, of which nothing is left at the end."""
    chosen = getattr(request, "param", "foreground")
    monkeypatch.setenv("LASTGOOD_KEEPER", "off" if chosen == "foreground" else "on")
    monkeypatch.setenv("LASTGOOD_KEEPER_LINGER", "30s")
    yield chosen
    if chosen == "background":
        end_keepers(tmp_path)


both_ways = pytest.mark.parametrize("way", ["foreground", "background"], indirect=True)
in_background = pytest.mark.parametrize("way", ["background"], indirect=True)


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
