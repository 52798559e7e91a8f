"""Holding any value as an entry of a state, and looking at what was written for it."""

from pathlib import Path
from typing import Any

from lastgood.store.catalogue import list_checkpoints
from lastgood.store.jobdir import open_job
from lastgood.store.reader import open_checkpoint


class Box:
    """Gives out and takes whatever it holds."""

    def __init__(self, content: Any = None) -> None:
        self.content = content

    def state_dict(self) -> dict[str, Any]:
        return {"content": self.content}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.content = state["content"]


def stored(path: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    job = open_job(path)
    arrays = open_checkpoint(job, list_checkpoints(job)[0].name).arrays(0)
    specs = {name: (placed.spec.dtype, placed.spec.shape) for name, placed in arrays.items()}
    return {name: spec for name, spec in specs.items() if not name.startswith("lastgood.")}
