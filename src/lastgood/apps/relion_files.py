"""What RELION writes: STAR files, stacks of images, and the iterations of a run that they make up.

A STAR file of RELION ends each of its tables with a line that holds one blank: where that line is missing at the end, the
file was cut off, at the end of a line or within one. Seen with RELION 3.1.3.
"""

import os
import re
import struct
from collections.abc import Iterator
from typing import BinaryIO

import msgspec
import xxhash

_END = re.compile(rb"\n[ \t]*\r?\n\s*\Z")
_END_BYTES = 64
_HEADER_BYTES = 1024
_BYTES_PER_PIXEL = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 6: 2, 12: 2}
"""By the mode of an MRC file, https://www.ccpem.ac.uk/mrc_format/mrc2014.php."""
_SUFFIXES = (".star", ".mrcs", ".mrc", ".bild")
_MARK = re.compile(r"^ERROR:\s*", re.MULTILINE)
_HASH_BITS = 64


class NotWholeError(ValueError):
    """A file is not as RELION leaves it; the text says in what."""


class Iteration(msgspec.Struct, frozen=True):
    """The files of one iteration, by their names alone."""

    number: int
    optimiser: str
    """The path that `--continue` takes, even where the file is missing."""
    stamps: tuple[tuple[str, int, int], ...]
    """Path, time in ns and size of each file."""

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(path for path, _, _ in self.stamps)


class Optimiser(msgspec.Struct, frozen=True):
    """What the file says that is given to `--continue`."""

    iteration: int
    iterations: int
    models: tuple[str, ...]
    """One, or one for each half of the data."""
    data: str
    sampling: str


class Particles(msgspec.Struct, frozen=True):
    count: int
    names: int
    """The sum of the hashes of the images' names: the order in which they are listed may differ."""


def find_iterations(root: str) -> list[Iteration]:
    """The iterations behind the first (0 holds no work and cannot be continued), the newest first. Raises OSError."""
    directory, base = os.path.split(root)
    pattern = re.compile(rf"{re.escape(base)}_it(\d{{3,}})_\w+({'|'.join(map(re.escape, _SUFFIXES))})")
    found: dict[str, list[tuple[str, int, int]]] = {}
    for name in sorted(os.listdir(directory or ".")):
        if (match := pattern.fullmatch(name)) and int(match[1]):
            path = os.path.join(directory, name)
            try:
                status = os.stat(path)
            except FileNotFoundError:
                continue
            found.setdefault(match[1], []).append((path, status.st_mtime_ns, status.st_size))
    return sorted(
        (
            Iteration(int(digits), f"{root}_it{digits}_optimiser.star", tuple(stamps))
            for digits, stamps in found.items()
        ),
        key=lambda iteration: -iteration.number,
    )


def read_iteration(iteration: Iteration) -> Optimiser:
    """Follow the names in an iteration's files and see that all of these are there, to their ends. Does not read the
    particles, which may be millions. Raises NotWholeError, OSError."""
    optimiser = read_optimiser(iteration.optimiser)
    if optimiser.iteration != iteration.number:
        raise NotWholeError(f"{_named(iteration.optimiser)} is of iteration {optimiser.iteration}")
    for model in optimiser.models:
        for images in read_classes(model):
            check_images(images)
    check_end(optimiser.data)
    # The last one to be written.
    check_end(optimiser.sampling)
    return optimiser


def read_optimiser(path: str) -> Optimiser:
    """Raises NotWholeError, OSError."""
    check_end(path)
    with _opened(path) as file:
        pairs = dict(words[:2] for line in file if len(words := line.decode("utf-8", "replace").split()) >= 2)
    try:
        models = [pairs["_rlnModelStarFile"], pairs.get("_rlnModelStarFile2", "None")]
        return Optimiser(
            int(pairs["_rlnCurrentIteration"]),
            int(pairs["_rlnNumberOfIterations"]),
            tuple(model for model in models if model != "None"),
            pairs["_rlnExperimentalDataStarFile"],
            pairs["_rlnOrientSamplingStarFile"],
        )
    except KeyError as error:
        raise NotWholeError(f"{_named(path)} has no {error.args[0]}") from error
    except ValueError as error:
        raise NotWholeError(f"{_named(path)}: {error}") from error


