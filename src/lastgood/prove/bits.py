"""Arrays held against each other bit for bit, and how far apart they are where they are not equal.

Equal means equal bits: a NaN with another payload or a zero of the other sign is a difference, and is explained. The
distance in ULP counts the representable numbers between two floats of one width, across zero; NaN and infinities have
none. A tolerance is `numpy.isclose`'s, with the undisturbed run (left) as the reference.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np

from lastgood.prove.arrays import CHUNK_BYTES, ENCODED, Flat, Numbers, decoded, numbers
from lastgood.prove.difference import EXACT, Comparison, Difference, Tolerance, differs, join, not_comparable

_MAX = float(np.finfo(np.float64).max)


def long_double_bytes(mantissa_bits: int, itemsize: int) -> int:
    """How many bytes of a long double hold its number: of the 16 that one of x87 takes in memory the rest is padding, and may
    hold anything. Those of other machines have none.

    >>> long_double_bytes(63, 16), long_double_bytes(112, 16)
    (10, 16)
    """
    return 10 if mantissa_bits == 63 else itemsize


_LONG_DOUBLE = np.dtype(np.longdouble)
_LONG_DOUBLE_BYTES = long_double_bytes(np.finfo(_LONG_DOUBLE).nmant, _LONG_DOUBLE.itemsize)


def compare_arrays(
    what: str,
    left: "np.ndarray[Any, Any] | Numbers",
    right: "np.ndarray[Any, Any] | Numbers",
    tolerance: Tolerance = EXACT,
    *,
    where: str = "",
    step: int | None = None,
) -> Comparison:
    """Whether two arrays are equal. Other shapes or types are a difference of their own: their elements are not compared.

    Takes memory for two chunks, whatever the arrays' size.

    >>> print(compare_arrays("w", np.array([1.0, 2.0]), np.array([1.0, np.nextafter(2.0, 3)])).first)
    w[1]: 2.0 against 2.0000000000000004, 1 ULP, absolute 4.44e-16, relative 2.22e-16, 1 of 2 differ
    """
    one = left if isinstance(left, Numbers) else numbers(left)
    other = right if isinstance(right, Numbers) else numbers(right)
    for name, here, there in (("shape", one.shape, other.shape), ("type", one.dtype, other.dtype)):
        if here != there:
            difference = Difference(what=what, left=str(here), right=str(there), reason=f"another {name}")
            return differs(msgspec.structs.replace(difference, where=where, step=step))
    if one.order != other.order:
        one, other = one.in_c_order(), other.in_c_order()
    if fields := one.storage.names:
        parts = [
            compare_arrays(f"{what}.{field}", one.field(field), other.field(field), tolerance, where=where, step=step)
            for field in fields
        ]
        return join(parts)
    if one.storage.hasobject:
        return not_comparable(f"{what}: an array of Python objects, which have no bits of their own")
    found = _Found(one, tolerance)
    count = max(1, CHUNK_BYTES // max(1, one.storage.itemsize))
    for begin, a, b in _pairs(one, other, count):
        found.look(begin, a, b)
    return found.comparison(what, where, step)


def _pairs(left: Numbers, right: Numbers, count: int) -> Iterator[tuple[int, Flat, Flat]]:
    begin = 0
    for a, b in zip(left.chunks(count), right.chunks(count), strict=True):
        yield begin, a, b
        begin += len(a)


class _Extreme(NamedTuple):
    """A difference that may be the one to tell: where, and what was there."""

    at: int
    left: Any
    right: Any
    distances: tuple[float | None, float | None, int | None]
    """Absolute, relative, ULP."""


class _Found:
    """What has been seen in the chunks so far."""

    def __init__(self, numbers: Numbers, tolerance: Tolerance) -> None:
        self.numbers = numbers
        self.tolerance = tolerance
        self.differing = 0
        self.beyond = 0
        self.first: _Extreme | None = None
        self.first_beyond: _Extreme | None = None
        self.largest: list[_Extreme | None] = [None, None, None]

    def look(self, begin: int, left: Flat, right: Flat) -> None:
        at = _unequal(left, right)
        if not len(at):
            return
        # Where all differ, nothing has to be picked out.
        a, b = (left, right) if len(at) == len(left) else (left[at], right[at])
        distances = measured(a, b, self.numbers.dtype)
        is_allowed = distances.is_close(self.tolerance) if not self.tolerance.is_exact else np.zeros(len(at), bool)
        self.differing += len(at)
        self.beyond += int(len(at) - np.count_nonzero(is_allowed))

        def extreme(i: int) -> _Extreme:
            return _Extreme(begin + int(at[i]), a[i], b[i], distances.of(i))

        self.first = self.first or extreme(0)
        if self.first_beyond is None and not is_allowed.all():
            self.first_beyond = extreme(int(np.argmin(is_allowed)))
        for kind, values in enumerate((distances.absolute, distances.relative, distances.ulp)):
            mask = distances.has_ulp if kind == 2 else distances.is_number
            if mask.all():
                index = int(np.argmax(values))
            elif mask.any():
                known = np.flatnonzero(mask)
                index = int(known[np.argmax(values[known])])
            else:
                continue
            new = extreme(index)
            old = self.largest[kind]
            if old is None or _known(new, kind) > _known(old, kind):
                self.largest[kind] = new

    def comparison(self, what: str, where: str, step: int | None) -> Comparison:
        def told(one: _Extreme | None) -> Difference | None:
            return None if one is None else self._difference(one, what, where, step)

        absolute, relative, ulp = (told(one) for one in self.largest)
        return Comparison(
            kind="differs" if self.beyond else "within" if self.differing else "identical",
            compared=self.numbers.size,
            differing=self.differing,
            beyond=self.beyond,
            first=told(self.first),
            first_beyond=told(self.first_beyond),
            largest_absolute=absolute,
            largest_relative=relative,
            largest_ulp=ulp,
            notes=() if self.numbers.size else (f"{what} is empty in both",),
        )

    def _difference(self, one: _Extreme, what: str, where: str, step: int | None) -> Difference:
        dtype, shape = self.numbers.dtype, self.numbers.shape
        index = np.unravel_index(one.at, shape, self.numbers.order) if shape else ()
        place = f"[{', '.join(str(int(i)) for i in index)}]" if shape else ""
        absolute, relative, ulp = one.distances
        return Difference(
            what=f"{what}{place}",
            left=shown(one.left, dtype),
            right=shown(one.right, dtype),
            where=where,
            step=step,
            absolute=absolute,
            relative=relative,
            ulp=ulp,
            differing=self.differing,
            of=self.numbers.size,
            reason=explained(one.left, one.right, dtype),
        )


def _known(one: _Extreme, kind: int) -> float:
    value = one.distances[kind]
    return -1.0 if value is None else value


def _unequal(left: Flat, right: Flat) -> "np.ndarray[Any, np.dtype[np.intp]]":
    """Where the bits differ."""
    width = left.dtype.itemsize
    if left.dtype.kind in "fc" and width > (16 if left.dtype.kind == "c" else 8):
        a, b = (_without_padding(x) for x in (left, right))
        return np.flatnonzero((a != b).any(axis=(1, 2)))
    if left.dtype.kind not in "fiubmM" or width not in (1, 2, 4, 8):
        if left.dtype.kind == "c" and width in (8, 16):
            half = f"u{width // 2}"
            a, b = (np.ascontiguousarray(x).view(half).reshape(-1, 2) for x in (left, right))
            return np.flatnonzero((a != b).any(axis=1)) if not np.array_equal(a, b) else np.empty(0, np.intp)
        return np.flatnonzero(left != right)
    return np.flatnonzero(_bits(left) != _bits(right))


def _without_padding(values: Flat) -> Flat:
    """The bytes of long doubles: by element, by part of it, and in order."""
    parts = np.ascontiguousarray(values).view(_LONG_DOUBLE).view(np.uint8)
    size = _LONG_DOUBLE.itemsize
    return parts.reshape(len(values), values.dtype.itemsize // size, size)[:, :, :_LONG_DOUBLE_BYTES]


def _bits(values: Flat) -> Flat:
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")


class Distances(NamedTuple):
    """How far apart pairs of elements are; entries count only where the masks say so."""

    absolute: Flat
    relative: Flat
    ulp: Flat
    is_number: Flat
    """Both are finite numbers."""
    has_ulp: Flat
    both_nan: Flat
    reference: Flat
    """Magnitude of the left one."""

    def is_close(self, tolerance: Tolerance) -> Flat:
        with np.errstate(invalid="ignore", over="ignore"):
            bound = tolerance.absolute + tolerance.relative * self.reference
            return (self.is_number & (self.absolute <= bound)) | self.both_nan

    def of(self, i: int) -> tuple[float | None, float | None, int | None]:
        is_number = bool(self.is_number[i])
        return (
            float(self.absolute[i]) if is_number else None,
            float(self.relative[i]) if is_number else None,
            int(self.ulp[i]) if self.has_ulp[i] else None,
        )


def measured(left: Flat, right: Flat, dtype: str = "") -> Distances:
    """Absolute, relative and ULP distance of each pair; `dtype` names a type of ENCODED whose bits they are."""
    # Signalling NaN complain whatever is done with them.
    with np.errstate(all="ignore"):
        return _measured(left, right, dtype)


def _measured(left: Flat, right: Flat, dtype: str) -> Distances:
    count = len(left)
    nothing = np.zeros(count, bool)
    ulp, has_ulp = np.zeros(count, np.uint64), nothing
    a: Flat
    b: Flat
    kind = left.dtype.kind
    if dtype in ENCODED:
        a, b = (decoded(x, dtype).astype(np.float64) for x in (left, right))
        ulp = ulp_distance(left, right, is_signed=dtype != "F8_E8M0")
    elif kind in "iub":
        return _integer_distances(left, right)
    elif kind == "f":
        a, b = (x.astype(np.float64) if x.dtype.itemsize < 8 else x for x in (left, right))
        if left.dtype.itemsize <= 8:
            ulp = ulp_distance(_bits(left), _bits(right))
    elif kind == "c":
        a, b = (x.astype(np.complex128) if x.dtype.itemsize < 16 else x for x in (left, right))
        half = f"f{left.dtype.itemsize // 2}"
        parts = [np.ascontiguousarray(x).view(half) for x in (left, right)]
        if left.dtype.itemsize <= 16:
            ulp = ulp_distance(_bits(parts[0]), _bits(parts[1])).reshape(-1, 2).max(axis=1)
    else:
        return Distances(np.zeros(count), np.zeros(count), ulp, nothing, nothing, nothing, np.zeros(count))
    is_number = np.isfinite(a) & np.isfinite(b)
    has_ulp = is_number if left.dtype.itemsize <= (16 if kind == "c" else 8) else nothing
    reference = np.abs(a)
    magnitude = np.maximum(reference, np.abs(b))
    absolute = np.abs(a - b)
    relative = absolute / magnitude
    if np.isinf(absolute).any():
        # Divided first where the difference itself would be beyond the largest float.
        relative = np.where(np.isinf(absolute), np.abs(a / magnitude - b / magnitude), relative)
        absolute = np.minimum(absolute, _MAX)
    if not magnitude.all():
        relative = np.where(magnitude > 0, relative, 0.0)
    both_nan = nothing if is_number.all() else np.isnan(a) & np.isnan(b)
    return Distances(absolute, relative, ulp, is_number, has_ulp, both_nan, reference)


def _integer_distances(left: Flat, right: Flat) -> Distances:
    """Exact also where a difference does not fit the type: in unsigned arithmetic it always does."""
    is_less = left < right
    wide = np.int64 if left.dtype.kind in "ib" else np.uint64
    a, b = left.astype(wide).view(np.uint64), right.astype(wide).view(np.uint64)
    absolute = np.where(is_less, b - a, a - b).astype(np.float64)
    size, other = np.abs(left.astype(np.float64)), np.abs(right.astype(np.float64))
    everywhere, nowhere = np.ones(len(left), bool), np.zeros(len(left), bool)
    magnitude = np.maximum(np.maximum(size, other), 1.0)
    if left.dtype.kind == "b":
        everywhere = nowhere
    return Distances(absolute, absolute / magnitude, np.zeros(len(left), np.uint64), everywhere, nowhere, nowhere, size)


def ulp_distance(left: Flat, right: Flat, *, is_signed: bool = True) -> "np.ndarray[Any, np.dtype[np.uint64]]":
    """How many representable numbers two floats are apart, given as their bits. Both zeros are one number.

    Means nothing for NaN and infinities.

    >>> low, high = np.array([-5e-324]).view("u8"), np.array([5e-324]).view("u8")
    >>> int(ulp_distance(low, high)[0])
    2
    """
    a, b = left.astype(np.uint64), right.astype(np.uint64)
    if not is_signed:
        return np.where(a < b, b - a, a - b)
    # Floats of one sign are ordered like their bits without the sign.
    if not ((a ^ b) >> np.uint64(8 * left.dtype.itemsize - 1)).any():
        return np.maximum(a, b) - np.minimum(a, b)
    sign = np.uint64(1 << (8 * left.dtype.itemsize - 1))
    m, n = a & ~sign, b & ~sign
    return np.where((a & sign) == (b & sign), np.where(m < n, n - m, m - n), m + n)


def shown(value: Any, dtype: str = "") -> str:
    """One element so that reading gives the same bits; a NaN with its bits beside it."""
    if dtype in ENCODED:
        text, bits = str(decoded(np.array([value]), dtype)[0]), f"{int(value):0{2 * value.dtype.itemsize}x}"
        return f"nan ({bits})" if text == "nan" else text
    if isinstance(value, np.floating) and np.isnan(value):
        bits = value.tobytes()[:_LONG_DOUBLE_BYTES][::-1].hex()
        return f"nan ({bits})"
    if isinstance(value, np.void):
        return value.tobytes().hex()
    return (
        str(value)
        if isinstance(value, np.number | np.bool_)
        else repr(value.item() if hasattr(value, "item") else value)
    )


def explained(left: Any, right: Any, dtype: str = "") -> str:
    """Why two elements differ where their numbers do not tell; empty where they do."""
    if dtype in ENCODED:
        left, right = (decoded(np.array([x]), dtype)[0] for x in (left, right))
    if not isinstance(left, np.inexact):
        return ""
    nan = (bool(np.isnan(left)), bool(np.isnan(right)))
    if all(nan):
        return "NaN with another payload"
    if any(nan):
        return "NaN against a number"
    if np.isinf(left) or np.isinf(right):
        return "infinity"
    return "a zero of the other sign" if left == right else ""
