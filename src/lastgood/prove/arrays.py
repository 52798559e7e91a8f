"""An array wherever it lies: its type, its shape, and its elements some at a time.

In memory, mapped from a file, or unpacked while it is read: a comparison takes chunks of both, so that arrays larger than
the memory can be compared. Types that NumPy lacks (bfloat16, 8-bit floats) are kept as their bits.
"""

from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec
import numpy as np

Flat = np.ndarray[Any, np.dtype[Any]]
"""Elements in one dimension, of a type that NumPy has."""
Order = Literal["C", "F"]

CHUNK_BYTES = 8 * 2**20
"""What is compared at a time: small beside any memory, large beside the cost of a call."""

ENCODED = {
    "BF16": "<u2",
    "F8_E4M3": "|u1",
    "F8_E5M2": "|u1",
    "F8_E8M0": "|u1",
    "float8_e4m3fnuz": "|u1",
    "float8_e5m2fnuz": "|u1",
}
"""Types kept as their bits, by their names in safetensors files, or else in torch."""


class Numbers(msgspec.Struct, frozen=True):
    """An array that is read when it is compared. Two of them can be compared where `dtype` and `shape` are equal."""

    dtype: str
    """As people know it: "float32", "BF16"."""
    storage: np.dtype[Any]
    """Of the elements that `chunks` gives, in this machine's byte order."""
    shape: tuple[int, ...]
    order: Order
    """In which order `chunks` goes through the elements."""
    chunks: Callable[[int], Iterator[Flat]]
    """All elements, at most so many at a time."""
    whole: Callable[[], np.ndarray[Any, Any]]
    """The array in its shape: takes memory for all of it, unless it is mapped."""

    @property
    def size(self) -> int:
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    def in_c_order(self) -> "Numbers":
        return self if self.order == "C" else numbers(np.ascontiguousarray(self.whole()), self.dtype)

    def field(self, name: str) -> "Numbers":
        """One field of a structured array."""

        def chunks(count: int) -> Iterator[Flat]:
            for chunk in self.chunks(count):
                # A field that is an array itself makes its chunks two-dimensional.
                yield np.ascontiguousarray(chunk[name]).reshape(-1)

        kind = self.storage[name]
        shape = (*self.shape, *kind.shape) if self.order == "C" else (*kind.shape[::-1], *self.shape)
        return Numbers(str(kind.base), kind.base, shape, self.order, chunks, lambda: self.whole()[name])


def numbers(array: np.ndarray[Any, Any], dtype: str = "") -> Numbers:
    """An array in memory or mapped from a file; `dtype` names a type of ENCODED whose bits it holds."""
    order: Order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    native = array.dtype.newbyteorder("=")

    def chunks(count: int) -> Iterator[Flat]:
        flat = array.reshape(-1, order=order) if array.flags.forc else array.flat
        for begin in range(0, array.size, count):
            yield np.asarray(flat[begin : begin + count], native)

    return Numbers(dtype or str(native), native, tuple(array.shape), order, chunks, lambda: array)


def decoded(bits: Flat, dtype: str) -> Flat:
    """The numbers that the bits of a type of ENCODED mean, exactly.

    >>> decoded(np.array([0x3F80, 0xC000], "u2"), "BF16").tolist()
    [1.0, -2.0]
    """
    if dtype == "BF16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    if dtype == "F8_E5M2":
        return (bits.astype(np.uint16) << 8).view(np.float16)
    return _TABLES[dtype][bits]


def _e4m3() -> Flat:
    code = np.arange(256)
    exponent, mantissa = (code >> 3) & 15, code & 7
    value = np.where(exponent == 0, mantissa / 8 * 2.0**-6, (1 + mantissa / 8) * 2.0 ** (exponent - 7))
    value = np.where(code & 128, -value, value)
    return np.where((code & 127) == 127, np.nan, value)


def _e8m0() -> Flat:
    return np.append(2.0 ** (np.arange(255) - 127.0), np.nan)


def _fnuz(mantissa_bits: int, bias: int) -> Flat:
    """Without infinities and without a negative zero, whose code is the only NaN."""
    code = np.arange(256)
    exponent, share = (code & 127) >> mantissa_bits, (code & (2**mantissa_bits - 1)) / 2**mantissa_bits
    value = np.where(exponent == 0, share * 2.0 ** (1 - bias), (1 + share) * 2.0 ** (exponent - bias))
    value = np.where(code & 128, -value, value)
    return np.where(code == 128, np.nan, value)


_TABLES = {
    "F8_E4M3": _e4m3(),
    "F8_E8M0": _e8m0(),
    "float8_e4m3fnuz": _fnuz(3, 8),
    "float8_e5m2fnuz": _fnuz(2, 16),
}
