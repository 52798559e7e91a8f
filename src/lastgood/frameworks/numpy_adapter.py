"""NumPy: arrays, scalars, generators."""

import base64
from typing import Any

import numpy as np

from lastgood.core.dtypes import FROM_NUMPY, TO_NUMPY
from lastgood.core.tensorfile import ArraySpec
from lastgood.core.tree import ArrayLeaf, Json
from lastgood.frameworks import numpy_facts
from lastgood.runtime.ports import Stateful

_AS_BYTES = "cMmSU"
"""Kinds of dtype that the file format lacks: kept as bytes beside their dtype and shape."""


class NumpyFramework:
    name = "numpy"

    def to_leaf(self, value: object) -> ArrayLeaf | None:
        if not isinstance(value, np.ndarray):
            return None
        if type(value) is not np.ndarray:
            raise ValueError(f"a {type(value).__qualname__} (a subclass of ndarray)")
        begin: int = value.__array_interface__["data"][0]
        identity = (begin, value.strides)
        address = begin if value.nbytes and value.flags.c_contiguous else 0
        dtype = FROM_NUMPY.get(value.dtype.str)
        if dtype is not None:
            return ArrayLeaf("numpy", dtype, value.shape, value, {}, identity, address)
        if value.dtype.kind not in _AS_BYTES and value.dtype.kind not in "iuf":
            raise ValueError(f"an array of dtype {value.dtype}")
        tag = {"dtype": value.dtype.str, "shape": list(value.shape)}
        return ArrayLeaf("numpy", "U8", (value.nbytes,), value, tag, identity, address)

    def to_json(self, value: object) -> tuple[str, Json] | None:
        if isinstance(value, np.generic):
            if value.dtype.kind not in _AS_BYTES + "biuf":
                raise ValueError(f"a NumPy scalar of dtype {value.dtype}")
            return "scalar", [value.dtype.str, base64.b64encode(value.tobytes()).decode()]
        if isinstance(value, np.dtype):
            if value.hasobject or value.fields is not None:
                raise ValueError(f"the dtype {value}")
            return "dtype", value.str
        return None

    def from_json(self, tag: str, content: Json) -> object:
        if tag == "scalar":
            dtype, data = content
            plain, content = _plain_dtype(dtype), base64.b64decode(data, validate=True)
            # An empty text takes no bytes, of which NumPy could make no array.
            return np.frombuffer(content, dtype=plain)[0] if plain.itemsize else plain.type()
        if tag == "dtype":
            return _plain_dtype(content)
        raise KeyError(tag)

    def buffer(self, leaf: ArrayLeaf) -> memoryview:
        return _bytes_of(np.ascontiguousarray(leaf.data))

    def from_buffer(self, spec: ArraySpec, tag: dict[str, Json], data: memoryview) -> object:
        dtype = _plain_dtype(tag["dtype"]) if "dtype" in tag else np.dtype(TO_NUMPY[spec.dtype])
        shape = tuple(tag["shape"]) if "dtype" in tag else spec.shape
        return np.frombuffer(data, dtype=dtype).reshape(shape) if len(data) else np.empty(shape, dtype)

    def adapt(self, value: object) -> Stateful | None:
        if isinstance(value, np.ndarray):
            return InPlaceArray(value)
        if isinstance(value, np.random.Generator):
            return BitGenerator(value.bit_generator)
        if isinstance(value, np.random.BitGenerator):
            return BitGenerator(value)
        if isinstance(value, np.random.RandomState):
            return LegacyRandom(value)
        return None

    def random_state(self) -> object:
        return np.random.get_state()

    def set_random_state(self, tree: Any) -> None:
        np.random.set_state(tree)

    def shield_helpers(self) -> None:
        return

    def fingerprint(self) -> dict[str, str]:
        return numpy_facts.facts()

    def stamp(self, leaf: ArrayLeaf) -> int:
        return 0

    def device_copies(self) -> None:
        return None


def _bytes_of(array: np.ndarray[Any, Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data if array.nbytes else memoryview(b"")


def _plain_dtype(text: str) -> np.dtype[Any]:
    dtype = np.dtype(text)
    if dtype.hasobject:
        raise ValueError(f"the dtype {text} can hold objects")
    return dtype


class InPlaceArray:
    """An array that the job keeps using: its content is replaced, the object stays."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        if not array.flags.writeable:
            raise ValueError("a read-only array cannot be restored in place")
        self._array = array

    def capture(self) -> object:
        # A map of a file is an array like any other: what it is mapped from stays the program's affair.
        return self._array.view(np.ndarray) if type(self._array) is np.memmap else self._array

    def mismatches(self, tree: Any) -> list[str]:
        if not isinstance(tree, np.ndarray):
            return [f"is an array here, but {type(tree).__qualname__} in the checkpoint"]
        here, saved = self._array, tree
        if here.shape != saved.shape or here.dtype != saved.dtype:
            return [f"is {here.dtype}{list(here.shape)} here, but {saved.dtype}{list(saved.shape)} in the checkpoint"]
        return []

    def places(self, tree: Any) -> list[tuple[object, memoryview]] | None:
        if not self._array.flags.c_contiguous:
            return None
        return [(tree, _bytes_of(self._array))]

    def restore(self, tree: Any) -> None:
        np.copyto(self._array, tree)


class BitGenerator:
    """A NumPy Generator's source of randomness."""

    def __init__(self, source: np.random.BitGenerator) -> None:
        self._source = source

    def capture(self) -> object:
        return dict(self._source.state)

    def mismatches(self, tree: Any) -> list[str]:
        return _other_generator(self._source.state["bit_generator"], tree)

    def restore(self, tree: Any) -> None:
        self._source.state = tree


def _other_generator(here: str, tree: Any) -> list[str]:
    saved = tree.get("bit_generator") if isinstance(tree, dict) else None
    return [] if here == saved else [f"is a {here} generator here, but {saved or 'something else'} in the checkpoint"]


class LegacyRandom:
    """A `numpy.random.RandomState` of the job's own."""

    def __init__(self, source: np.random.RandomState) -> None:
        self._source = source

    def capture(self) -> object:
        return self._source.get_state(legacy=False)

    def mismatches(self, tree: Any) -> list[str]:
        here = self._source.get_state(legacy=False)["bit_generator"]
        if isinstance(tree, tuple) and len(tree) == 5:
            # Earlier versions saved the tuple that only an MT19937 has.
            return _other_generator(here, {"bit_generator": tree[0]})
        is_legacy = isinstance(tree, dict) and "has_gauss" in tree
        return _other_generator(here, tree) if is_legacy else ["is not the state of a RandomState"]

    def restore(self, tree: Any) -> None:
        self._source.set_state(tree)


FRAMEWORK = NumpyFramework()