def read_classes(path: str) -> list[str]:
    """The files with the images of a model's classes. Raises NotWholeError, OSError."""
    check_end(path)
    names = [image.rpartition("@")[2] for image in _column(path, "_rlnReferenceImage")]
    if not names:
        raise NotWholeError(f"{_named(path)} names no class images")
    return list(dict.fromkeys(names))


def count_classes(path: str) -> int:
    """Raises NotWholeError, OSError."""
    return sum(1 for _ in _column(path, "_rlnReferenceImage"))


def read_particles(path: str) -> Particles:
    """All of a table of particles. Raises NotWholeError, OSError."""
    count = names = 0
    for image in _column(path, "_rlnImageName"):
        count += 1
        names = (names + xxhash.xxh3_64_intdigest(image.encode())) % 2**_HASH_BITS
    return Particles(count, names)


def check_end(path: str) -> None:
    """Raises NotWholeError for a STAR file that was cut off, OSError."""
    with _opened(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _END_BYTES, 0))
        end = file.read()
    if not size:
        raise NotWholeError(f"{_named(path)} is empty")
    if not _END.search(end):
        raise NotWholeError(f"the end of {_named(path)} is missing")


def check_images(path: str) -> None:
    """Raises NotWholeError for a file of images that has another size than its header says, OSError."""
    with _opened(path) as file:
        header = file.read(_HEADER_BYTES)
        size = file.seek(0, os.SEEK_END)
    if len(header) < _HEADER_BYTES:
        raise NotWholeError(f"the end of {_named(path)} is missing")
    columns, rows, sections, mode = struct.unpack_from("<4i", header)
    extended_bytes = struct.unpack_from("<i", header, 92)[0]
    if min(columns, rows, sections, extended_bytes + 1) < 1 or mode not in _BYTES_PER_PIXEL:
        raise NotWholeError(f"{_named(path)} has no header of an image file")
    expected = _HEADER_BYTES + extended_bytes + columns * rows * sections * _BYTES_PER_PIXEL[mode]
    if size != expected:
        raise NotWholeError(f"{_named(path)} has {size} bytes, its header says {expected}")


def complaint(words: str) -> str:
    """The error that RELION ends with, on one line; empty if there is none.

    >>> complaint("in: x.cpp, line 5\\nERROR: \\nERROR: no folder!\\n=== Backtrace  ===\\nERROR: \\nERROR: no folder!\\n")
    'no folder!'
    """
    parts = _MARK.split(words)[1:]
    said = next((part.strip() for part in reversed(parts) if part.strip()), "")
    return said.partition("\n")[0][:300]


def _column(path: str, label: str) -> Iterator[str]:
    """The values of one label in the first table that has it. Raises NotWholeError for a row of another length, OSError."""
    at, labels, has_begun = -1, 0, False
    with _opened(path) as file:
        for line in file:
            words = line.decode("utf-8", "replace").split()
            if not words or words[0].startswith(("data_", "loop_")):
                if has_begun:
                    return
                at, labels = -1, 0
            elif words[0].startswith("_"):
                at = labels if words[0] == label else at
                labels += 1
            elif at >= 0 and not words[0].startswith("#"):
                if len(words) < labels:
                    raise NotWholeError(f"{_named(path)} has a row of {len(words)} values for {labels} labels")
                has_begun = True
                yield words[at]


def _opened(path: str) -> BinaryIO:
    try:
        return open(path, "rb")
    except FileNotFoundError as error:
        raise NotWholeError(f"{_named(path)} is missing") from error


def _named(path: str) -> str:
    return os.path.basename(path)
