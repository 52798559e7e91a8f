"""Files of results: which kind each is, what is in it, and whether two are equal.

What a kind leaves out of a comparison is what differs between any two runs by design: times in archives, dates in headers.
"""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from lastgood.core.errors import DamagedError, LastgoodError, UsageError
from lastgood.prove.array_files import (
    BAD_ARCHIVE,
    NPY_MAGIC,
    is_archive,
    read_archive,
    read_json,
    read_mrc,
    read_npy,
    read_npz,
    read_safetensors,
)
from lastgood.prove.arrays import numbers
from lastgood.prove.difference import EXACT, Comparison, Difference, Tolerance, differs
from lastgood.prove.foam_fields import is_binary_foam, read_foam
from lastgood.prove.frames import Frames, hold_frames
from lastgood.prove.raw_bytes import Raw, are_same_bytes, hold_raw
from lastgood.prove.tally import Tally
from lastgood.prove.text_lines import Lines, hold_lines
from lastgood.prove.values import hold
from lastgood.store.durable import explained

TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".tar")
_OLD_TORCH = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_LOOK_BYTES = 65536
_MAX_JSON_BYTES = 256 * 2**20
"""A larger one is compared line by line: read as a whole it would take ten times its size."""
_HOLD_TIMES = {b"\x89HDF\r\n\x1a\n": "HDF5", b"CDF\x01": "netCDF", b"CDF\x02": "netCDF", b"PAR1": "Parquet"}

Read = Callable[[Path], dict[str, object]]


class Rule(msgspec.Struct, frozen=True):
    """How files are compared."""

    tolerance: Tolerance = EXACT
    kind: str = ""
    """One of KINDS; empty: by what is in the file."""
    leave_out: tuple[str, ...] = ()
    """Regular expressions of lines of text that may differ."""
    places: tuple[str, str] = ("", "")
    """The directories in which the two runs worked: in texts among the values, each stands for the other."""


class HoldsObjectsError(DamagedError):
    """A file of torch that holds more than tensors and plain values."""


def _read_json(path: Path) -> dict[str, object]:
    with Raw(path).open() as file:
        return read_json(path, file.read())


def _read_torch(path: Path) -> dict[str, object]:
    try:
        from lastgood.frameworks.torch_files import NeedsCodeError, Stored, read_torch_file
    except ImportError:
        raise HoldsObjectsError(f"{path.name} is a file of torch, which is not installed here") from None

    def converted(value: Any) -> object:
        if isinstance(value, Stored):
            return numbers(value.array, value.dtype)
        if isinstance(value, dict):
            return {key: converted(item) for key, item in value.items()}
        return [converted(item) for item in value] if isinstance(value, list) else value

    try:
        return {"": converted(read_torch_file(path))}
    except NeedsCodeError as error:
        raise HoldsObjectsError(
            f"{path.name} holds Python objects ({error}), which are not loaded: that would run code",
            remedy="save tensors and plain values alone, such as `model.state_dict()`",
        ) from error


_READERS: dict[str, Read] = {
    "npy": read_npy,
    "npz": read_npz,
    "safetensors": read_safetensors,
    "torch": _read_torch,
    "json": _read_json,
    "mrc": read_mrc,
    "openfoam": read_foam,
    "csv": lambda path: {"": Lines(Raw(path), "csv")},
    "jsonl": lambda path: {"": Lines(Raw(path), "jsonl")},
    "text": lambda path: {"": Lines(Raw(path))},
    "frames": lambda path: {"": Frames((Raw(path),))},
    "archive": read_archive,
    "bytes": lambda path: {"": Raw(path)},
}
KINDS = tuple(_READERS)
_MAPPED = ("npy", "npz", "safetensors", "torch", "mrc")


def kind_of(path: Path) -> str:
    """The kind of a file, by its first bytes, and by its name where these do not tell."""
    with Raw(path).open() as file:
        start = file.read(_LOOK_BYTES)
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    kind = _kind_by_start(path, suffix, start)
    # What is mapped cannot be unpacked on the way.
    return "bytes" if path.suffix == ".gz" and kind in _MAPPED else kind


def _kind_by_start(path: Path, suffix: str, start: bytes) -> str:
    if start.startswith(NPY_MAGIC):
        return "npy"
    if start.startswith(_ZIP):
        return _kind_of_archive(path)
    if suffix == ".safetensors":
        return "safetensors"
    if start.startswith(_OLD_TORCH):
        return "torch"
    if start[208:211] == b"MAP":
        return "mrc"
    if start.startswith(b"ITEM: TIMESTEP"):
        return "frames"
    if is_binary_foam(start):
        return "openfoam"
    return _kind_of_text(path, suffix, start)


