"""The states that are saved, each with a loop that changes all of it at every step."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

ARRAY_EXTENT = 2048
"""An array of the large state is 2048 x 2048 of float32: 16 MiB; 96 of them are 1.6 GB."""


class TorchState:
    """A model, its optimizer, and a step of training in two halves: one that reads the state and one that changes it."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.model = model
        self.optimizer = optimizer

    def compute(self) -> None:
        """The forward and the backward pass."""
        raise NotImplementedError

    def update(self) -> None:
        """Every array of the state changes."""
        self.optimizer.step()

    def objects(self) -> dict[str, Any]:
        return {"model": self.model, "optimizer": self.optimizer}

    def tree(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def take(self, tree: dict[str, Any]) -> None:
        self.model.load_state_dict(tree["model"])
        self.optimizer.load_state_dict(tree["optimizer"])

    def tensors(self) -> dict[str, torch.Tensor]:
        return dict(tensors_of(self.tree()))

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors().values())

    def digest(self) -> float:
        """A number that two equal states share and that different ones almost never do."""
        total = 0.0
        for name, tensor in sorted(self.tensors().items()):
            total += len(name) * tensor.double().sum().item() + tensor.double().square().sum().item()
        return total


class Drift(torch.optim.Optimizer):
    """Adds a little to every element: the memory traffic of the cheapest optimizer that there is."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        super().__init__(parameters, {"rate": 1e-6})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for group in self.param_groups:
            torch._foreach_add_(group["params"], group["rate"])


class Arrays(TorchState):
    """Some arrays of one shape. The passes are matrix products of fixed size."""

    def __init__(self, count: int, extent: int, products: int, seed: int) -> None:
        torch.manual_seed(seed)
        numbers = np.random.default_rng(seed)
        model = torch.nn.Module()
        model.arrays = torch.nn.ParameterList(
            torch.nn.Parameter(torch.from_numpy(numbers.random((extent, extent), np.float32))) for _ in range(count)
        )
        super().__init__(model, Drift(model.parameters()))
        self._factors = torch.randn(1024, 1024) / 32, torch.randn(1024, 1024) / 32
        self._products = products

    def compute(self) -> None:
        left, right = self._factors
        for _ in range(self._products):
            torch.mm(left, right)


class Transformer(TorchState):
    """A decoder of random weights, made from its measures, and Adam."""

    def __init__(self, layers: int, width: int, tokens: int, words: int, seed: int) -> None:
        torch.manual_seed(seed)
        model = torch.nn.ModuleDict(
            {
                "words": torch.nn.Embedding(words, width),
                "blocks": torch.nn.ModuleList(
                    torch.nn.TransformerEncoderLayer(
                        width, max(1, width // 64), 4 * width, dropout=0.0, batch_first=True, norm_first=True
                    )
                    for _ in range(layers)
                ),
                "head": torch.nn.Linear(width, words, bias=False),
            }
        )
        super().__init__(model, torch.optim.Adam(model.parameters(), lr=1e-4))
        self._tokens = torch.randint(words, (1, tokens + 1))
        self._mask = torch.nn.Transformer.generate_square_subsequent_mask(tokens)
        # The optimizer's moments exist from the first step on: before it the state is another one.
        self.compute()
        self.update()

    def compute(self) -> None:
        self.optimizer.zero_grad()
        hidden = self.model["words"](self._tokens[:, :-1])
        for block in self.model["blocks"]:
            hidden = block(hidden, src_mask=self._mask, is_causal=True)
        logits = self.model["head"](hidden)
        torch.nn.functional.cross_entropy(logits[0], self._tokens[0, 1:]).backward()


KINDS = ("arrays", "small", "transformer")

TITLES = {
    "arrays": "96 arrays, {size}",
    "small": "2,000 small arrays, {size}",
    "transformer": "a transformer with Adam, {size}",
}


def make_state(kind: str, scale: float = 1.0, seed: int = 1) -> TorchState:
    """A state of `kind`; `scale` makes it smaller for a try (1.0 is what is measured)."""
    side = math.sqrt(scale)
    if kind == "arrays":
        return Arrays(96, max(8, round(ARRAY_EXTENT * side)), max(1, round(4 * scale)), seed)
    if kind == "small":
        return Arrays(max(20, round(2000 * scale)), 64, max(1, round(4 * scale)), seed)
    width = max(64, 64 * round(8 * side))
    return Transformer(max(1, round(6 * side)), width, 32, max(64, round(8192 * side)), seed)


def tensors_of(tree: Any, name: str = "") -> Iterable[tuple[str, torch.Tensor]]:
    """Every tensor of a tree with a name made of its path."""
    if isinstance(tree, torch.Tensor):
        yield name, tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from tensors_of(value, f"{name}.{key}" if name else str(key))
    elif isinstance(tree, list | tuple):
        for i, value in enumerate(tree):
            yield from tensors_of(value, f"{name}.{i}")
