"""Arrays in files: .npy, .npz, safetensors, .mrc. Mapped, or unpacked while they are compared; never by pickle."""

import ast
import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from lastgood.core import tensorfile
from lastgood.core.dtypes import TO_NUMPY
from lastgood.core.errors import DamagedError
from lastgood.prove.arrays import ENCODED, Flat, Numbers, Order, numbers

NPY_MAGIC = b"\x93NUMPY"
BAD_ARCHIVE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OverflowError, RuntimeError, struct.error)
"""What `zipfile` raises for archives that are not whole, encrypted, or packed in a way that it does not know."""
_MAX_HEADER_BYTES = 1 << 20
_OWN_DIGEST = "/.data/serialization_id"
_MRC_HEADER_BYTES = 1024
_MRC_MODES = {0: "i1", 1: "i2", 2: "f4", 4: "c8", 6: "u2", 12: "f2"}


def read_npy(path: Path) -> dict[str, object]:
    with path.open("rb") as file:
        header = _npy_header(file, str(path))
        return {"array": _mapped(path, header, file.tell())}


def read_npz(path: Path) -> dict[str, object]:
    """The arrays by name, and other members by theirs. Times in the archive are not read."""
    found: dict[str, object] = {}
    with _archive(path) as archive:
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if name in found:
                raise DamagedError(f"{path} has two members called {name!r}: readers differ in which one they take")
            if info.filename.endswith(".npy"):
                found[name] = _member(path, archive, info)
            elif not info.is_dir():
                found[name] = _raw_member(path, info)
    return found


def is_archive(path: Path) -> bool:
    try:
        return zipfile.is_zipfile(path)
    except BAD_ARCHIVE:
        return False


def read_archive(path: Path) -> dict[str, object]:
    """The bytes of each member of an archive: for a file of torch whose objects cannot be loaded, its tensors are apart from
    the pickle that names them."""
    with _archive(path) as archive:
        infos = [info for info in archive.infolist() if not info.is_dir() and not info.filename.endswith(_OWN_DIGEST)]
        # Torch puts the name of the file before each.
        names = {info.filename.partition("/")[2] or info.filename: _raw_member(path, info) for info in infos}
    return dict(names)


def read_safetensors(path: Path) -> dict[str, object]:
    """The arrays by name. What the file says of itself beside them (its metadata) is not compared."""
    size = path.stat().st_size
    with path.open("rb") as file:
        prefix = file.read(8)
        header = prefix + file.read(tensorfile.header_bytes(prefix, size, str(path)) - 8)
    placed = tensorfile.parse(header, size, str(path))
    whole = np.memmap(path, np.uint8, "r")
    found: dict[str, object] = {}
    for (name, dtype, shape), begin, end in sorted(placed, key=lambda one: one.spec.name):
        storage = ENCODED.get(dtype) or TO_NUMPY[dtype]
        array = whole[begin:end].view(storage) if end > begin else np.empty(0, storage)
        found[name] = numbers(array.reshape(shape), dtype if dtype in ENCODED else "")
    return found


def read_mrc(path: Path) -> dict[str, object]:
    """The grid of an MRC file (images and maps of electron microscopy), and its cell; the header holds dates, too."""
    size = path.stat().st_size
    with path.open("rb") as file:
        header = file.read(_MRC_HEADER_BYTES)
    if len(header) < _MRC_HEADER_BYTES:
        raise DamagedError(f"{path} is shorter than the header of an MRC file")
    order = ">" if header[212:214] == b"\x11\x11" else "<"
    columns, rows, sections, mode = struct.unpack(f"{order}4i", header[:16])
    begin = _MRC_HEADER_BYTES + struct.unpack(f"{order}i", header[92:96])[0]
    if mode not in _MRC_MODES or min(columns, rows, sections) < 0:
        raise DamagedError(f"{path} is not an MRC file that can be read (mode {mode})")
    dtype = np.dtype(order + _MRC_MODES[mode])
    if begin < 0 or begin + dtype.itemsize * columns * rows * sections > size:
        raise DamagedError(f"{path} is shorter than its header says")
    shape = (sections, rows, columns)
    cell = list(struct.unpack(f"{order}6f", header[40:64]))
    return {"grid": _mapped(path, (dtype, shape, "C"), begin), "cell": cell}


def read_json(path: Path, data: bytes) -> dict[str, object]:
    """Everything in a JSON file, which names the place of each number: "a.b[3]"."""
    try:
        return {"": json.loads(data)}
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{path} is not JSON: {error}") from error


