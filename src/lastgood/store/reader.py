"""Reading a checkpoint, verified on the way: every byte that is handed out has passed its checksum."""

import errno
import mmap
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import xxhash

from lastgood.core import layout, tensorfile
from lastgood.core.errors import DamagedError, NoSuchJobError
from lastgood.core.manifest import DataFile, Manifest, Part, PartRef, check_format, check_manifest, check_part
from lastgood.core.sealed import unseal
from lastgood.core.tensorfile import Placed
from lastgood.store import durable
from lastgood.store.jobdir import JobDirectory, read_document

READERS = 4
"""Threads that read blocks of one file: more do not help one device, fewer leave it idle."""


class Checkpoint:
    """A committed checkpoint, opened for reading. Raises DamagedError wherever content fails its check."""

    def __init__(self, directory: Path, manifest: Manifest) -> None:
        self.directory = directory
        self.manifest = manifest
        self._parts: dict[int, Part] = {}
        self._data: dict[int, VerifiedFile] = {}

    @property
    def name(self) -> str:
        return self.manifest.name

    def part(self, rank: int) -> Part:
        """What `rank` wrote, without its arrays."""
        if rank not in self._parts:
            self._parts[rank] = _read_part(self.directory, self.manifest, self.manifest.parts[rank])
        return self._parts[rank]

    def arrays(self, rank: int) -> dict[str, Placed]:
        """The arrays in the file of `rank`, by name."""
        return {placed.spec.name: placed for placed in self._file(rank).arrays()}

    def read(self, rank: int, names: Iterable[str]) -> dict[str, memoryview]:
        """The bytes of some arrays in the file of `rank`. They stay valid as long as they are referenced."""
        return self._file(rank).read(names)

    def _file(self, rank: int) -> "VerifiedFile":
        if rank not in self._data:
            self._data[rank] = VerifiedFile(self.directory / layout.data_file(rank), self.part(rank).data)
        return self._data[rank]

    def verify(self) -> list[str]:
        """Read everything; one line for each problem, none for a whole checkpoint.

        What cannot be read is not damaged: OSError is raised if something could not be read and nothing
        that could be is damaged, so that nobody rejects a checkpoint because its storage was away.
        """
        problems = []
        unread: OSError | None = None
        for rank in range(self.manifest.world_size):
            try:
                problems += self._file(rank).problems()
            except DamagedError as error:
                problems.append(error.what)
            except OSError as error:
                unread = unread or error
            finally:
                self._data.pop(rank, None)
        if unread is not None and not problems:
            raise unread
        return problems


def open_checkpoint(job: JobDirectory, name: str) -> Checkpoint:
    """The committed checkpoint of that directory name.

    Raises NoSuchJobError if it has no manifest, DamagedError if the manifest cannot be trusted, OSError
    if it cannot be read.
    """
    directory = job.checkpoints / name
    if not layout.parse_checkpoint_name(name):
        raise NoSuchJobError(f"{name!r} is not the name of a checkpoint", remedy="`lastgood ls` lists the names")
    _refuse_link(directory)
    data = read_document(directory / layout.MANIFEST_FILE)
    if data is None:
        raise NoSuchJobError(
            f"{directory} has no manifest: the checkpoint was never committed",
            remedy="`lastgood ls` lists the others",
        )
    manifest = unseal(data, Manifest, f"{name}/{layout.MANIFEST_FILE}")
    check_format(manifest.format, f"{name}/{layout.MANIFEST_FILE}")
    check_manifest(manifest, name, job.id)
    return Checkpoint(directory, manifest)


def _read_part(directory: Path, manifest: Manifest, reference: PartRef) -> Part:
    name = f"{manifest.name}/{layout.part_file(reference.rank)}"
    with _damage(name):
        data = durable.read_file(directory / layout.part_file(reference.rank), reference.bytes)
    if len(data) != reference.bytes or xxhash.xxh3_64_hexdigest(data) != reference.xxh3:
        raise DamagedError(f"{name} is not the file that the manifest vouches for")
    part = unseal(data, Part, name)
    check_format(part.format, name)
    check_part(part, manifest, reference.rank)
    return part


