"""The header of a safetensors file: which array lies where. Pure; see huggingface/safetensors, "Format".

    8 bytes      N, length of the header, little-endian
    N bytes      JSON: {name: {"dtype", "shape", "data_offsets": [begin, end]}}, padded with spaces
    the rest     the arrays, without holes, in the order of their offsets

We pad the header so that the arrays begin at a multiple of ALIGNMENT, and order arrays by falling
element size, so that every array is aligned for its type without a hole.
"""

import json
from contextlib import suppress
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from lastgood.core.dtypes import SIZES, byte_count
from lastgood.core.errors import DamagedError, UnstorableError

ALIGNMENT = 4096
MAX_HEADER_BYTES = 100_000_000
"""The limit of the safetensors library itself."""

_MAX_DIMENSIONS = 64
_MAX_EXTENT = 2**63 - 1
"""As NumPy and PyTorch have them."""


class ArraySpec(NamedTuple):
    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return byte_count(self.dtype, self.shape)


class Placed(NamedTuple):
    """An array and where it lies in its file (in bytes, from the start of the file)."""

    spec: ArraySpec
    begin: int
    end: int


class Layout(NamedTuple):
    header: bytes
    arrays: list[Placed]
    file_bytes: int


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


_DECODE_ENTRIES = msgspec.json.Decoder(dict[str, _Entry]).decode


def plan(specs: list[ArraySpec], metadata: dict[str, str] | None = None) -> Layout:
    """Where each array will lie, and the header that says so; `metadata` goes into the header as it is.

    >>> layout = plan([ArraySpec("w", "F32", (2, 3)), ArraySpec("n", "I64", ())])
    >>> [(a.spec.name, a.begin, a.end) for a in layout.arrays], layout.file_bytes
    ([('n', 4096, 4104), ('w', 4104, 4128)], 4128)
    """
    ordered = sorted(specs, key=lambda spec: (-SIZES[spec.dtype], spec.name))
    entries: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    ends: list[tuple[ArraySpec, int, int]] = []
    end = 0
    for spec in ordered:
        begin, end = end, end + spec.nbytes
        ends.append((spec, begin, end))
        entries[spec.name] = {"dtype": spec.dtype, "shape": spec.shape, "data_offsets": (begin, end)}
    text = msgspec.json.encode(entries)
    start = -(-(8 + len(text)) // ALIGNMENT) * ALIGNMENT
    header = (start - 8).to_bytes(8, "little") + text.ljust(start - 8)
    if len(header) > MAX_HEADER_BYTES:
        raise UnstorableError(
            f"{len(specs)} arrays make a header of {len(header)} bytes; the format ends at {MAX_HEADER_BYTES}",
            remedy="join small arrays into larger ones, or give them shorter names",
        )
    return Layout(header, [Placed(s, start + b, start + e) for s, b, e in ends], start + end)


def parse(header: bytes, file_bytes: int, name: str) -> list[Placed]:
    """The arrays that a header describes, checked against the size of the file.

    `header` is the beginning of the file, at least up to the end of the JSON. Raises DamagedError for
    anything that a reader could trip over: overlaps, holes, offsets outside the file, sizes that
    contradict shape and type, unknown types, one name twice.
    """
    start, entries = _table(header, file_bytes, name)
    if _is_in_order(entries, file_bytes - start):
        return [
            Placed(
                ArraySpec(array, entry.dtype, entry.shape), start + entry.data_offsets[0], start + entry.data_offsets[1]
            )
            for array, entry in entries.items()
        ]
    return _placed(entries, start, file_bytes, name)


def check(header: bytes, file_bytes: int, name: str) -> None:
    """Raise what `parse` would raise. In half the time: a checkpoint of thousands of ranks has millions of arrays."""
    start, entries = _table(header, file_bytes, name)
    if not _is_in_order(entries, file_bytes - start):
        _placed(entries, start, file_bytes, name)


def _table(header: bytes, file_bytes: int, name: str) -> tuple[int, dict[str, _Entry]]:
    """Where the arrays begin, and what the header says of each."""
    start = header_bytes(header, file_bytes, name)
    try:
        return start, _entries(header[8:start])
    except DamagedError as error:
        raise DamagedError(f"{name}: {error.what}") from error
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError, UnicodeDecodeError) as error:
        raise DamagedError(f"{name}: the header is not a table of arrays: {error}") from error


