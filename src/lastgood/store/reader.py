"""Reading a checkpoint, verified on the way: every byte that is handed out has passed its checksum."""

import mmap
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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

MAX_PROBLEMS = 20
"""Pieces of damage that a verification names before it stops reading."""

_PIECE_BYTES = 2**20


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
        """Read everything; one line for each problem (the first MAX_PROBLEMS or a few more), none for a
        whole checkpoint.

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
            if len(problems) >= MAX_PROBLEMS:
                problems.append(f"{self.name}: not read any further")
                break
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
    try:
        data = read_document(directory / layout.MANIFEST_FILE)
    except NotADirectoryError as error:
        raise DamagedError(f"{name} is not a directory") from error
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
    with _damage_if_missing(name):
        data = durable.read_file(directory / layout.part_file(reference.rank), reference.bytes)
    if len(data) != reference.bytes or xxhash.xxh3_64_hexdigest(data) != reference.xxh3:
        raise DamagedError(f"{name} is not the file that the manifest vouches for")
    part = unseal(data, Part, name)
    check_format(part.format, name)
    check_part(part, manifest, reference.rank)
    return part


class VerifiedFile:
    """A data file whose blocks are checked before anything of them is handed out.

    Arrays are read into anonymous memory of the file's size, made when it is first needed; pages that
    are not read are never touched. Checking alone takes no more memory than a few pieces of blocks.
    """

    def __init__(self, path: Path, expected: DataFile) -> None:
        self.name = f"{path.parent.name}/{path.name}"
        self._expected = expected
        with _damage_if_missing(self.name):
            self._fd = durable.open_regular(path)
        if (size := os.fstat(self._fd).st_size) != expected.bytes:
            raise DamagedError(f"{self.name} has {size} bytes; {expected.bytes} were written")
        self._placed: list[Placed] | None = None
        self._buffer: memoryview | None = None
        self._verified: set[int] = set()

    def __del__(self) -> None:
        if (fd := getattr(self, "_fd", -1)) >= 0:
            os.close(fd)

    def arrays(self) -> list[Placed]:
        if self._placed is None:
            size = self._expected.bytes
            begin = self._read_blocks(self._blocks(0, min(size, 8)))
            end = tensorfile.header_bytes(begin[:8], size, self.name)
            if end > len(begin):
                begin = self._read_blocks(self._blocks(0, end))
            self._placed = tensorfile.parse(begin[:end], size, self.name)
        return self._placed

    def read(self, names: Iterable[str]) -> dict[str, memoryview]:
        placed = {item.spec.name: item for item in self.arrays()}
        wanted = list(names)
        missing = [name for name in wanted if name not in placed]
        if missing:
            raise DamagedError(f"{self.name} lacks the array {missing[0]!r}")
        if self._buffer is None:
            self._buffer = memoryview(mmap.mmap(-1, self._expected.bytes))
        buffer = self._buffer
        found = {name: placed[name] for name in wanted}
        needed = {block for item in found.values() for block in self._blocks(item.begin, item.end)}

        def load(block: int) -> bool:
            begin, end = self._extent(block)
            return self._fill(buffer[begin:end], begin) and self._fits(block, xxhash.xxh3_64(buffer[begin:end]))

        for block, good in _parallel(load, sorted(needed - self._verified)):
            if not good:
                raise DamagedError(self._complaint(block))
            self._verified.add(block)
        return {name: buffer[item.begin : item.end] for name, item in found.items()}

    def problems(self) -> list[str]:
        """Blocks that fail, the first MAX_PROBLEMS of them, or a header that cannot be read."""
        found: list[str] = []
        for block, good in _parallel(self._check, range(-(-self._expected.bytes // self._expected.block_bytes))):
            if not good:
                found.append(self._complaint(block))
                if len(found) == MAX_PROBLEMS:
                    return found
        if not found:
            self.arrays()
        return found

    def _blocks(self, begin: int, end: int) -> range:
        size = self._expected.block_bytes
        return range(begin // size, -(-end // size))

    def _extent(self, block: int) -> tuple[int, int]:
        begin = block * self._expected.block_bytes
        return begin, min(begin + self._expected.block_bytes, self._expected.bytes)

    def _complaint(self, block: int) -> str:
        begin, end = self._extent(block)
        return f"{self.name}: bytes {begin} to {end} (block {block}) do not match their checksum"

    def _read_blocks(self, blocks: range) -> bytes:
        pieces = []
        for block in blocks:
            begin, end = self._extent(block)
            piece = bytearray(end - begin)
            if not self._fill(memoryview(piece), begin) or not self._fits(block, xxhash.xxh3_64(piece)):
                raise DamagedError(self._complaint(block))
            pieces.append(piece)
        return b"".join(pieces)

    def _check(self, block: int) -> bool:
        begin, end = self._extent(block)
        digest = xxhash.xxh3_64()
        piece = memoryview(bytearray(min(end - begin, _PIECE_BYTES)))
        while begin < end:
            part = piece[: end - begin]
            if not self._fill(part, begin):
                return False
            digest.update(part)
            begin += len(part)
        return self._fits(block, digest)

    def _fill(self, view: memoryview, at: int) -> bool:
        """Read into all of `view` from that place of the file; False if the file ends before."""
        while view:
            count = os.preadv(self._fd, [view], at)
            if count == 0:
                return False
            view, at = view[count:], at + count
        return True

    def _fits(self, block: int, digest: xxhash.xxh3_64) -> bool:
        return digest.hexdigest() == self._expected.xxh3[16 * block : 16 * block + 16]


def _parallel(load: Callable[[int], bool], blocks: Sequence[int]) -> Iterator[tuple[int, bool]]:
    if len(blocks) < 2:
        yield from ((block, load(block)) for block in blocks)
        return
    with ThreadPoolExecutor(READERS, thread_name_prefix="lastgood-read") as pool:
        # In portions, so that giving up early leaves little to wait for.
        for at in range(0, len(blocks), 4 * READERS):
            portion = blocks[at : at + 4 * READERS]
            yield from zip(portion, pool.map(load, portion), strict=True)


@contextmanager
def _damage_if_missing(name: str) -> Iterator[None]:
    """What a manifest vouches for and is not there is damage of the checkpoint; an I/O error is not."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DamagedError(f"{name} is missing") from error


def _refuse_link(directory: Path) -> None:
    if directory.is_symlink():
        raise DamagedError(f"{directory.name} is a link, which is not allowed")
