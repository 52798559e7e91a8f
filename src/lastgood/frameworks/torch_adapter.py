"""PyTorch: tensors, modules, optimizers, generators. Tensors are saved from any device and restored to
whatever device the program's own objects are on."""

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import torch

from lastgood.core.errors import UsageError
from lastgood.core.tensorfile import ArraySpec
from lastgood.core.tree import ArrayLeaf, Json
from lastgood.frameworks import torch_copies, torch_facts, torch_optimizers, torch_workers
from lastgood.runtime.ports import DeviceCopies, Stateful
from lastgood.runtime.state import WithStateDict

_NAMES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "int16": "I16",
    "uint16": "U16",
    "int32": "I32",
    "uint32": "U32",
    "int64": "I64",
    "uint64": "U64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
}
_FROM_TORCH = {getattr(torch, name): ours for name, ours in _NAMES.items() if hasattr(torch, name)}
_TO_TORCH = {ours: dtype for dtype, ours in _FROM_TORCH.items()}
_DTYPES = {str(value).removeprefix("torch."): value for value in vars(torch).values() if isinstance(value, torch.dtype)}


_PLAIN = {torch.Tensor, torch.nn.Parameter, getattr(torch.nn, "Buffer", torch.nn.Parameter)}
"""Types that are restored as what they are. (Before torch 2.5 there is no Buffer.)"""

_NO_TAG: dict[str, Json] = {}


class TorchFramework:
    name = "torch"

    def to_leaf(self, value: object) -> ArrayLeaf | None:
        if not isinstance(value, torch.Tensor):
            return None
        if type(value) not in _PLAIN:
            raise ValueError(f"a {type(value).__qualname__} (a subclass of Tensor)")
        dtype = _FROM_TORCH.get(value.dtype)
        if dtype is not None and (address := _address_of(value)):
            # Most are like this, and there are thousands.
            return ArrayLeaf("torch", dtype, tuple(value.shape), value, _NO_TAG, address, address)
        if value.is_nested:
            raise ValueError("a nested tensor")
        if value.layout is not torch.strided or value.is_quantized or value.is_meta:
            raise ValueError(
                f"a tensor that is {'quantized' if value.is_quantized else value.layout}, on {value.device}"
            )
        # A lazily negated or conjugated view does not hold its own values.
        tensor = value.detach().resolve_conj().resolve_neg()
        identity = _identity_of(tensor) if tensor.numel() else (id(value),)
        if dtype is not None:
            return ArrayLeaf("torch", dtype, tuple(tensor.shape), tensor, _NO_TAG, identity)
        if tensor.dtype is torch.complex128:
            real = torch.view_as_real(tensor)
            return ArrayLeaf("torch", "F64", tuple(real.shape), real, {"complex": True}, identity)
        raise ValueError(f"a tensor of {tensor.dtype}")

    def to_json(self, value: object) -> tuple[str, Json] | None:
        if isinstance(value, torch.dtype):
            return "torch.dtype", str(value).removeprefix("torch.")
        if isinstance(value, torch.device):
            return "torch.device", str(value)
        if isinstance(value, torch.Size):
            return "torch.Size", list(value)
        return None

    def from_json(self, tag: str, content: Json) -> object:
        if tag == "torch.dtype":
            if content not in _DTYPES:
                raise ValueError(f"torch has no dtype {content!r}")
            return _DTYPES[content]
        if tag == "torch.device":
            return torch.device(content)
        if tag == "torch.Size":
            return torch.Size(content)
        raise KeyError(tag)

    def buffer(self, leaf: ArrayLeaf) -> memoryview:
        return _bytes_of(leaf.data.detach().to("cpu").contiguous())

    def from_buffer(self, spec: ArraySpec, tag: dict[str, Json], data: memoryview) -> object:
        dtype = _TO_TORCH.get(spec.dtype)
        if dtype is None:
            raise ValueError(f"this version of torch has no {spec.dtype}")
        if math.prod(spec.shape) == 0:
            tensor = torch.empty(spec.shape, dtype=dtype)
        else:
            tensor = torch.frombuffer(data, dtype=dtype).reshape(spec.shape)
        return torch.view_as_complex(tensor) if tag.get("complex") else tensor

    def mark(self, leaf: ArrayLeaf) -> Hashable | None:
        tensor: torch.Tensor = leaf.data
        return None if tensor.device.type == "cpu" or not tensor.is_contiguous() else checksum(tensor)

    def adapt(self, value: object) -> Stateful | None:
        if isinstance(value, torch.nn.Module):
            return Module(value)
        if isinstance(value, torch.optim.Optimizer):
            return Optimizer(value)
        if isinstance(value, torch.Tensor):
            return InPlaceTensor(value)
        if isinstance(value, torch.Generator):
            return Generator(value)
        return None

    def random_state(self) -> object:
        state: dict[str, object] = {"cpu": torch.get_rng_state()}
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            state["cuda"] = torch.cuda.get_rng_state_all()
        return state

    def set_random_state(self, tree: Any) -> None:
        torch.set_rng_state(tree["cpu"].clone())
        if "cuda" in tree and torch.cuda.is_available():
            for device, state in enumerate(tree["cuda"][: torch.cuda.device_count()]):
                torch.cuda.set_rng_state(state.clone(), device)

    def shield_helpers(self) -> None:
        torch_workers.shield_workers()

    def fingerprint(self) -> dict[str, str]:
        return torch_facts.facts()

    def stamp(self, leaf: ArrayLeaf) -> int:
        # It is the same number for all tensors that share their memory, unless they were made with `.data`.
        return int(leaf.data._version)

    def device_copies(self) -> DeviceCopies | None:
        return torch_copies.device_copies()