def _is_in_order(entries: dict[str, _Entry], data_bytes: int) -> bool:
    """True if all is well and the arrays are named in the order in which they lie, as we write them; False if that is not
    known yet."""
    sizes: dict[tuple[str, tuple[int, ...]], int] = {}
    at = 0
    for entry in entries.values():
        kind = (entry.dtype, entry.shape)
        size = sizes.get(kind)
        if size is None:
            if entry.dtype not in SIZES or not _can_be(entry.shape):
                return False
            size = sizes[kind] = byte_count(*kind)
        begin, end = entry.data_offsets
        if begin != at or end != begin + size:
            return False
        at = end
    return at == data_bytes


def _can_be(shape: tuple[int, ...]) -> bool:
    return not shape or (min(shape) >= 0 and max(shape) <= _MAX_EXTENT and len(shape) <= _MAX_DIMENSIONS)


def _placed(entries: dict[str, _Entry], start: int, file_bytes: int, name: str) -> list[Placed]:
    """The arrays in the order in which they lie; the first thing that is wrong is told as an error."""
    placed = []
    for array, entry in entries.items():
        begin, end = entry.data_offsets
        if entry.dtype not in SIZES:
            raise DamagedError(f"{name}: array {_short(array)} has unknown type {_short(entry.dtype)}")
        shape = entry.shape
        if not _can_be(shape):
            raise DamagedError(f"{name}: array {_short(array)} has a shape that no array can have")
        if not 0 <= begin <= end <= file_bytes - start:
            raise DamagedError(f"{name}: array {_short(array)} lies outside the file")
        if end - begin != (size := byte_count(entry.dtype, shape)):
            raise DamagedError(f"{name}: array {_short(array)} occupies {end - begin} bytes but its shape says {size}")
        placed.append(Placed(ArraySpec(array, entry.dtype, shape), start + begin, start + end))
    placed.sort(key=itemgetter(1, 2))
    at = start
    for spec, begin, end in placed:
        if begin != at:
            raise DamagedError(
                f"{name}: array {_short(spec.name)} begins at byte {begin}, not at {at} where the one before ends"
            )
        at = end
    if at != file_bytes:
        raise DamagedError(f"{name}: arrays end at byte {at}, the file at {file_bytes}")
    return placed


def _entries(text: bytes) -> dict[str, _Entry]:
    # What we write ourselves comes out the same again; the slow look is for what others wrote.
    with suppress(msgspec.ValidationError):
        entries = _DECODE_ENTRIES(text)
        if msgspec.json.encode(entries) == text.rstrip(b" "):
            return entries
    table = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    if "__metadata__" in table:
        msgspec.json.decode(table.pop("__metadata__"), type=dict[str, str])
    json.loads(text, object_pairs_hook=_refuse_duplicates)
    decode = msgspec.json.Decoder(_Entry).decode
    return {array: decode(entry) for array, entry in table.items()}


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> None:
    # Readers differ in which of the two they take.
    if len({key for key, _ in pairs}) < len(pairs):
        raise DamagedError("the header has one name twice")


def _short(text: str) -> str:
    """A name from a file as messages show it: quoted, and never longer than a line."""
    return repr(text) if len(text) <= 100 else f"{text[:100]!r}..."


def header_bytes(prefix: bytes, file_bytes: int, name: str) -> int:
    """How many bytes of the file its header takes, from the file's first 8 bytes."""
    length = int.from_bytes(prefix[:8], "little") if len(prefix) >= 8 else -1
    if not 2 <= length <= min(file_bytes - 8, MAX_HEADER_BYTES):
        raise DamagedError(f"{name}: a header of {length} bytes does not fit a file of {file_bytes} bytes")
    return 8 + length
