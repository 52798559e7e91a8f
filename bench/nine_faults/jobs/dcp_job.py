"""torch.distributed.checkpoint, synchronous, one directory a step, the newest three kept, the newest loaded."""

import shutil
import warnings
from pathlib import Path

import torch.distributed.checkpoint as dcp
import torch_loop
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict
from torch_loop import Loop, State

warnings.filterwarnings("ignore", message="torch.distributed is disabled, unavailable or uninitialized")


def save(store: Path, loop: Loop) -> None:
    dcp.save(loop.state(), checkpoint_id=store / f"step_{loop.step}")
    for old in saved_steps(store)[:-3]:
        shutil.rmtree(store / f"step_{old}")


def load(store: Path, loop: Loop) -> State | None:
    steps = saved_steps(store)
    if not steps:
        return None
    # It loads into tensors that exist, and this gives a new optimizer its moments.
    get_optimizer_state_dict(loop.model, loop.optimizer)
    state = loop.state()
    dcp.load(state, checkpoint_id=store / f"step_{steps[-1]}")
    return state


def saved_steps(store: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step_")) for path in store.glob("step_*"))


torch_loop.run(save, load)
