"""One file per checkpoint: torch.save and safetensors, each followed by a flush, which neither does by itself."""

import json
from pathlib import Path
from typing import Any

import torch

from peers.contender import Contender, flush
from peers.states import tensors_of


class TorchSave(Contender):
    title = "torch.save + fsync"
    load_title = "torch.load"

    def save(self, step: int) -> None:
        self._newest = self.directory / f"step_{step}.pt"
        torch.save(self.state.tree(), self._newest)
        flush(self._newest)

    def settle(self) -> Path:
        return self._newest

    def load(self, place: Path) -> None:
        self.state.take(torch.load(place, weights_only=True))


class TorchSaveUnchecked(TorchSave):
    """Without the CRC-32 that the ZIP format asks for."""

    title = "torch.save + fsync, no CRC"

    def begin(self, state: Any, directory: Path, every: int) -> None:
        super().begin(state, directory, every)
        torch.serialization.set_crc32_options(False)


class TorchLoadMapped(TorchSave):
    load_title = "torch.load(mmap=True)"

    def load(self, place: Path) -> None:
        self.state.take(torch.load(place, weights_only=True, mmap=True))


class Safetensors(Contender):
    title = "safetensors + fsync"
    load_title = "safetensors"
    packages = ("torch", "safetensors")

    def begin(self, state: Any, directory: Path, every: int) -> None:
        super().begin(state, directory, every)
        import safetensors.torch  # noqa: F401 - loaded before it is timed

    def begin_load(self, state: Any) -> None:
        super().begin_load(state)
        import safetensors.torch  # noqa: F401 - as above

    def save(self, step: int) -> None:
        from safetensors.torch import save_file

        self._newest = self.directory / f"step_{step}.safetensors"
        tree = self.state.tree()
        groups = json.dumps(tree["optimizer"]["param_groups"])
        save_file(dict(tensors_of(tree)), self._newest, metadata={"param_groups": groups})
        flush(self._newest)

    def settle(self) -> Path:
        return self._newest

    def load(self, place: Path) -> None:
        from safetensors import safe_open

        here = self.state.tensors()
        with torch.no_grad(), safe_open(place, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - it is no mapping
                here[name].copy_(file.get_tensor(name))