class Module(WithStateDict):
    """A module: compared before loading, so that all differences are known and none is half loaded."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__(module)
        self._module = module

    def mismatches(self, tree: Any) -> list[str]:
        if not isinstance(tree, dict):
            return ["is a module here, but not in the checkpoint"]
        here = self._module.state_dict()
        lines = [f".{name} is missing in the checkpoint" for name in here if name not in tree]
        lines += [f".{name} is only in the checkpoint" for name in tree if name not in here]
        for name, value in here.items():
            saved = tree.get(name)
            if not isinstance(value, torch.Tensor) or not isinstance(saved, torch.Tensor):
                continue
            if value.shape != saved.shape or value.dtype != saved.dtype:
                lines.append(f".{name} is {_describe(value)} here, but {_describe(saved)} in the checkpoint")
        return lines

    def frozen_arrays(self) -> set[Hashable]:
        return {
            _identity_of(parameter)
            for parameter in self._module.parameters()
            if not parameter.requires_grad and type(parameter) in _PLAIN and parameter.layout is torch.strided
        }

    def places(self, tree: Any) -> list[tuple[object, memoryview]] | None:
        if not _loads_plainly(self._module):
            return None
        here: dict[str, torch.Tensor] = dict(self._module.named_parameters(remove_duplicate=False))
        here.update(self._module.named_buffers(remove_duplicate=False))
        return _places([(tree[name], here.get(name)) for name in tree])

    def restore(self, tree: Any) -> None:
        state = OrderedDict(tree)
        # Version numbers of the module classes travel as an attribute of the mapping; without them some
        # modules would take what they load for a format of long ago.
        state._metadata = getattr(self._module.state_dict(), "_metadata", OrderedDict())  # type: ignore[attr-defined]
        super().restore(state)


class Optimizer(WithStateDict):
    """An optimizer. What it loads it keeps, and in the memory that it was read into."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        super().__init__(optimizer)
        self._optimizer = optimizer

    def mismatches(self, tree: Any) -> list[str]:
        if not isinstance(tree, dict) or not {"state", "param_groups"} <= tree.keys():
            return ["is an optimizer here, but not in the checkpoint"]
        groups = self._optimizer.state_dict()["param_groups"]
        here = [len(group["params"]) for group in groups]
        saved = [len(group["params"]) for group in tree["param_groups"]]
        if here != saved:
            return [f"has parameter groups of {here} here, but of {saved} in the checkpoint"]
        # A schedule adds settings, and so do newer versions of torch; only another kind of optimizer both
        # has some and lacks some.
        mine = {name for group in groups for name in group}
        theirs = {name for group in tree["param_groups"] for name in group}
        if mine <= theirs or theirs <= mine:
            return []
        more, less = ", ".join(sorted(mine - theirs)), ", ".join(sorted(theirs - mine))
        return [f"is of another kind: it has {more} here, but {less} in the checkpoint"]

    def settings_kept(self, tree: Any, names: set[str]) -> list[str]:
        return torch_optimizers.settings_kept(self._optimizer.param_groups, tree["param_groups"], names)

    def restore(self, tree: Any) -> None:
        before = self._optimizer.param_groups
        super().restore(tree)
        torch_optimizers.put_as_saved(self._optimizer, tree, before)

    def own_arrays(self, least_bytes: int) -> dict[Hashable, int]:
        if not hasattr(self._optimizer, "_optimizer_step_pre_hooks"):
            # One that was wrapped in a way that torch does not know of cannot say when it steps.
            return {}
        tensors = _tensors_in([group["params"] for group in self._optimizer.param_groups])
        moments = _tensors_in([*self._optimizer.state.values()])
        return {
            _identity_of(tensor): tensor.nbytes
            for tensor in (*tensors, *moments)
            if type(tensor) in _PLAIN and tensor.layout is torch.strided and tensor.nbytes >= least_bytes
        }

    def before_change(self, call: Callable[[], None]) -> Callable[[], None]:
        def hook(*unused: object) -> None:
            if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
                raise UsageError(
                    "the optimizer's step is captured in a CUDA graph, and nobody is told when that is replayed",
                    remedy="leave the optimizer out of the graph, or use lastgood.Run(..., overlap=False)",
                )
            call()

        handles = [
            self._optimizer.register_step_pre_hook(hook),
            self._optimizer.register_load_state_dict_pre_hook(hook),
        ]

        def end() -> None:
            for handle in handles:
                handle.remove()

        return end


