"""Files held against each other byte for byte, for whatever has no better reader."""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import msgspec
import numpy as np

from lastgood.core.errors import DamagedError
from lastgood.prove.arrays import CHUNK_BYTES
from lastgood.prove.difference import Difference
from lastgood.prove.tally import Tally


class Raw(msgspec.Struct, frozen=True):
    """The bytes of a file."""

    path: Path
    is_as_stored: bool = False
    """A .gz is unpacked otherwise: it has a time in its header."""

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        with self.path.open("rb") as file:
            if self.path.suffix == ".gz" and not self.is_as_stored:
                with _unpacked(self.path, file) as unpacked:
                    yield unpacked
            else:
                yield file


@contextmanager
def _unpacked(path: Path, file: BinaryIO) -> Iterator[BinaryIO]:
    try:
        with gzip.GzipFile(fileobj=file, mode="rb") as unpacked:
            yield cast(BinaryIO, io.BufferedReader(unpacked))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DamagedError(f"{path} cannot be unpacked: {error}") from error


def are_same_bytes(left: Raw, right: Raw) -> bool:
    with left.open() as one, right.open() as other:
        while True:
            a, b = one.read(CHUNK_BYTES), other.read(CHUNK_BYTES)
            if a != b:
                return False
            if not a:
                return True


def hold_raw(tally: Tally, what: str, left: Raw, right: Raw, *, where: str = "") -> None:
    """Bytes that differ have a place, and no distance: whatever they mean, it is not known here."""
    at, first, differing = 0, None, 0
    with left.open() as one, right.open() as other:
        while True:
            a, b = one.read(CHUNK_BYTES), other.read(CHUNK_BYTES)
            common = min(len(a), len(b))
            if a[:common] != b[:common]:
                x, y = np.frombuffer(a, np.uint8, common), np.frombuffer(b, np.uint8, common)
                unequal = np.flatnonzero(x != y)
                differing += len(unequal)
                if first is None:
                    index = int(unequal[0])
                    first = (at + index, a[index : index + 8].hex(), b[index : index + 8].hex())
            at += common
            if len(a) != len(b):
                sizes = (at + len(a) - common + _rest(one), at + len(b) - common + _rest(other))
                break
            if not a:
                sizes = (at, at)
                break
    if first is None and sizes[0] == sizes[1]:
        tally.add_equal(at)
        return
    reason = ""
    if sizes[0] != sizes[1]:
        reason = f"another size: {sizes[0]:,} against {sizes[1]:,} bytes"
        if first is None:
            reason += ", and one is the beginning of the other"
    begin, here, there = first or (at, "", "")
    difference = Difference(
        what=f"{what}, byte {begin:,}" if what else f"byte {begin:,}",
        left=here,
        right=there,
        where=where,
        reason=reason,
        differing=differing + abs(sizes[0] - sizes[1]),
        of=max(sizes),
    )
    tally.add(difference, is_allowed=False)
    tally.add_equal(max(0, at - differing))


def _rest(file: BinaryIO) -> int:
    size = 0
    while chunk := file.read(CHUNK_BYTES):
        size += len(chunk)
    return size