def _kind_of_archive(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except BAD_ARCHIVE:
        return "torch" if path.suffix in TORCH_SUFFIXES else "npz"
    return "torch" if any(name.endswith("/data.pkl") for name in names) else "npz"


def _kind_of_text(path: Path, suffix: str, start: bytes) -> str:
    by_name = {".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "csv"}
    try:
        start.decode("utf-8")
        is_text = b"\0" not in start
    except UnicodeDecodeError as error:
        # Cut in the middle of a character by where we looked is no other encoding.
        is_text = b"\0" not in start and error.start > len(start) - 4 and len(start) == _LOOK_BYTES
    if not is_text:
        return "bytes"
    kind = by_name.get(suffix, "text")
    return "jsonl" if kind == "json" and path.stat().st_size > _MAX_JSON_BYTES else kind


def read_results(path: Path, kind: str = "") -> dict[str, object]:
    """What is in a file of results, by name: arrays as `Numbers`, which are read when they are compared; text as `Lines`;
    other bytes as `Raw`; a file of one value under the empty name.

    Raises DamagedError for what cannot be read as that kind, UsageError for a kind that is none.
    """
    if kind and kind not in _READERS:
        raise UsageError(f"{kind!r} is no kind of file", remedy=f"one of: {', '.join(KINDS)}")
    with explained("read", path):
        return _READERS[kind or kind_of(path)](path)


def compare_files(left: Path, right: Path, rule: Rule = Rule(), *, where: str = "") -> Comparison:  # noqa: B008
    """Whether two files hold the same results; `left` is the undisturbed run's. Files that cannot be looked into are equal
    where their bytes are: only one that is missing raises an error. Of equal files that hold nothing, nothing is compared."""
    for path in (left, right):
        with explained("read", path):
            path.stat()
    with explained("compare", left):
        if left.samefile(right):
            return Comparison(kind="identical", compared=0, notes=(f"{where or left} is the same file for both",))
    try:
        with explained("read", left):
            kind = rule.kind or kind_of(left)
        one = read_results(left, kind)
    except HoldsObjectsError as error:
        if is_archive(left) and is_archive(right):
            by_bytes = compare_files(left, right, msgspec.structs.replace(rule, kind="archive"), where=where)
            return msgspec.structs.replace(by_bytes, notes=(*by_bytes.notes, _as_bytes(left, error, where)))
        return _compare_unread(left, right, error, where)
    except UsageError:
        raise
    except LastgoodError as error:
        return _compare_unread(left, right, error, where)
    try:
        other = read_results(right, kind)
    except LastgoodError as error:
        # The undisturbed run's can be read: that the other's cannot is a difference, and the worst.
        reason = f"the other run's cannot be read: {error.what}"
        return differs(Difference(what="the whole", left="", right="", where=where, reason=reason))
    tally = Tally(rule.tolerance)
    try:
        with explained("compare", left):
            for name in dict.fromkeys([*one, *other]):
                _hold(tally, name, one, other, rule, where)
    except UsageError:
        raise
    except LastgoodError as error:
        return _compare_unread(left, right, error, where)
    if kind == "bytes" and tally.differing and (note := _note_on_bytes(left)):
        tally.note(f"{where or left.name} {note}")
    if tally.is_empty:
        return Comparison(
            kind="identical", compared=0, notes=(f"{where or left.name} holds nothing in both", *tally.notes)
        )
    return tally.comparison()


def _hold(tally: Tally, name: str, one: dict[str, object], other: dict[str, object], rule: Rule, where: str) -> None:
    left, right = one.get(name), other.get(name)
    if isinstance(left, Lines) and isinstance(right, Lines):
        replaced = msgspec.structs.replace(left, leave_out=(*left.leave_out, *rule.leave_out))
        hold_lines(tally, replaced, right, where=where)
    elif isinstance(left, Raw) and isinstance(right, Raw):
        hold_raw(tally, name, left, right, where=where)
    elif isinstance(left, Frames) and isinstance(right, Frames):
        hold_frames(tally, left, right, where=where)
    else:
        left, right = _without_place(left, rule.places[0]), _without_place(right, rule.places[1])
        both = [{name: value} if name in side else {} for side, value in ((one, left), (other, right))]
        if name:
            hold(tally, "", *both, where=where)
        else:
            hold(tally, "", left, right, where=where)


def _without_place(value: object, place: str) -> object:
    """With the path of the run's directory taken out of texts: checkpoints name files in it, and no two runs share one."""
    if not place:
        return value
    if isinstance(value, str):
        return value.replace(place, "{run}")
    if isinstance(value, dict):
        return {_without_place(key, place): _without_place(one, place) for key, one in value.items()}
    if isinstance(value, list | tuple):
        items = [_without_place(one, place) for one in value]
        return items if isinstance(value, list) else tuple(items)
    return value


def _compare_unread(left: Path, right: Path, error: LastgoodError, where: str) -> Comparison:
    """Files that cannot be looked into are still equal if their bytes are."""
    with explained("compare", left):
        if are_same_bytes(Raw(left, is_as_stored=True), Raw(right, is_as_stored=True)):
            size = left.stat().st_size
            return Comparison(kind="identical", compared=size, notes=(_as_bytes(left, error, where),))
    reason = f"other bytes, of which nothing more can be said: {error.what}"
    return differs(Difference(what="the whole", left="", right="", where=where, reason=reason))


def _as_bytes(path: Path, error: LastgoodError, where: str) -> str:
    return f"{where or path.name} was compared by its bytes: {error.what}"


def _note_on_bytes(path: Path) -> str:
    with path.open("rb") as file:
        start = file.read(8)
    for magic, name in _HOLD_TIMES.items():
        if start.startswith(magic):
            return f"is {name}, which is compared by its bytes: it may hold times or be laid out in another way"
    if start[:1] == b"\x80" and path.suffix in (".pkl", ".pickle"):
        return "is a pickle, which is compared by its bytes and never loaded"
    return ""
