"""The loop of the jobs that save by hand, the careful kind: it saves the random state, and its order of
samples is a function of the step."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import digits
import numpy as np
import torch
from nine_faults.recorder import SAVE_EVERY, Recorder

State = dict[str, Any]


class Loop:
    def __init__(self) -> None:
        digits.begin()
        self.model = digits.network()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.step = 0

    def state(self) -> State:
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "torch_rng": torch.get_rng_state(),
            "numpy_rng": np.random.get_state(),
            "python_rng": random.getstate(),
        }

    def restore(self, state: State) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]
        torch.set_rng_state(state["torch_rng"])
        np.random.set_state(state["numpy_rng"])
        random.setstate(state["python_rng"])


def run(save: Callable[[Path, Loop], None], load: Callable[[Path, Loop], State | None]) -> None:
    """Train. `load` gives what it found in the store, or None for a new job."""
    recorder = Recorder()
    loop = Loop()
    images, labels, numbers = digits.data().tensors
    recorder.store.mkdir(parents=True, exist_ok=True)
    found = load(recorder.store, loop)
    if found is not None:
        loop.restore(found)
    recorder.resumed(loop.step)
    while loop.step < recorder.total:
        epoch, batch = divmod(loop.step, digits.BATCHES)
        chosen = digits.order(epoch)[batch * digits.BATCH : (batch + 1) * digits.BATCH]
        loss = digits.train_step(loop.model, loop.optimizer, images[chosen], labels[chosen])
        loop.step += 1
        recorder.step(loop.step, loss, numbers[chosen].tolist())
        if loop.step % SAVE_EVERY == 0:
            save(recorder.store, loop)
    recorder.final(loop.model)
