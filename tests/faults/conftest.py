"""What the campaigns share: the nursery of small processes, and the summary of kill points."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from faults import states, stepping
from faults.nursery import Nursery
from lastgood.store import writer


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    with Nursery(tmp_path_factory.mktemp("nursery") / "errors.txt") as nursery:
        yield nursery


@pytest.fixture(scope="session")
def gym(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """A nursery whose children can train."""
    with Nursery(tmp_path_factory.mktemp("gym") / "errors.txt", has_training=True) as gym:
        yield gym


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "BLOCK_BYTES", states.BLOCK_BYTES)


@pytest.fixture
def unflushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process only looks at what others left, and repairs it: that need not be durable."""
    monkeypatch.setattr("os.fsync", lambda fd: None)


@pytest.fixture
def strace() -> None:
    if not stepping.is_available():
        pytest.skip("strace is not installed")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "strace.txt"


@pytest.fixture
def count_points(record_property: object, request: pytest.FixtureRequest) -> object:
    """`count_points(n, what)`: prints how many points a campaign tried, now and in the last summary (tests/conftest.py)."""

    def count(number: int, what: str) -> None:
        print(f"{request.node.name}: {number} {what}")
        record_property("kill points", (number, what))  # type: ignore[operator]

    return count
