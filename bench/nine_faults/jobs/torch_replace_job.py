"""torch.save to a temporary file and os.replace, the newest three kept, the newest by number loaded."""

import os
from pathlib import Path

import torch
import torch_loop
from torch_loop import Loop, State


def save(store: Path, loop: Loop) -> None:
    path = store / f"step_{loop.step}.pt"
    torch.save(loop.state(), path.with_suffix(".tmp"))
    os.replace(path.with_suffix(".tmp"), path)
    for old in saved_steps(store)[:-3]:
        (store / f"step_{old}.pt").unlink()


def load(store: Path, loop: Loop) -> State | None:
    steps = saved_steps(store)
    return torch.load(store / f"step_{steps[-1]}.pt", weights_only=False) if steps else None


def saved_steps(store: Path) -> list[int]:
    return sorted(int(path.stem.removeprefix("step_")) for path in store.glob("step_*.pt"))


torch_loop.run(save, load)
