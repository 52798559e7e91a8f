"""Single values of any kind held against each other: numbers, printed numbers, texts, bytes, and nested ones."""

import math
import struct
from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

from lastgood.prove.arrays import Numbers
from lastgood.prove.bits import compare_arrays
from lastgood.prove.difference import EXACT, Comparison, Difference, Tolerance, differs
from lastgood.prove.tally import Tally, is_close

MAX_DEPTH = 200
AS_PRINTED = "compared as printed: digits that are not printed are not compared"


def compare_values(
    what: str, left: object, right: object, tolerance: Tolerance = EXACT, *, where: str = ""
) -> Comparison:
    """Whether two values are equal, whatever they are made of.

    >>> print(compare_values("loss", 0.25, 0.2500000000000001).first)
    loss: 0.25 against 0.2500000000000001, 2 ULP, absolute 1.11e-16, relative 4.44e-16
    """
    tally = Tally(tolerance)
    hold(tally, what, left, right, where=where)
    return tally.comparison()


def hold(tally: Tally, what: str, left: object, right: object, *, where: str = "", step: int | None = None) -> None:
    """Hold two values against each other and add what is found to the tally."""
    _Holder(tally, where, step).hold(what, left, right, 0)


class _Holder:
    def __init__(self, tally: Tally, where: str, step: int | None) -> None:
        self.tally = tally
        self.where = where
        self.step = step

    def hold(self, what: str, left: Any, right: Any, depth: int) -> None:
        if type(left) is float and type(right) is float:
            self.floats(what, left, right)
        elif depth > MAX_DEPTH:
            self.unlike(what, "", "", f"nested more than {MAX_DEPTH} deep: not compared")
        elif isinstance(left, np.ndarray | np.generic | Numbers) and isinstance(
            right, np.ndarray | np.generic | Numbers
        ):
            a, b = (x if isinstance(x, Numbers) else np.asarray(x) for x in (left, right))
            self.tally.join(compare_arrays(what, a, b, self.tally.tolerance, where=self.where, step=self.step))
        elif isinstance(left, Mapping) and isinstance(right, Mapping):
            self.mappings(what, left, right, depth + 1)
        elif isinstance(left, Sequence) and isinstance(right, Sequence) and not isinstance(left, str | bytes):
            self.sequences(what, left, right, depth + 1)
        elif isinstance(left, str) and isinstance(right, str):
            self.texts(what, left, right)
        elif type(left) is type(right) and isinstance(left, bytes | bytearray | memoryview):
            self.raw(what, bytes(left), bytes(right))
        elif isinstance(left, Set) and isinstance(right, Set):
            self.hold(what, sorted(map(repr, left)), sorted(map(repr, right)), depth + 1)
        elif _is_number(left) and _is_number(right):
            self.numbers(what, left, right)
        elif type(left) is type(right) and (left is right or left == right):
            self.tally.add_equal()
        else:
            self.unlike(what, repr(left), repr(right), "" if type(left) is type(right) else _kinds(left, right))

    def mappings(self, what: str, left: Mapping[Any, Any], right: Mapping[Any, Any], depth: int) -> None:
        for key in left:
            name = _join(what, key)
            if key in right:
                self.hold(name, left[key], right[key], depth)
            else:
                self.unlike(name, _told(left[key]), "", "only in the undisturbed run")
        for key in right:
            if key not in left:
                self.unlike(_join(what, key), "", _told(right[key]), "only in the other run")

    def sequences(self, what: str, left: Sequence[Any], right: Sequence[Any], depth: int) -> None:
        if isinstance(right, str | bytes) or len(left) != len(right):
            self.unlike(what, _told(left), _told(right), "another length" if not isinstance(right, str | bytes) else "")
            return
        for index, (a, b) in enumerate(zip(left, right, strict=True)):
            self.hold(f"{what}[{index}]", a, b, depth)

    def floats(self, what: str, left: float, right: float) -> None:
        # Most values are equal, and a series has many: no array is made for these.
        if struct.pack("<d", left) == struct.pack("<d", right):
            self.tally.add_equal()
        else:
            found = compare_arrays(
                what, np.asarray(left), np.asarray(right), self.tally.tolerance, where=self.where, step=self.step
            )
            assert found.first is not None
            self.tally.add(found.first, is_allowed=not found.beyond)

    def numbers(self, what: str, left: Any, right: Any) -> None:
        if type(left) is type(right) and left == right and not isinstance(left, complex):
            self.tally.add_equal()
        elif isinstance(left, complex) and isinstance(right, complex):
            self.tally.join(
                compare_arrays(
                    what, np.asarray(left), np.asarray(right), self.tally.tolerance, where=self.where, step=self.step
                )
            )
        elif isinstance(left, complex | bool) or isinstance(right, complex | bool):
            self.unlike(what, repr(left), repr(right), "" if type(left) is type(right) else _kinds(left, right))
        else:
            reason = "" if type(left) is type(right) else _kinds(left, right)
            self.measured(what, repr(left), repr(right), left, right, reason)

    def texts(self, what: str, left: str, right: str) -> None:
        """Numbers as a program printed them are compared as printed, and then as numbers."""
        if left == right:
            self.tally.add_equal()
            return
        a, b = printed_number(left), printed_number(right)
        if a is None or b is None:
            self.unlike(what, repr(left), repr(right), "")
        else:
            self.measured(what, left, right, a, b, "the same number, printed in another way" if a == b else "")

    def raw(self, what: str, left: bytes, right: bytes) -> None:
        if left == right:
            self.tally.add_equal()
            return
        if len(left) != len(right):
            self.unlike(what, f"{len(left):,} bytes", f"{len(right):,} bytes", "another size")
            return
        found = compare_arrays(what, np.frombuffer(left, np.uint8), np.frombuffer(right, np.uint8))
        assert found.first is not None
        self.unlike(found.first.what, left.hex()[:64], right.hex()[:64], f"{found.differing:,} bytes differ")

    def measured(self, what: str, left: str, right: str, a: float, b: float, reason: str) -> None:
        """Numbers that are not of one float type: there is no ULP between them."""
        try:
            x, y = float(a), float(b)
        except OverflowError:
            self.unlike(what, left, right, reason)
            return
        is_finite = math.isfinite(x) and math.isfinite(y)
        # Whole numbers beyond 2**53 are subtracted as what they are.
        absolute = min(float(abs(a - b)), np.finfo(float).max.item()) if is_finite else None
        magnitude = max(abs(x), abs(y))
        tolerance = self.tally.tolerance
        self.tally.add(
            self.difference(
                what,
                left,
                right,
                reason,
                absolute=absolute,
                relative=absolute / magnitude if absolute is not None and magnitude else absolute,
            ),
            is_allowed=not tolerance.is_exact and is_close(x, y, tolerance),
        )

    def unlike(self, what: str, left: str, right: str, reason: str) -> None:
        self.tally.add(self.difference(what, left, right, reason), is_allowed=False)

    def difference(self, what: str, left: str, right: str, reason: str, **distances: Any) -> Difference:
        return Difference(
            what=what or "the whole",
            left=left,
            right=right,
            where=self.where,
            step=self.step,
            reason=reason,
            **distances,
        )


def only_one(what: str, *, is_left: bool, where: str = "", step: int | None = None) -> Comparison:
    """The answer for something that one run has and the other has not."""
    reason = "only in the undisturbed run" if is_left else "only in the other run"
    return differs(Difference(what=what, left="", right="", where=where, step=step, reason=reason))


def printed_number(text: str) -> float | int | None:
    """The number that a program printed; None if it is none. Fortran's exponents count: 1.0D-3.

    >>> printed_number("1e-3"), printed_number("1.5D+02"), printed_number("12"), printed_number("1_000")
    (0.001, 150.0, 12, None)
    """
    if "_" in text or len(text) > 400:
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text.replace("D", "e").replace("d", "e"))
    except ValueError:
        return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | complex | np.number | np.bool_)


def _kinds(left: object, right: object) -> str:
    return f"{type(left).__name__} against {type(right).__name__}"


def _join(what: str, key: object) -> str:
    return f"{what}.{key}" if what else str(key)


def _told(value: object) -> str:
    if isinstance(value, int | float | complex | str | None):
        return repr(value)
    if isinstance(value, np.ndarray | Numbers):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, Sequence | Mapping | Set):
        return f"{type(value).__name__} of {len(value):,}"
    return type(value).__name__
