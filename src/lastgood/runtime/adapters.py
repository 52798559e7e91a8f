"""Which frameworks this process uses. A framework's module is loaded only when the job has already
imported the framework itself, so that a NumPy job never pays for torch."""

import importlib
import sys
from typing import cast

from lastgood.core.errors import UsageError
from lastgood.runtime.ports import Framework, OneRank, Ranks

_MODULES = {"numpy": "lastgood.frameworks.numpy_adapter", "torch": "lastgood.frameworks.torch_adapter"}
"""Name of the imported package -> our module with a `FRAMEWORK`."""


_RANKS = (
    ("torch.distributed", "lastgood.frameworks.torch_ranks", "ranks_of_default_group"),
    ("mpi4py.MPI", "lastgood.frameworks.mpi_ranks", "ranks_of_world"),
)
"""Name of an imported package -> our module, and its function that finds ranks; the first that finds any counts."""


def used_frameworks() -> list[Framework]:
    """The frameworks that are imported in this process, NumPy always among them."""
    importlib.import_module("numpy")
    return [_load(name) for name in _MODULES if name in sys.modules]


def framework_named(name: str) -> Framework | None:
    """A framework that this process needs although it has not imported it; None if it is not installed, or
    is none that we know."""
    try:
        return _load(name)
    except (ImportError, KeyError):
        return None


def _load(name: str) -> Framework:
    return cast(Framework, importlib.import_module(_MODULES[name]).FRAMEWORK)


def find_ranks(limit_s: float, environment: dict[str, str]) -> Ranks:
    """How this process agrees with the other ranks of its job; a single rank if there are none."""
    for package, module, find in _RANKS:
        if package in sys.modules and (ranks := getattr(importlib.import_module(module), find)(limit_s)) is not None:
            return cast(Ranks, ranks)
    world_size = environment.get("WORLD_SIZE", "1")
    if world_size not in ("", "1"):
        raise UsageError(
            f"WORLD_SIZE is {world_size}, but the ranks cannot agree: torch.distributed is not initialised",
            remedy="call torch.distributed.init_process_group() before lastgood.Run(...)",
        )
    return OneRank()
