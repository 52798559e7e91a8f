"""Saving a state and restoring it into other objects, through a real Run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lastgood

Save = Callable[..., None]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """`save(state)`: commits it as the state of step 1."""

    def commit(state: dict[str, Any]) -> None:
        with lastgood.Run(state, job=tmp_path / "job", fresh=True) as run:
            list(run.steps(1))

    return commit


@pytest.fixture
def load(tmp_path: Path) -> Save:
    """`load(state)`: restores what was saved into these objects."""

    def restore(state: dict[str, Any]) -> None:
        with lastgood.Run(state, job=tmp_path / "job") as run:
            assert run.step == 1

    return restore
