"""What a checkpoint of a foreign program holds, by the names in its files: nothing is loaded, no code runs."""

import json
import os
import pickletools
import re
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

_MOST_BYTES = 64 * 2**20
_MOST_WORDS = 20_000
_MOST_DEPTH = 12
_ZIP = b"PK\x03\x04"
_PIECES = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

OPTIMIZER = frozenset(
    "optimizer optimizers optim opt momentum momenta velocity velocities adam moment moments accumulator".split()
)
RANDOM = frozenset(
    "rng rngs random randomness generator generators seedsequence mt19937 pcg64 philox bitgenerator".split()
)
POSITION = frozenset(
    "batch batches sampler position positions index indices order permutation perm offset cursor samples seen consumed "
    "dataset loader dataloader iterator".split()
)
SCHEDULE = frozenset("scheduler schedulers schedule sched".split())
_TELLING = {"exp_avg": OPTIMIZER, "exp_avg_sq": OPTIMIZER, "square_avg": OPTIMIZER, "last_epoch": SCHEDULE}
"""Whole names that frameworks use, whose parts say little."""
_MISLEADING = ("num_batches_tracked",)
"""Ends of names that have nothing to do with what their parts say."""


class Contents(msgspec.Struct, frozen=True):
    path: str
    words: tuple[str, ...]
    """Every name in it: keys, members, files."""
    is_readable: bool
    """False for a format of which nothing can be said."""

    @property
    def pieces(self) -> frozenset[str]:
        # A path is a value: the directory of a run may be called "random-order".
        words = [word for word in self.words if not word.endswith(_MISLEADING) and not word.startswith("/")]
        return frozenset(piece for word in words for piece in pieces_of(word))

    def holds(self, kind: frozenset[str]) -> bool:
        """A name in it is, or is made of, one of these words."""
        return bool(self.pieces & kind) or any(_TELLING.get(word) is kind for word in self.words)


def pieces_of(word: str) -> tuple[str, ...]:
    """The words that a name is made of.

    >>> pieces_of("torch_rng_state"), pieces_of("lastEpoch")
    (('torch', 'rng', 'state'), ('last', 'epoch'))
    """
    return tuple(piece.lower() for piece in _PIECES.findall(word))


def contents_of(path: Path, shown: str) -> Contents:
    """Of a file, or of all files in a directory."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    words: dict[str, None] = {}
    is_readable = False
    for file in files:
        if not file.is_file():
            continue
        if path.is_dir():
            words[file.stem] = None
        with suppress(OSError, ValueError, zipfile.BadZipFile, NotImplementedError, RecursionError):
            for word in _words(file):
                words[word] = None
                is_readable = True
                if len(words) >= _MOST_WORDS:
                    break
    return Contents(shown, tuple(words), is_readable or path.is_dir())


def _words(file: Path) -> Iterator[str]:
    with file.open("rb") as stream:
        begin = stream.read(16)
    if begin.startswith(_ZIP):
        yield from _of_zip(file)
    elif begin[:1] == b"\x80":
        with file.open("rb") as stream:
            yield from _of_pickle(stream.read(_MOST_BYTES))
    elif file.suffix == ".safetensors":
        with file.open("rb") as stream:
            size = int.from_bytes(stream.read(8), "little")
            yield from _of_json(json.loads(stream.read(min(size, _MOST_BYTES))), 0)
    elif file.suffix == ".npy":
        yield file.stem
    elif begin[:1] in (b"{", b"[") and os.path.getsize(file) <= _MOST_BYTES:
        yield from _of_json(json.loads(file.read_bytes()), 0)


def _of_zip(file: Path) -> Iterator[str]:
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            if name.endswith("data.pkl"):
                with archive.open(name) as member:
                    yield from _of_pickle(member.read(_MOST_BYTES))
            elif name.endswith(".npy"):
                yield name.removesuffix(".npy")


def _of_pickle(data: bytes) -> Iterator[str]:
    """Every text in it. A pickle is a program: it is read as a list of its instructions, and not run."""
    for opcode, argument, _ in pickletools.genops(data):
        if isinstance(argument, str) and opcode.name != "PERSID" and len(argument) < 200:
            yield argument


def _of_json(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, dict) and depth < _MOST_DEPTH:
        for key, item in value.items():
            yield str(key)
            yield from _of_json(item, depth + 1)
    elif isinstance(value, list) and depth < _MOST_DEPTH:
        for item in value[:100]:
            yield from _of_json(item, depth + 1)
