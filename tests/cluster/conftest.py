"""A cluster for each test process, free again for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .machine import missing
from .slurm import SlurmCluster

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.cluster)
            item.add_marker(pytest.mark.slow)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(600))  # more than one wait may take, see LIMIT_S


@pytest.fixture(scope="session")
def _cluster() -> Iterator[SlurmCluster]:
    if reason := missing():
        pytest.skip(reason)
    with SlurmCluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(_cluster: SlurmCluster) -> Iterator[SlurmCluster]:
    """A cluster with all nodes idle and default settings. All jobs of the test end with it."""
    _cluster.free()
    yield _cluster
    _cluster.free()


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A directory that all nodes see, as on a shared file system; jobs' scripts and output go there."""
    path = tmp_path / "shared"
    path.mkdir()
    return path
