"""What GROMACS writes: the header of a checkpoint, the outputs that it goes on with, how many steps a run has.

A checkpoint (.cpt) is XDR: a magic number, strings about the program, the version of the format, sizes, and then the
simulation part, the step and the time; a second magic number ends the file. Source: src/gromacs/fileio/checkpoint.cpp
of GROMACS 2022 (do_cpt_header, do_cpt_footer); checked against `gmx dump -cp`.
"""

import hashlib
import os
import re
import struct
from collections.abc import Iterable, Sequence

import msgspec

from lastgood.apps.gromacs_dump import ask_dump
from lastgood.core.errors import UsageError

_MAGIC = 171817
_END = (171819).to_bytes(4, "big")
_HEADER_BYTES = 16384
_LONGEST_NAME = 8192
_CHECKED_BYTES = 2**20
_PAIR = re.compile(r"(output filename|file_offset_high|file_offset_low|file_checksum_size|file_checksum) = (.*)")
_STEPS = re.compile(r"\s*(nsteps|init-step|natoms)\s*=\s*(-?\d+)")


class NotACheckpointError(ValueError):
    """The bytes are not those of a checkpoint; the text says why."""


class Header(msgspec.Struct, frozen=True):
    program_version: str
    format_version: int
    atoms: int
    part: int
    step: int
    time_ps: float
    ranks: int


class Output(msgspec.Struct, frozen=True):
    """A file that a resumed run appends to."""

    name: str
    bytes: int
    """What it had when the checkpoint was written."""
    checked_bytes: int
    """How many of the last of them the checksum is of."""
    md5: str


class Steps(msgspec.Struct, frozen=True):
    """What a run input (.tpr) asks for."""

    first: int
    count: int | None
    """None: without end."""
    atoms: int | None = None

    @property
    def last(self) -> int | None:
        return None if self.count is None else self.first + self.count


def read_header(path: str) -> Header:
    """The header of a checkpoint, and whether its end is there. Raises NotACheckpointError, OSError."""
    with open(path, "rb") as file:
        begin = file.read(_HEADER_BYTES)
        size = os.fstat(file.fileno()).st_size
        file.seek(max(size - 4, 0))
        end = file.read(4)
    header = parse_header(begin)
    if end != _END:
        raise NotACheckpointError("its end is missing: it was not written whole")
    return header


def parse_header(data: bytes) -> Header:
    """Raises NotACheckpointError.

    >>> parse_header(b"")
    Traceback (most recent call last):
    lastgood.apps.gromacs_files.NotACheckpointError: it is empty
    """
    if not data:
        raise NotACheckpointError("it is empty")
    reader = _Xdr(data)
    if (magic := reader.number()) != _MAGIC:
        raise NotACheckpointError(f"it begins with {magic}, a checkpoint with {_MAGIC}")
    program_version = reader.string()
    for _ in range(3):
        reader.string()  # when, by whom and where it was built
    reader.string()  # the program
    reader.string()  # when it was written
    version = reader.number()
    if version < 12:
        raise NotACheckpointError(f"its format {version} is older than GROMACS 4.5's")
    reader.number()  # precision
    reader.string()  # host
    atoms = reader.number()
    for _ in range(2):
        reader.number()  # coupling groups, Nose-Hoover chains
    reader.number()  # for the barostat
    if version >= 14:
        reader.number()  # lambda states
    reader.number()  # integrator
    part = reader.number()
    step = reader.long()
    time_ps = reader.double()
    ranks = reader.number()
    if not (0 < part < 10**6 and step >= -1 and atoms >= 0 and 0 < ranks < 10**7):
        raise NotACheckpointError(f"its header makes no sense (step {step}, {ranks} ranks)")
    return Header(program_version, version, atoms, part, step, time_ps, ranks)