class InPlaceTensor:
    """A tensor that the job keeps using: its content is replaced, the object stays."""

    def __init__(self, tensor: torch.Tensor) -> None:
        if tensor.layout is torch.strided and not tensor.is_nested and _shares_elements(tensor):
            raise ValueError("a tensor whose elements share memory (an expanded one) cannot be restored in place")
        self._tensor = tensor

    def capture(self) -> object:
        return self._tensor

    def mismatches(self, tree: Any) -> list[str]:
        if not isinstance(tree, torch.Tensor):
            return [f"is a tensor here, but {type(tree).__qualname__} in the checkpoint"]
        if tree.shape != self._tensor.shape or tree.dtype != self._tensor.dtype:
            return [f"is {_describe(self._tensor)} here, but {_describe(tree)} in the checkpoint"]
        return []

    def places(self, tree: Any) -> list[tuple[object, memoryview]] | None:
        return _places([(tree, self._tensor)])

    def restore(self, tree: Any) -> None:
        with torch.no_grad():
            self._tensor.copy_(tree)


class Generator:
    """A torch.Generator of the job's own."""

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator

    def capture(self) -> object:
        return self._generator.get_state()

    def mismatches(self, tree: Any) -> list[str]:
        return [] if isinstance(tree, torch.Tensor) else ["is not the state of a torch.Generator"]

    def restore(self, tree: Any) -> None:
        self._generator.set_state(tree.clone())


def _identity_of(tensor: torch.Tensor) -> Hashable:
    """Equal for tensors of the same memory; see `ArrayLeaf.identity`."""
    return _address_of(tensor) or (str(tensor.device), tensor.data_ptr(), tensor.stride())


def _tensors_in(value: object) -> Iterator[torch.Tensor]:
    """The tensors in lists and mappings, however deep."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors_in(item)


_SUM_WORDS = 4 * 2**20


def checksum(tensor: torch.Tensor) -> tuple[int, int]:
    """Two sums over the bytes of a contiguous tensor, as 64-bit words, computed where it lies: one of them is of the
    words as they are, the other weighs them by their place."""
    data = tensor.detach().reshape(-1).view(torch.uint8)
    whole = data.numel() - data.numel() % 8
    tail = torch.zeros(8, dtype=torch.uint8, device=data.device)
    tail[: data.numel() - whole] = data[whole:]
    words = data[:whole].view(torch.int64)
    weights = torch.arange(1, 2 * _SUM_WORDS, 2, dtype=torch.int64, device=data.device)
    sums = torch.zeros(2, dtype=torch.int64, device=data.device)
    for part in (*words.split(_SUM_WORDS), tail.view(torch.int64)):
        # What overflows wraps round.
        sums = 31 * sums + torch.stack((part.sum(), (part * weights[: part.numel()]).sum()))
    first, second = sums.tolist()
    return first, second


def _address_of(tensor: torch.Tensor) -> int:
    """Where a tensor's bytes lie in the host's memory, one after another; 0 if they do not."""
    return int(tensor.data_ptr()) if _holds_its_bytes(tensor) else 0


def _shares_elements(tensor: torch.Tensor) -> bool:
    return any(extent > 1 and stride == 0 for extent, stride in zip(tensor.shape, tensor.stride(), strict=True))


def _describe(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    """The bytes of a contiguous tensor in the host's memory."""
    return memoryview(tensor.reshape(-1).view(torch.uint8).numpy()) if tensor.numel() else memoryview(b"")


def _places(pairs: list[tuple[object, torch.Tensor | None]]) -> list[tuple[object, memoryview]] | None:
    """See `InPlace.places`, for arrays of a tree and the tensors that they go to."""
    places = []
    for saved, tensor in pairs:
        if not isinstance(saved, torch.Tensor) or tensor is None or not _holds_its_bytes(tensor):
            return None
        if (saved.shape, saved.dtype) != (tensor.shape, tensor.dtype):
            return None
        places.append((saved, _bytes_of(tensor.detach())))
    return places


def _holds_its_bytes(tensor: torch.Tensor) -> bool:
    """True if what lies in the host's memory are the tensor's elements one after another."""
    return (
        type(tensor) in _PLAIN
        and tensor.is_cpu
        and tensor.layout is torch.strided
        and not tensor.is_nested
        and tensor.is_contiguous()
        and not (tensor.is_conj() or tensor.is_neg() or tensor.is_quantized)
    )


def _loads_plainly(module: torch.nn.Module) -> bool:
    """True if loading copies each value to the parameter or buffer of that name, and does nothing else."""
    hooks = ("_state_dict_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks")
    return type(module).load_state_dict is torch.nn.Module.load_state_dict and not any(
        # What torch's own modules have of their own is for states of earlier versions.
        not type(part)._load_from_state_dict.__module__.startswith("torch.nn.modules.")
        or any(getattr(part, name, None) for name in hooks)
        for part in module.modules()
    )


FRAMEWORK = TorchFramework()
