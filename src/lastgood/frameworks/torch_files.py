"""Files that `torch.save` wrote, read for a comparison: tensors as arrays, everything else as plain values.

Read with `weights_only=True` and mapped: no code of the file is run, and memory is taken for what is looked at.
"""

import errno
import pickle
import re
import struct
import warnings
from collections.abc import Mapping, Set
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from lastgood.core.errors import DamagedError

_AS_BITS = {
    "bfloat16": (torch.int16, "<u2", "BF16"),
    "float8_e4m3fn": (torch.uint8, "|u1", "F8_E4M3"),
    "float8_e5m2": (torch.uint8, "|u1", "F8_E5M2"),
    "float8_e8m0fnu": (torch.uint8, "|u1", "F8_E8M0"),
    "float8_e4m3fnuz": (torch.uint8, "|u1", "float8_e4m3fnuz"),
    "float8_e5m2fnuz": (torch.uint8, "|u1", "float8_e5m2fnuz"),
}
"""Types that NumPy lacks: how their bits are seen, and what they are called."""

_DAMAGE = (
    *(RuntimeError, EOFError, ValueError, LookupError, AttributeError, TypeError, AssertionError, OverflowError),
    *(MemoryError, RecursionError, struct.error),
)
"""What torch raises for files that are not whole."""
_OBJECT = re.compile(r"GLOBAL ([\w.]+)")


class Stored(NamedTuple):
    """A tensor as NumPy can hold it."""

    array: np.ndarray[Any, Any]
    dtype: str
    """Empty: the array's own; otherwise the type whose bits it holds."""


class NeedsCodeError(Exception):
    """The file holds objects that only code from it, or of its writer's libraries, could make again; which kind of them."""


def read_torch_file(path: Path) -> object:
    """What was saved, with `Stored` for tensors. Raises NeedsCodeError for a pickle of more than tensors and plain values,
    DamagedError for a file that cannot be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Before torch 2.5 nothing can be allowed beside tensors: random states of NumPy then need code.
            allow = getattr(torch.serialization, "safe_globals", None)
            with allow(_numpy_globals()) if allow is not None else nullcontext():
                return plain(_load(path), 0)
    except pickle.UnpicklingError as error:
        named = _OBJECT.search(str(error))
        raise NeedsCodeError(named[1] if named else "of a kind that is not named") from error
    except OSError as error:
        # Of an archive that is cut off torch says this.
        if error.errno != errno.EINVAL:
            raise
        raise DamagedError(f"{path} is not a whole file of torch") from error
    except _DAMAGE as error:
        raise DamagedError(f"{path} cannot be read as a file of torch: {_first_line(error)}") from error


def _load(path: Path) -> object:
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError:
        # Written the old way, which is no archive: that cannot be mapped.
        return torch.load(path, map_location="cpu", weights_only=True)


def _numpy_globals() -> list[Any]:
    """What NumPy arrays in random states need (`np.random.get_state()`): plain arrays of plain types."""
    multiarray = getattr(np, "_core", None) or np.core
    dtypes = [value for name, value in vars(np.dtypes).items() if name.endswith("DType") and name != "ObjectDType"]
    return [multiarray.multiarray._reconstruct, multiarray.multiarray.scalar, np.ndarray, np.dtype, *dtypes]


def plain(value: Any, depth: int) -> object:
    """Tensors as `Stored`, containers as dicts, lists and sets; types of torch as their names."""
    if depth > 200:
        raise DamagedError("nested more than 200 deep")
    if isinstance(value, torch.Tensor):
        return _stored(value, depth)
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return [plain(item, depth + 1) for item in value.tolist()]
        return Stored(value, "")
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else repr(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, depth + 1) for item in value]
    if isinstance(value, Set):
        return sorted(map(repr, value))
    if isinstance(value, bool | int | float | complex | str | bytes | None):
        return value
    if isinstance(value, np.generic):
        return Stored(np.asarray(value), "")
    return str(value)


def _stored(tensor: torch.Tensor, depth: int) -> object:
    tensor = tensor.detach()
    if tensor.is_quantized:
        return {"values": _stored(tensor.int_repr(), depth), **_quantization(tensor, depth)}
    if tensor.layout is torch.sparse_coo:
        tensor = tensor.coalesce()
        return _sparse(tensor, {"indices": tensor.indices(), "values": tensor.values()}, depth)
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        parts = {"rows": tensor.crow_indices(), "columns": tensor.col_indices(), "values": tensor.values()}
        return _sparse(tensor, parts, depth)
    if tensor.is_meta:
        return f"a tensor without data, {list(tensor.shape)}"
    tensor = tensor.resolve_conj().resolve_neg()
    as_bits = _AS_BITS.get(str(tensor.dtype).removeprefix("torch."))
    if as_bits is not None:
        seen_as, storage, name = as_bits
        return Stored(tensor.view(seen_as).numpy().view(storage), name)
    return Stored(tensor.numpy(), "")


def _quantization(tensor: torch.Tensor, depth: int) -> dict[str, object]:
    """What the whole numbers of a quantized tensor mean."""
    scheme = tensor.qscheme()
    told: dict[str, object] = {"scheme": str(scheme), "type": str(tensor.dtype)}
    if scheme in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return {**told, "scale": tensor.q_scale(), "zero point": tensor.q_zero_point()}
    return {
        **told,
        "scales": _stored(tensor.q_per_channel_scales(), depth),
        "zero points": _stored(tensor.q_per_channel_zero_points(), depth),
        "axis": tensor.q_per_channel_axis(),
    }


def _sparse(tensor: torch.Tensor, parts: Mapping[str, torch.Tensor], depth: int) -> dict[str, object]:
    """What is stored does not tell how large the whole is."""
    return {"shape": list(tensor.shape), **{name: _stored(part, depth) for name, part in parts.items()}}


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