def read_outputs(gmx: Sequence[str], path: str) -> list[Output]:
    """The outputs that a checkpoint was written with, by `gmx dump`, which reads all of it. Raises NotACheckpointError in
    the program's own words where it cannot, and StorageError where it gives no answer."""
    answer = ask_dump(gmx, "-cp", path, _PAIR)
    if answer.exit_code != 0:
        raise NotACheckpointError(f"gmx dump says: {complaint(answer.words) or f'exit code {answer.exit_code}'}")
    found: list[dict[str, str]] = []
    for name, value in answer.matches:
        if name == "output filename":
            found.append({})
        if found:
            found[-1][name] = value
    return list(_outputs(found))


def _outputs(found: Iterable[dict[str, str]]) -> Iterable[Output]:
    for one in found:
        try:
            high, low = int(one["file_offset_high"]), int(one["file_offset_low"])
            size = int(one.get("file_checksum_size", "-1"))
            yield Output(one["output filename"], (high << 32) + (low & 0xFFFFFFFF), size, one.get("file_checksum", ""))
        except (KeyError, ValueError):
            continue


def problem_of_output(output: Output, directory: str) -> str:
    """Why a resumed run could not append to an output, as GROMACS itself checks it; empty if it could."""
    path = os.path.join(directory, output.name)
    try:
        size = os.stat(path).st_size
        if size < output.bytes:
            return f"{output.name} has {size} bytes, the checkpoint knows of {output.bytes}"
        if 0 < output.checked_bytes <= min(output.bytes, _CHECKED_BYTES):
            with open(path, "rb") as file:
                file.seek(output.bytes - output.checked_bytes)
                if hashlib.md5(file.read(output.checked_bytes)).hexdigest() != output.md5:
                    return f"{output.name} is not as it was written (checksum)"
    except FileNotFoundError:
        return f"{output.name} is missing"
    return ""


def read_steps(gmx: Sequence[str], path: str) -> Steps:
    """What a run input asks for. Raises UsageError where GROMACS cannot read it, in its words, and StorageError where it
    gives no answer."""
    answer = ask_dump(gmx, "-s", path, _STEPS)
    values = {name: int(value) for name, value in answer.matches}
    if answer.exit_code != 0 or "nsteps" not in values:
        raise UsageError(
            f"{path} is no run input that this GROMACS reads: {complaint(answer.words) or f'exit code {answer.exit_code}'}",
            safe="nothing was started",
            remedy="make it with `gmx grompp`, or name it with -s",
        )
    count = values["nsteps"]
    return Steps(values.get("init-step", 0), None if count < 0 else count, values.get("natoms"))


_ERROR = re.compile(
    r"^(?:Fatal error|Error in user input|Inconsistency in user input|System I/O error|File input/output error|Software inconsistency error|Internal error \(bug\)|Feature not implemented|Command-line error|Invalid command-line options?|Error):?[ \t]*(.*)",
    re.IGNORECASE,
)


def complaint(words: str) -> str:
    """The error that GROMACS ends with, on one line; empty if there is none.

    >>> complaint("x\\n-------\\nFatal error:\\nCheckpoint file corrupted\\nor so\\n\\nFor more information\\n")
    'Fatal error: Checkpoint file corrupted or so'
    """
    lines = words.splitlines()
    for number, line in enumerate(lines):
        if match := _ERROR.match(line.strip()):
            rest = [match[1]]
            for following in lines[number + 1 :]:
                if not following.strip() or following.startswith(("For more information", "---")):
                    break
                rest.append(following.strip())
            head = line.strip().partition(":")[0]
            return f"{head}: {' '.join(filter(None, rest))}"[:300]
    return ""


class _Xdr:
    """Big-endian values, padded to four bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        return int(struct.unpack(">i", self._take(4))[0])

    def long(self) -> int:
        return int(struct.unpack(">q", self._take(8))[0])

    def double(self) -> float:
        return float(struct.unpack(">d", self._take(8))[0])

    def string(self) -> str:
        size = self.number()
        if not 0 <= size <= _LONGEST_NAME:
            raise NotACheckpointError("its header makes no sense")
        return self._take(-(-size // 4) * 4)[:size].rstrip(b"\0").decode("utf-8", "replace")

    def _take(self, count: int) -> bytes:
        piece = self._data[self._at : self._at + count]
        if len(piece) < count:
            raise NotACheckpointError("it ends within its header")
        self._at += count
        return piece