class VerifiedFile:
    """A data file whose blocks are checked the first time that they are needed.

    The buffer is anonymous memory of the file's size; pages that are not read are never touched.
    """

    def __init__(self, path: Path, expected: DataFile) -> None:
        self.name = f"{path.parent.name}/{path.name}"
        self._expected = expected
        with _damage(self.name):
            self._fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size != expected.bytes:
            raise DamagedError(f"{self.name} has {status.st_size} bytes; {expected.bytes} were written")
        self._buffer = memoryview(mmap.mmap(-1, expected.bytes))
        self._verified: set[int] = set()

    def __del__(self) -> None:
        if (fd := getattr(self, "_fd", -1)) >= 0:
            os.close(fd)

    def arrays(self) -> list[Placed]:
        size = self._expected.bytes
        self._need(0, min(size, 8))
        end = tensorfile.header_bytes(bytes(self._buffer[:8]), size, self.name)
        self._need(0, end)
        return tensorfile.parse(bytes(self._buffer[:end]), size, self.name)

    def read(self, names: Iterable[str]) -> dict[str, memoryview]:
        placed = {item.spec.name: item for item in self.arrays()}
        missing = [name for name in names if name not in placed]
        if missing:
            raise DamagedError(f"{self.name} lacks the array {missing[0]!r}")
        wanted = {name: placed[name] for name in names}
        self._need_blocks({block for item in wanted.values() for block in self._blocks(item.begin, item.end)})
        return {name: self._buffer[item.begin : item.end] for name, item in wanted.items()}

    def problems(self) -> list[str]:
        """Every block that fails, and a header that cannot be read."""
        found = []
        count = -(-self._expected.bytes // self._expected.block_bytes)
        for block, good in _parallel(self._load, range(count)):
            if good:
                self._verified.add(block)
            else:
                found.append(self._complaint(block))
        if not found:
            self.arrays()
        return found

    def _blocks(self, begin: int, end: int) -> range:
        size = self._expected.block_bytes
        return range(begin // size, -(-end // size))

    def _need(self, begin: int, end: int) -> None:
        self._need_blocks(set(self._blocks(begin, end)))

    def _need_blocks(self, blocks: set[int]) -> None:
        for block, good in _parallel(self._load, sorted(blocks - self._verified)):
            if not good:
                raise DamagedError(self._complaint(block))
            self._verified.add(block)

    def _complaint(self, block: int) -> str:
        size = self._expected.block_bytes
        begin, end = block * size, min((block + 1) * size, self._expected.bytes)
        return f"{self.name}: bytes {begin} to {end} (block {block}) do not match their checksum"

    def _load(self, block: int) -> bool:
        size = self._expected.block_bytes
        begin = block * size
        view = self._buffer[begin : min(begin + size, self._expected.bytes)]
        at = 0
        while at < len(view):
            count = os.preadv(self._fd, [view[at:]], begin + at)
            if count == 0:
                return False
            at += count
        return xxhash.xxh3_64_hexdigest(view) == self._expected.xxh3[16 * block : 16 * block + 16]


def _parallel(load: Callable[[int], bool], blocks: Iterable[int]) -> Iterator[tuple[int, bool]]:
    blocks = list(blocks)
    if len(blocks) < 2:
        yield from ((block, load(block)) for block in blocks)
        return
    with ThreadPoolExecutor(READERS, thread_name_prefix="lastgood-read") as pool:
        yield from zip(blocks, pool.map(load, blocks), strict=True)


class _damage:
    """A file that is missing, a link or too large is damage of the checkpoint; an I/O error is not."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and error.errno in (
            errno.ENOENT,
            errno.ELOOP,
            errno.EFBIG,
            errno.EISDIR,
            errno.ENOTDIR,
        ):
            reason = {errno.ENOENT: "is missing", errno.ELOOP: "is a link, which is not allowed"}
            raise DamagedError(f"{self.name} {reason.get(error.errno, error.strerror)}") from error


def _refuse_link(directory: Path) -> None:
    if directory.is_symlink():
        raise DamagedError(f"{directory.name} is a link, which is not allowed")
