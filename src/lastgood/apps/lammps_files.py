"""What LAMMPS writes: the header and the end of a restart file, and the frames of a dump.

A restart file begins and ends with the same 16 bytes. Between them: the byte order, a revision, and then values, each
behind a number that says what it is. Only the first of them are read here. Source: src/write_restart.cpp and
src/lmprestart.h of LAMMPS 29 Sep 2021. LAMMPS itself does not look at the end mark: it takes a file without its last
bytes for a whole one.
"""

import os
import re

import msgspec

_MARK = b"LammpS RestartT\0"
_ORDER = 1
_HEADER_BYTES = 16384
_LONGEST_TEXT = 4096
_PIECE_BYTES = 2**20
_FRAME = re.compile(rb"ITEM: TIMESTEP\n(\d*)(\n?)")
_EDGE_BYTES = 40

_VERSION, _BIGINT, _UNITS, _STEP, _DIMENSION, _ATOM_STYLE, _ATOMS, _TYPES = 0, 3, 4, 5, 6, 15, 16, 17
_NUMBERS = frozenset({1, 2, _BIGINT, 48, _DIMENSION, 7, 9, 10, 11, 12, 13, _TYPES})
_LISTS = {8: 4, 14: 4, 49: 8}
"""Lists of values, with the size of each."""


class NotARestartFileError(ValueError):
    """The bytes are not those of a restart file; the text says why."""

    def __init__(self, why: str, *, is_cut_off: bool = False) -> None:
        """`is_cut_off`: it looks like one whose writing was not ended."""
        super().__init__(why)
        self.is_cut_off = is_cut_off


class Header(msgspec.Struct, frozen=True):
    version: str
    units: str
    step: int
    dimension: int
    atom_style: str
    atoms: int
    types: int


def read_header(path: str) -> Header:
    """The header of a restart file, and whether its end is there. Raises NotARestartFileError, OSError."""
    with open(path, "rb") as file:
        begin = file.read(_HEADER_BYTES)
        size = os.fstat(file.fileno()).st_size
        file.seek(max(size - len(_MARK), 0))
        end = file.read(len(_MARK))
    header = parse_header(begin)
    if end != _MARK:
        raise NotARestartFileError("its end mark is missing: it was not written whole", is_cut_off=True)
    return header


def parse_header(data: bytes) -> Header:
    """Raises NotARestartFileError.

    >>> parse_header(b"")
    Traceback (most recent call last):
    lastgood.apps.lammps_files.NotARestartFileError: it is empty
    """
    if not data:
        raise NotARestartFileError("it is empty", is_cut_off=True)
    if data[: len(_MARK)] != _MARK:
        raise NotARestartFileError("it does not begin as a restart file does")
    reader = _Values(data, len(_MARK))
    if reader.number() != _ORDER:
        raise NotARestartFileError("it was written on a machine of the other byte order")
    reader.number()  # the revision of the format
    found: dict[int, int | str] = {}
    while _TYPES not in found:
        kind = reader.number()
        if kind in (_VERSION, _UNITS, _ATOM_STYLE):
            found[kind] = reader.text()
            for _ in range(reader.count() if kind == _ATOM_STYLE else 0):
                reader.text()
        elif kind in (_STEP, _ATOMS):
            found[kind] = reader.whole(int(found.get(_BIGINT, 8)))
        elif kind in _NUMBERS:
            found[kind] = reader.number()
        elif kind in _LISTS:
            reader.skip(reader.count() * _LISTS[kind])
        else:
            raise NotARestartFileError(f"its header has a value of unknown kind ({kind})")
    try:
        header = msgspec.convert(
            {
                "version": found[_VERSION],
                "units": found[_UNITS],
                "step": found[_STEP],
                "dimension": found[_DIMENSION],
                "atom_style": found[_ATOM_STYLE],
                "atoms": found[_ATOMS],
                "types": found[_TYPES],
            },
            Header,
        )
    except KeyError as error:
        raise NotARestartFileError("its header lacks a value") from error
    if header.step < 0 or header.atoms < 0 or header.types < 0:
        raise NotARestartFileError(f"its header makes no sense (step {header.step}, {header.atoms} atoms)")
    return header


def cut_dump(path: str, step: int) -> int:
    """Take off the frames of a text dump from `step` on, which a run resumed from there writes again. How many bytes that
    were; 0 where the file is not there, or has no frames. Raises OSError."""
    if not os.path.exists(path):
        return 0
    with open(path, "r+b") as file:
        size = os.fstat(file.fileno()).st_size
        begin, keep, following = size, size, b""
        while begin > 0:
            start = max(begin - _PIECE_BYTES, 0)
            file.seek(start)
            # Some bytes more than the piece, for a frame that begins at its edge.
            piece = file.read(begin - start) + following
            marks = [match for match in _FRAME.finditer(piece) if start + match.start() < begin]
            for match in reversed(marks):
                # A frame that a kill cut off within its first lines is behind the newest restart file, too.
                if match[2] and int(match[1]) < step:
                    begin = start = 0
                    break
                keep = start + match.start()
            following, begin = piece[:_EDGE_BYTES], start
        if keep < size:
            file.truncate(keep)
    return size - keep


class _Values:
    """Values of the machine's own byte order, without gaps."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    def number(self) -> int:
        return self.whole(4)

    def whole(self, size: int) -> int:
        return int.from_bytes(self._take(size), "little", signed=True)

    def count(self) -> int:
        """How many values follow."""
        count = self.number()
        if not 0 <= count <= _LONGEST_TEXT:
            raise NotARestartFileError("its header makes no sense")
        return count

    def text(self) -> str:
        return self._take(self.count()).rstrip(b"\0").decode("utf-8", "replace")

    def skip(self, size: int) -> None:
        self._take(size)

    def _take(self, size: int) -> bytes:
        piece = self._data[self._at : self._at + size]
        if size < 0 or len(piece) < size:
            raise NotARestartFileError("it ends within its header", is_cut_off=True)
        self._at += size
        return piece
