"""What OpenFOAM writes: directories that have a time for a name, and whether what is in one was written whole.

A directory is written in place: first uniform/time, then the fields one after the other. Nothing marks its end, so that
the newest name says nothing. But each file begins with a FoamFile header and ends with a line of stars, and each list
says how long it is. Seen with OpenFOAM v1912; files of the collated handler end with the last block instead.
"""

import mmap
import os
import re
from collections.abc import Iterator

import msgspec

_TIME = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
_FOOTER = re.compile(rb"// \*{10,} //\s*\Z")
_HEAD_BYTES = 4096
_LIST = re.compile(rb"List<(\w+)>\s+(\d+)\s*\(")
_BLOCK = re.compile(rb"\n(\d+)\s*\n\(")
_SCALARS = {"scalar": 1, "sphericalTensor": 1, "vector": 3, "symmTensor": 6, "tensor": 9}
_WIDTH = {name: re.compile(rb"%s=(\d+)" % name.encode()) for name in ("label", "scalar")}
_COLLATED = b"decomposedBlockData"
STAMP = os.path.join("uniform", "time")
"""The file that says which time it is, and how many steps it took."""


class Stamp(msgspec.Struct, frozen=True):
    value: float
    index: int
    delta_s: float


def times_in(directory: str) -> dict[str, float]:
    """The directories that OpenFOAM takes for times, by name.

    >>> [name for name in ("0.1", "1e-05", "1.8.attempt-2", "constant") if _TIME.fullmatch(name)]
    ['0.1', '1e-05']
    """
    with os.scandir(directory) as found:
        return {entry.name: float(entry.name) for entry in found if _TIME.fullmatch(entry.name) and entry.is_dir()}


def files_in(directory: str) -> dict[str, str]:
    """The files of a time with their paths, by what they hold: whether it is compressed makes no difference."""
    return {os.path.relpath(path, directory).removesuffix(".gz"): path for path in _walk(directory)}


def _walk(directory: str) -> Iterator[str]:
    with os.scandir(directory) as found:
        for entry in found:
            if entry.is_dir():
                yield from _walk(entry.path)
            else:
                yield entry.path


def read_stamp(directory: str) -> Stamp | None:
    """None if there is none that makes sense. Raises OSError."""
    try:
        found = dict(_STAMP.findall(_text(os.path.join(directory, STAMP))))
        # Early versions do not write the value.
        value = float(found.get("value", os.path.basename(directory)))
        return Stamp(value, int(found["index"]), float(found["deltaT"]))
    except (FileNotFoundError, NotADirectoryError, KeyError, ValueError):
        return None


_STAMP = re.compile(r"^(value|index|deltaT)\s+(\S+);", re.MULTILINE)


def _text(path: str) -> str:
    if not os.path.exists(path) and os.path.exists(f"{path}.gz"):
        return _unpacked(f"{path}.gz").decode("latin-1")
    with open(path, encoding="latin-1") as file:
        return file.read()


def problem_at_ends(path: str, *, is_expected: bool) -> str:
    """Why a file was not written whole, by its first and last bytes; empty if they are as they should be. Files that are not
    OpenFOAM's are left alone, unless one `is_expected`."""
    with open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
        file.seek(max(os.fstat(file.fileno()).st_size - 256, 0))
        tail = file.read()
    if not head:
        return "is empty"
    if path.endswith(".gz"):
        return "" if head[:2] == b"\x1f\x8b" else "is not compressed data"
    if b"FoamFile" not in head:
        return "begins with no FoamFile header" if is_expected or head[0] == 0 else ""
    is_ended = tail.rstrip().endswith(b")") if _COLLATED in head else _FOOTER.search(tail) is not None
    return "" if is_ended else "has no end: it was not written whole"


def problem_inside(path: str) -> str:
    """Why a file's content cannot be what was written: a list of another length than it says. Reads all of it."""
    if path.endswith(".gz"):
        try:
            return _problem_of_data(_unpacked(path))
        except (EOFError, ValueError) as error:
            return f"cannot be unpacked: {error}"
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return "is empty"
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _problem_of_data(data)


def _unpacked(path: str) -> bytes:
    import gzip
    import zlib

    with gzip.open(path) as file:
        try:
            return file.read()
        except (zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(str(error)) from error


def _problem_of_data(data: "bytes | mmap.mmap") -> str:
    head = data[:_HEAD_BYTES]
    if b"FoamFile" not in head:
        return ""
    if _COLLATED in head:
        return _problem_of_blocks(data, head)
    is_binary = re.search(rb"format\s+binary;", head) is not None
    at = 0
    while (match := _LIST.search(data, at)) is not None:
        kind, count = match[1].decode("ascii", "replace"), int(match[2])
        at = match.end()
        if is_binary:
            width = _width_bytes(kind, head)
            if width is None:
                continue
            at += count * width
            is_whole = data[at : at + 1] == b")"
        elif data[at : at + 1] in (b"\n", b"\r"):
            end = data.find(b"\n)", at)
            is_whole = end >= 0 and data[at:end].count(b"\n") == count
            at = end
        else:
            continue
        if not is_whole:
            return f"has a list of {count} {kind}s that is longer or shorter"
    return ""


def _problem_of_blocks(data: "bytes | mmap.mmap", head: bytes) -> str:
    at, count = head.index(_COLLATED), 0
    while (match := _BLOCK.search(data, at)) is not None:
        at = match.end() + int(match[1])
        count += 1
        if data[at : at + 1] != b")":
            return f"has a block (of rank {count - 1}) that is longer or shorter than it says"
    declared = re.search(rb"blocks\s+(\d+);", head)
    return "" if declared is None or int(declared[1]) == count else f"has {count} of {int(declared[1])} blocks"


def _width_bytes(kind: str, head: bytes) -> int | None:
    """Of one element in a binary file; None if it is not known."""
    name = "scalar" if kind in _SCALARS else kind
    if name not in _WIDTH:
        return None
    declared = _WIDTH[name].search(head)
    bits = int(declared[1]) if declared else {"scalar": 64, "label": 32}[name]
    return _SCALARS.get(kind, 1) * bits // 8


_FATAL = re.compile(r"-->\s*(FOAM (?:SERIOUS )?FATAL(?: IO)? ERROR)\s*:?(.*)")
_RANK = re.compile(r"^\[\d+\] ?")


def complaint(words: str) -> str:
    """The error that OpenFOAM ends with, on one line; empty if there is none.

    >>> complaint("x\\n[1] --> FOAM FATAL ERROR: \\n[1] cannot find file p\\n[1] \\n[1]     From function f")
    'FOAM FATAL ERROR: cannot find file p'
    """
    lines = [_RANK.sub("", line).strip() for line in words.splitlines()]
    for number, line in enumerate(lines):
        if match := _FATAL.search(line):
            rest = [match[2].strip()]
            for following in lines[number + 1 :]:
                if following.startswith(("From ", "FOAM ")) or (not following and any(rest)):
                    break
                rest.append(following)
            return f"{match[1]}: {' '.join(filter(None, rest))}"[:300]
    return ""
