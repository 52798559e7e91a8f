"""Cheap, safe checks that a checkpoint of another program is whole. Nothing is unpickled, no code runs.

A format that carries checksums or sizes is checked by them; of the rest it can only be said that a file is
not empty and begins as it should.
"""

import ast
import gzip
import json
import os
import re
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from lastgood.core import tensorfile
from lastgood.core.errors import DamagedError

_ZIP_MAGIC = b"PK\x03\x04"
_PICKLE_MAGIC = b"\x80"
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)
_MAX_JSON_BYTES = 256 * 2**20
_MAX_HEADER_BYTES = 1 << 20
_SIMPLE_TYPE = re.compile(r"[<>|=]?([biufcSUmMV?])(\d*)")


def problem_of_file(path: str, *, is_quick: bool = False) -> str:
    """Why a file cannot be a whole checkpoint; empty if nothing speaks against it.

    `is_quick` reads the ends and headers only, not all of the content. Raises OSError if it cannot be read:
    that says nothing about its content.
    """
    size = os.stat(path).st_size
    if size == 0:
        return "it is empty"
    checks = _QUICK_CHECKS if is_quick else _CHECKS
    check = checks.get(Path(path).suffix.lower())
    return check(path, size) if check else ""


def problem_of_directory(path: str, *, is_quick: bool = False) -> str:
    """The same for a directory: it has files, each is whole, and none that an index lists is missing."""
    files = files_below(path)
    if not files:
        return "it is an empty directory"
    for name in files:
        if problem := problem_of_file(os.path.join(path, name), is_quick=is_quick):
            return f"{name}: {problem}"
    for name in files:
        if name.endswith(".index.json"):
            absent = _absent_shards(path, name, files)
            if absent:
                return f"{absent[0]} is missing, which {name} lists"
    return ""


def files_below(path: str) -> list[str]:
    """Paths of all files in a directory, relative to it. Raises OSError."""
    found = []

    def refuse(error: OSError) -> None:
        raise error

    for directory, _, names in os.walk(path, onerror=refuse):
        found += [os.path.relpath(os.path.join(directory, name), path) for name in names]
    return sorted(found)


def _absent_shards(path: str, name: str, files: list[str]) -> list[str]:
    try:
        listed = json.loads(Path(path, name).read_bytes()).get("weight_map", {}).values()
    except (ValueError, AttributeError):
        return []
    beside = os.path.dirname(name)
    return sorted({os.path.join(beside, shard) for shard in listed if isinstance(shard, str)} - set(files))


def _check_torch(path: str, size: int) -> str:
    return _quick_check_torch(path, size) or (_check_zip(path, size) if _is_zip(path) else "")


def _is_zip(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == _ZIP_MAGIC


def _quick_check_torch(path: str, size: int) -> str:
    if _is_zip(path):
        return _quick_check_zip(path, size)
    with open(path, "rb") as file:
        begin = file.read(1)
    if begin == _PICKLE_MAGIC:
        # The format before torch 1.6: a bare pickle, which cannot be checked without running it.
        return ""
    return "it is neither a zip archive nor a pickle, as torch.save writes them"


def _check_zip(path: str, size: int) -> str:
    """Every member has a checksum."""
    try:
        with zipfile.ZipFile(path) as archive:
            bad = archive.testzip()
    except _ZIP_ERRORS as error:
        return f"the zip archive is damaged: {error}"
    return f"{bad} in the zip archive does not match its checksum" if bad else ""


def _quick_check_zip(path: str, size: int) -> str:
    """The central directory is at the end, so that an archive that was not written to its end has none."""
    try:
        with zipfile.ZipFile(path):
            return ""
    except _ZIP_ERRORS as error:
        return f"the zip archive is damaged: {error}"


def _check_bin(path: str, size: int) -> str:
    """The name says nothing, but what begins as a zip archive is one: torch.save's, often."""
    return _check_zip(path, size) if _is_zip(path) else ""


def _quick_check_bin(path: str, size: int) -> str:
    return _quick_check_zip(path, size) if _is_zip(path) else ""


def _check_safetensors(path: str, size: int) -> str:
    with open(path, "rb") as file:
        begin = file.read(8)
        try:
            end = tensorfile.header_bytes(begin, size, "the safetensors file")
            tensorfile.parse(begin + file.read(end - 8), size, "the safetensors file")
        except DamagedError as error:
            return error.what
    return ""


def _check_npy(path: str, size: int) -> str:
    with open(path, "rb") as file:
        begin = file.read(12)
        if begin[:6] != b"\x93NUMPY" or len(begin) < 12:
            return "it does not begin as a .npy file"
        length_bytes = 2 if begin[6] == 1 else 4
        start = 8 + length_bytes + int.from_bytes(begin[8 : 8 + length_bytes], "little")
        if start > min(size, _MAX_HEADER_BYTES):
            return "its header is longer than the file"
        file.seek(8 + length_bytes)
        text = file.read(start - 8 - length_bytes)
    try:
        header = ast.literal_eval(text.decode("latin-1").strip())
        descr, shape = header["descr"], header["shape"]
        count = 1
        for extent in shape:
            count *= int(extent)
    except (ValueError, SyntaxError, KeyError, TypeError, MemoryError, RecursionError):
        return "its header cannot be read"
    match = _SIMPLE_TYPE.fullmatch(descr) if isinstance(descr, str) else None
    if match is None:
        return ""
    item_bytes = 8 if match[1] in "mM" else int(match[2] or 1) * (4 if match[1] == "U" else 1)
    expected = start + count * item_bytes
    return "" if size == expected else f"it has {size} bytes; its header says {expected}"


def _check_json(path: str, size: int) -> str:
    if size > _MAX_JSON_BYTES:
        return ""
    try:
        json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError) as error:
        return f"it is not JSON: {error}"
    return ""


def _check_gzip(path: str, size: int) -> str:
    try:
        with gzip.open(path) as file:
            while file.read(1 << 20):
                pass
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        return f"the gzip file is damaged: {error}"
    return ""


_CHECKS: dict[str, Callable[[str, int], str]] = {
    ".pt": _check_torch,
    ".pth": _check_torch,
    ".ckpt": _check_torch,
    ".bin": _check_bin,
    ".safetensors": _check_safetensors,
    ".npz": _check_zip,
    ".zip": _check_zip,
    ".npy": _check_npy,
    ".json": _check_json,
    ".gz": _check_gzip,
}
_QUICK_CHECKS = _CHECKS | {
    ".pt": _quick_check_torch,
    ".pth": _quick_check_torch,
    ".ckpt": _quick_check_torch,
    ".bin": _quick_check_bin,
    ".npz": _quick_check_zip,
    ".zip": _quick_check_zip,
    ".gz": lambda path, size: "",
}
