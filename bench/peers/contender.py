"""What a way of saving looks like to the measurements."""

import importlib.metadata
import importlib.util
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Contender:
    """One way of saving, at the settings that its makers recommend for speed.

    A subclass sets up in `begin` (not timed), saves in `save`, and says in `settle` when the newest save is
    durable. `directory` is its own and empty; each save goes to a new place in it.
    """

    title = ""
    load_title = ""
    packages: tuple[str, ...] = ("torch",)
    """What has to be installed, by the names of the distributions."""
    is_durable = True
    """Its saves end up in storage."""
    is_overlapped = False
    """It copies beside the next step, and the change of the state waits for that."""

    def __init__(self) -> None:
        self.call_s: list[float] = []
        """How long each call of `save` kept the loop, by itself."""

    @classmethod
    def obstacle(cls) -> str:
        """Why it cannot be measured here; empty if it can."""
        missing = [name for name in cls.packages if not _is_installed(name)]
        return f"not installed: {', '.join(missing)}" if missing else ""

    def make_state(self, kind: str, scale: float, seed: int) -> Any:
        from peers.states import make_state

        return make_state(kind, scale, seed)

    def begin(self, state: Any, directory: Path, every: int) -> None:
        """Set up for saving after every `every`-th step."""
        self.state = state
        self.directory = directory
        self.every = every

    def steps(self, total: int) -> Iterator[int]:
        """The steps of a loop; the caller does each."""
        for step in range(1, total + 1):
            yield step
            if step % self.every == 0:
                began = time.monotonic()
                self.save(step)
                self.call_s.append(time.monotonic() - began)

    def save(self, step: int) -> None:
        raise NotImplementedError

    def before_update(self) -> None:
        """The state is about to be changed: wait for what still reads it."""

    def settle(self) -> Path:
        """Wait until the newest save is in storage, flushed, and return its file or directory."""
        raise NotImplementedError

    def forget(self, place: Path) -> None:
        """Remove an old checkpoint, as every program does that saves more than a few times."""
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink()

    def begin_load(self, state: Any) -> None:
        """Set up for loading: import what is needed."""
        self.state = state

    def load(self, place: Path) -> None:
        """Put a saved state into the arrays that are there."""
        raise NotImplementedError

    def end(self) -> None:
        """Let go of helpers, if there are any."""


def flush(place: Path) -> None:
    """Flush a file, or every file and directory below a directory, and the name of it.

    For those that leave this to the kernel: otherwise their data would be lost with the power.
    """
    for directory, _, files in os.walk(place):
        for path in (*(Path(directory, name) for name in files), Path(directory)):
            _flush_one(path)
    if place.is_file():
        _flush_one(place)
    _flush_one(place.parent)


def _flush_one(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