_Header = tuple[np.dtype[Any], tuple[int, ...], Order]


def _npy_header(file: BinaryIO, name: str) -> _Header:
    """Type, shape and order; the file is left where the elements begin."""
    begin = file.read(8)
    if begin[:6] != NPY_MAGIC or len(begin) < 8 or begin[6] not in (1, 2, 3):
        raise DamagedError(f"{name} is not an array as NumPy saves it")
    length = int.from_bytes(file.read(2 if begin[6] == 1 else 4), "little")
    text = file.read(min(length, _MAX_HEADER_BYTES)).decode("utf-8" if begin[6] == 3 else "latin-1", "replace")
    try:
        table = ast.literal_eval(text.strip())
        dtype = np.lib.format.descr_to_dtype(table["descr"])
        shape = tuple(int(extent) for extent in table["shape"])
        order: Order = "F" if table["fortran_order"] else "C"
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError) as error:
        raise DamagedError(f"{name} has a header that cannot be read") from error
    if shape and min(shape) < 0:
        raise DamagedError(f"{name} has a shape that no array can have")
    if dtype.hasobject:
        raise DamagedError(
            f"{name} holds Python objects (a pickle), which are not loaded: that would run code from the file",
            remedy="save numbers and texts as arrays of their own types",
        )
    return dtype, shape, order


def _bytes_of(header: _Header) -> int:
    count = header[0].itemsize
    for extent in header[1]:
        count *= extent
    return count


def _mapped(path: Path, header: _Header, begin: int) -> Numbers:
    dtype, shape, order = header
    size = _bytes_of(header)
    if begin < 0 or begin + size > path.stat().st_size:
        raise DamagedError(f"{path} is cut off: its array needs {size:,} bytes from byte {begin:,} on")
    if not size:
        return numbers(np.empty(shape, dtype, order))
    return numbers(np.memmap(path, dtype, "r", begin, shape, order))


def _archive(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except BAD_ARCHIVE as error:
        raise DamagedError(f"{path} is not a whole archive: {error}") from error


def _member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Numbers:
    name = f"{path}, {info.filename}"
    try:
        with archive.open(info) as file:
            header = _npy_header(cast(BinaryIO, file), name)
            header_bytes = file.tell()
    except BAD_ARCHIVE as error:
        raise DamagedError(f"{name} cannot be read: {error}") from error
    if header_bytes + _bytes_of(header) != info.file_size:
        raise DamagedError(f"{name} has {info.file_size:,} bytes, which is not what its header says")
    return _placed(path, info, header, header_bytes)


def _raw_member(path: Path, info: zipfile.ZipInfo) -> Numbers:
    return _placed(path, info, (np.dtype(np.uint8), (info.file_size,), "C"), 0)


def _placed(path: Path, info: zipfile.ZipInfo, header: _Header, header_bytes: int) -> Numbers:
    """An array in an archive: mapped where it is stored as it is, else unpacked while it is compared."""
    if info.compress_type != zipfile.ZIP_STORED:
        return _streamed(path, info.filename, header, header_bytes)
    with path.open("rb") as file:
        # An offset that no file has is one behind its end.
        file.seek(min(max(info.header_offset, 0), path.stat().st_size))
        local = file.read(30)
    if len(local) < 30:
        raise DamagedError(f"{path} is cut off")
    begin = info.header_offset + 30 + sum(struct.unpack("<HH", local[26:30])) + header_bytes
    return _mapped(path, header, begin)


def _streamed(path: Path, member: str, header: _Header, header_bytes: int) -> Numbers:
    dtype, shape, order = header
    native = dtype.newbyteorder("=")

    def chunks(count: int) -> Iterator[Flat]:
        left = _bytes_of(header)
        try:
            with _archive(path) as archive, archive.open(member) as file:
                file.read(header_bytes)
                while left:
                    data = file.read(min(left, count * dtype.itemsize))
                    if not data or len(data) % dtype.itemsize:
                        raise DamagedError(f"{path}, {member} is cut off")
                    left -= len(data)
                    yield np.frombuffer(data, dtype).astype(native, copy=False)
        except BAD_ARCHIVE as error:
            raise DamagedError(f"{path}, {member} is damaged: {error}") from error

    def whole() -> np.ndarray[Any, Any]:
        return np.concatenate([*chunks(1 << 20), np.empty(0, native)]).reshape(shape, order=order)

    return Numbers(str(native), native, shape, order, chunks, whole)
