"""lastgood as a program uses it: `lastgood.Run` and its loop. How it saves is its own affair."""

import inspect
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peers.contender import Contender, flush

PATIENCE_S = 120.0


class Lastgood(Contender):
    title = "lastgood"
    load_title = "lastgood.Run, every byte checked"
    packages = ("lastgood",)
    options: dict[str, Any] = {}  # noqa: RUF012 - constant

    def begin(self, state: Any, directory: Path, every: int) -> None:
        super().begin(state, directory, every)
        import lastgood

        self._job = directory / "job"
        self._run = lastgood.Run(state.objects(), job=self._job, every=every, **self.options)

    def steps(self, total: int) -> Iterator[int]:
        ended: float | None = None
        for step in self._run.steps(total):
            if ended is not None:
                self.call_s.append(time.monotonic() - ended)
                ended = None
            yield step
            if step % self.every == 0:
                self._newest = step
                ended = time.monotonic()

    def settle(self) -> Path:
        """A checkpoint exists when its manifest does; by then all else of it is flushed."""
        from lastgood.core.layout import MANIFEST_FILE, checkpoint_name

        place = self._job / "checkpoints" / checkpoint_name(self._newest, 1)
        manifest = place / MANIFEST_FILE
        until = time.monotonic() + PATIENCE_S
        while not os.access(manifest, os.F_OK):
            if time.monotonic() > until:
                raise TimeoutError(f"{manifest} does not appear")
            time.sleep(0.001)
        flush(manifest)
        return place

    def forget(self, place: Path) -> None:
        """Retention does."""

    def begin_load(self, state: Any) -> None:
        super().begin_load(state)
        import lastgood

        self._make = lastgood.Run

    def load(self, place: Path) -> None:
        self._run = self._make(self.state.objects(), job=place.parents[1])

    def end(self) -> None:
        self._run.close()


class LastgoodOverlap(Lastgood):
    title = "lastgood, copied beside the next step"
    is_overlapped = True
    options = {"overlap": True}  # noqa: RUF012 - constant

    @classmethod
    def obstacle(cls) -> str:
        if obstacle := super().obstacle():
            return obstacle
        import lastgood

        is_known = "overlap" in inspect.signature(lastgood.Run).parameters
        return "" if is_known else "this version has no overlap=True"
