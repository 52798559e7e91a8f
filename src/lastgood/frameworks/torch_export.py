"""Exporting a checkpoint to a file for `torch.load` and to a directory of torch.distributed.checkpoint."""

import os
import warnings
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from lastgood.core import tree
from lastgood.core.errors import UnstorableError
from lastgood.frameworks.numpy_adapter import FRAMEWORK as NUMPY
from lastgood.frameworks.numpy_export import numpy_array
from lastgood.frameworks.torch_adapter import FRAMEWORK as TORCH
from lastgood.store.durable import NewDirectory, NewFile
from lastgood.store.export import Export, Source


def write_torch(export: Export, new: NewFile) -> list[str]:
    """Write `{entry: state}` so that `torch.load(path, weights_only=True)` gives it with every tensor on the
    CPU. NumPy arrays become tensors. Returns what had to change its type."""
    state, changed = _state(export)
    with os.fdopen(os.dup(new.fileno()), "wb") as file:
        torch.save(state, file)
    return changed


def write_dcp(export: Export, path: Path) -> list[str]:
    """Write a directory that torch.distributed.checkpoint loads, also into a model that is sharded
    otherwise. As `write_torch` for values that change."""
    import torch.distributed.checkpoint as dcp

    state, changed = _state(export)
    with NewDirectory(path, f"{os.getpid()}") as new:
        with warnings.catch_warnings():
            # It warns that there is only one process; that is meant.
            warnings.simplefilter("ignore")
            dcp.save(state, storage_writer=dcp.FileSystemWriter(new.staging), no_dist=True)
        new.publish()
    return changed


def _state(export: Export) -> tuple[dict[str, Any], list[str]]:
    data = export.read()
    made: dict[tuple[int, str], torch.Tensor] = {}
    plainer = _Plainer()

    def array(name: str, kind: str, tag: dict[str, Any]) -> torch.Tensor:
        # One tensor however often it is referred to, so that tied weights stay tied.
        source = export.arrays[name]
        stored = (source.rank, source.spec.name)
        if stored not in made:
            made[stored] = plainer.tensor(name, source, data[name])
        return made[stored]

    decoded = {entry: tree.unflatten(skeleton, array, (TORCH, NUMPY)) for entry, skeleton in export.entries.items()}
    state: dict[str, Any] = plainer.convert(decoded, "")
    return state, plainer.changed


class _Plainer:
    """Replaces the few types that torch or `torch.load(weights_only=True)` refuses by the nearest that it accepts."""

    def __init__(self) -> None:
        self.changed: list[str] = []

    def tensor(self, name: str, source: Source, data: memoryview) -> torch.Tensor:
        if source.kind == "torch":
            return cast(torch.Tensor, TORCH.from_buffer(source.spec, source.tag, data))
        array = numpy_array(source, data)
        native = array.dtype.newbyteorder("=")
        try:
            tensor = torch.from_numpy(array.astype(native, copy=False))
        except (TypeError, ValueError) as error:
            raise UnstorableError(
                f"{name}: torch has no type for {array.dtype}",
                safe="nothing was written",
                remedy="export to .safetensors or .npz instead, or leave that entry out with --entry",
            ) from error
        return tensor if array.dtype.isnative else self._note(name, f"NumPy {array.dtype.str}", native.str, tensor)

    def convert(self, value: Any, at: str) -> Any:
        if isinstance(value, dict):
            return self._mapping(value, at)
        if isinstance(value, torch.Size):
            return value
        if isinstance(value, deque):
            return self._note(at, "deque", "list", [self.convert(item, f"{at}.{i}") for i, item in enumerate(value)])
        if isinstance(value, list | tuple):
            return type(value)(self.convert(item, f"{at}.{i}") for i, item in enumerate(value))
        if isinstance(value, frozenset):
            return self._note(at, "frozenset", "set", {self.convert(item, at) for item in value})
        if isinstance(value, set):
            return {self.convert(item, at) for item in value}
        if isinstance(value, np.generic):
            plain = value.item()
            if not isinstance(plain, bool | int | float | complex | str | bytes):
                return self._note(at, f"NumPy {value.dtype}", "text", str(value))
            return self._note(at, f"NumPy {value.dtype}", type(plain).__name__, plain)
        if isinstance(value, np.dtype):
            return self._note(at, "NumPy dtype", "text", value.str)
        return value

    def _mapping(self, value: dict[Any, Any], at: str) -> dict[Any, Any]:
        kind: Callable[..., dict[Any, Any]] = type(value) if type(value) in (OrderedDict, Counter) else dict
        return kind(
            {
                self.convert(key, f"{at} (a key)"): self.convert(item, f"{at}.{key}" if at else str(key))
                for key, item in value.items()
            }
        )

    def _note(self, at: str, old: str, new: str, value: Any) -> Any:
        self.changed.append(f"{at}: {old} became {new}")
        return value
