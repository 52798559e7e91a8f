"""A file of any size as pieces of whole lines, each with the number of its first line; packed files too.

Bytes that are no UTF-8 are replaced: they can only be in names that people gave.
"""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import msgspec

from lastgood.core.errors import DamagedError, UsageError


class Readable(Protocol):
    """A file, a pipe, or the answer of a command."""

    def read(self, size: int, /) -> bytes: ...


PIECE_BYTES = 16 << 20
_LONGEST_LINE_BYTES = 16 << 20
_PACKED: list[tuple[bytes, Callable[[Any], Readable]]] = [
    (b"\x1f\x8b", lambda raw: gzip.GzipFile(fileobj=raw)),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\x00", lzma.LZMAFile),
]
_FOREIGN = {
    b"\x28\xb5\x2f\xfd": ("packed with zstd", "unpack it: zstd -dc FILE | lastgood history --sacct -"),
    b"PK\x03\x04": ("a zip archive", "unpack it: unzip -p FILE | lastgood history --sacct -"),
    b"\xff\xfe": ("text in UTF-16", "convert it: iconv -f UTF-16 -t UTF-8 FILE | lastgood history --sacct -"),
    b"\xfe\xff": ("text in UTF-16", "convert it: iconv -f UTF-16 -t UTF-8 FILE | lastgood history --sacct -"),
}
_BEGIN_BYTES = 6


class Piece(msgspec.Struct, frozen=True):
    """Whole lines, without the last one's line break."""

    text: str
    first_line: int
    is_cut_off: bool = False
    """It is the last, and its last line does not end with a line break."""


def pieces_of(raw: Readable, where: str, piece_bytes: int = PIECE_BYTES) -> Iterator[Piece]:
    """The lines of a file, `piece_bytes` at a time. Raises UsageError if it is no text, DamagedError if it cannot be unpacked."""
    stream = _unpacked(raw, where)
    rest, line = b"", 1
    while True:
        try:
            data = stream.read(piece_bytes)
        except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
            raise DamagedError(
                f"{where} cannot be unpacked beyond line {line}: {error}",
                safe="nothing was counted",
                remedy="copy the file again",
            ) from error
        if not data:
            break
        if b"\0" in data:
            raise UsageError(
                f"{where}, line {line + data[: data.index(0)].count(10)}: this is no text",
                safe="nothing was counted",
                remedy="give what `sacct -P` printed",
            )
        whole, found, begun = data.rpartition(b"\n")
        if not found:
            rest += begun
            if len(rest) > max(_LONGEST_LINE_BYTES, piece_bytes):
                raise UsageError(
                    f"{where}, line {line}: a line of more than {_LONGEST_LINE_BYTES >> 20} MiB",
                    safe="nothing was counted",
                    remedy="give what `sacct -P` printed",
                )
            continue
        text = _decoded(rest + whole)
        yield Piece(text, line)
        line += text.count("\n") + 1
        rest = begun
    if rest:
        yield Piece(_decoded(rest), line, is_cut_off=True)


def _decoded(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    # As from Windows; the last line's is before the line break that was cut away.
    return text.replace("\r\n", "\n").removesuffix("\r") if "\r" in text else text


class _Begun:
    """A stream of which the first bytes have been read already; a pipe cannot go back."""

    def __init__(self, begin: bytes, rest: Readable) -> None:
        self._begin = begin
        self._rest = rest

    def read(self, size: int = -1) -> bytes:
        if self._begin:
            taken = self._begin if size < 0 else self._begin[:size]
            self._begin = self._begin[len(taken) :]
            return taken
        return self._rest.read(size)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


def _unpacked(raw: Readable, where: str) -> Readable:
    begin = b""
    while len(begin) < _BEGIN_BYTES and (more := raw.read(_BEGIN_BYTES - len(begin))):
        begin += more
    for mark, (what, remedy) in _FOREIGN.items():
        if begin.startswith(mark):
            raise UsageError(f"{where} is {what}", safe="nothing was counted", remedy=remedy)
    stream: Readable = _Begun(begin, raw)
    for mark, unpacking in _PACKED:
        if begin.startswith(mark):
            return unpacking(stream)
    return stream
