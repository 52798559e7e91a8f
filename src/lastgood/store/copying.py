"""Copying the files of a checkpoint from one directory to another, checked on the way.

Every block is read, written, and the checksum of what was written compared with the one that vouches for it,
before the copy gets its name. Temporary files have names of their own, so that several may copy the same.
"""

import os
from collections.abc import Callable
from pathlib import Path

import xxhash

from lastgood.core import layout
from lastgood.core.errors import DamagedError
from lastgood.core.manifest import DataFile, PartRef
from lastgood.store import durable
from lastgood.store.blocks import write_source
from lastgood.store.content import StoredContent
from lastgood.store.gentle import Pacer
from lastgood.store.jobdir import read_document

OnBytes = Callable[[int], None]
"""Told how many more bytes were read, from several threads."""


def copy_data(
    source: Path, expected: DataFile, path: Path, pacer: Pacer | None = None, on_bytes: OnBytes | None = None
) -> None:
    """Copy a data file, durably.

    Raises DamagedError if the source is missing or is not, block for block, what is expected, StorageError if it
    cannot be read, and OSError if the copy cannot be written.
    """
    content = _Checked(source, expected, on_bytes)
    with durable.NewFile(path, os.urandom(8).hex()) as new:
        _, digests = write_source(new.fileno(), content, expected.block_bytes, pacer)
        content.compare(digests)
        new.commit()


def copy_document(source: Path, reference: PartRef, path: Path) -> None:
    """Copy a part's document. Raises as `copy_data`, of one that is not what the manifest vouches for."""
    with durable.explained("read", source):
        text = read_document(source)
    if text is None or len(text) != reference.bytes or xxhash.xxh3_64_hexdigest(text) != reference.xxh3:
        raise DamagedError(f"{source.parent.name}/{source.name} is not the file that the manifest vouches for")
    with durable.NewFile(path, os.urandom(8).hex()) as new:
        new.write(text)
        new.commit()


class _Checked:
    """A file as a source of bytes. A block that ends early is filled up, and so fails its check."""

    def __init__(self, path: Path, expected: DataFile, on_bytes: OnBytes | None) -> None:
        self.size = expected.bytes
        self._expected = expected
        self._on_bytes = on_bytes
        self._path = path
        with durable.explained("read", path):
            try:
                self._content = StoredContent(path, expected.bytes)
            except FileNotFoundError as error:
                raise DamagedError(f"{path.parent.name}/{path.name} is missing") from error

    def views(self, begin: int, end: int) -> list[memoryview]:
        # Said here, because the caller could not tell it from an error of the file that is written.
        with durable.explained("read", self._path):
            view = self._content.block(begin, end)
        if view is None:
            raise DamagedError(f"{self._content.name} ends before byte {end}")
        if self._on_bytes is not None:
            self._on_bytes(end - begin)
        return [view]

    def compare(self, digests: str) -> None:
        for block in range(len(digests) // 16):
            if digests[16 * block : 16 * block + 16] != self._expected.xxh3[16 * block : 16 * block + 16]:
                begin = block * self._expected.block_bytes
                end = min(begin + self._expected.block_bytes, self.size)
                raise DamagedError(
                    f"{self._content.name}: bytes {begin} to {end} (block {block}) do not match their checksum"
                )


def copy_part(
    source: Path,
    reference: PartRef,
    data: DataFile,
    target: Path,
    pacer: Pacer | None = None,
    on_bytes: OnBytes | None = None,
) -> None:
    """Copy what one rank has in the checkpoint directory `source` to `target`: its data, then its document."""
    copy_data(
        source / layout.data_file(reference.rank), data, target / layout.data_file(reference.rank), pacer, on_bytes
    )
    name = layout.part_file(reference.rank)
    copy_document(source / name, reference, target / name)
