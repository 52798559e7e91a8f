"""torch.save over one file, as most tutorials do it."""

from pathlib import Path

import torch
import torch_loop
from torch_loop import Loop, State


def save(store: Path, loop: Loop) -> None:
    torch.save(loop.state(), store / "checkpoint.pt")


def load(store: Path, loop: Loop) -> State | None:
    path = store / "checkpoint.pt"
    return torch.load(path, weights_only=False) if path.exists() else None


torch_loop.run(save, load)
