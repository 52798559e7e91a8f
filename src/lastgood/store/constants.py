"""Arrays that do not change: written once, by content, and referred to by the checkpoints that need them.

    constants/<digest>-<attempt>.safetensors

A file's name says its content, so that whoever needs these arrays finds it; and the attempt, so that no attempt
ever relies on a file that another may delete (store.references has the argument). An attempt that needs what an
earlier one wrote gives the same file a name of its own: no byte is copied, and neither name needs the other.

What is found under a name is read back and compared before anything refers to it, unless this process wrote it.
"""

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec
import xxhash

from lastgood.core import layout, tensorfile
from lastgood.core.errors import DamagedError
from lastgood.core.manifest import Constants, DataFile
from lastgood.core.tensorfile import ArraySpec
from lastgood.store import durable, writer
from lastgood.store.attempts import check_fence
from lastgood.store.blocks import digest_pieces, write_pieces
from lastgood.store.content import StoredContent
from lastgood.store.copying import OnBytes, copy_data
from lastgood.store.gentle import Pacer
from lastgood.store.jobdir import JobDirectory
from lastgood.store.verified import VerifiedFile

Arrays = list[tuple[ArraySpec, memoryview]]


class ConstantsWriter:
    """Writes constants for one attempt, each set of arrays once. Several ranks and processes may do so at the
    same time, also for the same arrays."""

    def __init__(self, job: JobDirectory, attempt: int, *, fence: Callable[[], None] | None = None) -> None:
        """`fence` as for `CheckpointWriter`."""
        self._job = job
        self._attempt = attempt
        self._check_fence = fence or (lambda: check_fence(job, attempt))
        self._whole: dict[str, DataFile] = {}
        """Files that this process has written, or compared with what should be in them."""
        self._read: dict[str, Constants] = {}

    def put(self, arrays: Arrays, digests: Mapping[str, bytes] | None = None, pacer: Pacer | None = None) -> Constants:
        """Have these arrays in a file, durably, and say where. Costs one pass over the memory where the file is
        there already, and none if `digests` (XXH3-128 of each array, by name) are known.

        Raises StorageError or PermissionDeniedError, or FencedError if a newer attempt is in the way.
        """
        if digests is None:
            digests = {spec.name: xxhash.xxh3_128_digest(buffer) for spec, buffer in arrays}
        plan = tensorfile.plan([spec for spec, _ in arrays])
        file = layout.constants_file(content_digest(plan, digests), self._attempt)
        buffers = {spec.name: buffer for spec, buffer in arrays}
        pieces = [memoryview(plan.header), *(buffers[placed.spec.name] for placed in plan.arrays)]
        with self._explained():
            known = self._whole.get(file)
            if known is None or not self.is_there(known):
                self._whole[file] = self._find(file, set(buffers), pieces) or self._write(file, pieces, pacer)
        return Constants(self._whole[file], sorted(buffers))

    def put_copy(
        self, source: Path, expected: DataFile, pacer: Pacer | None = None, on_bytes: OnBytes | None = None
    ) -> None:
        """Have the content of another constants file of the attempt, which is elsewhere, under the same name here.
        Raises as `put`, and DamagedError if the source is damaged."""
        path = self._job.constants / expected.file
        with self._explained():
            if expected == self._whole.get(expected.file) and self.is_there(expected):
                return
            if not os.path.lexists(path):
                self._adopt(expected.file)
            if not is_whole(path, expected):
                durable.make_directory(self._job.constants)
                copy_data(source, expected, path, pacer, on_bytes)
            durable.flush_directory(self._job.constants)
            self._whole[expected.file] = expected

    def note_read(self, constants: Constants) -> None:
        """These arrays of a constants file of the job, of whatever attempt, were read by this process, and passed
        their checks: if they are all of it, it need not be read again."""
        self._read[constants.data.file] = constants

    def is_there(self, data: DataFile) -> bool:
        """True if the file is there and has its size. Raises OSError."""
        try:
            found = os.stat(self._job.constants / data.file, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return stat.S_ISREG(found.st_mode) and found.st_size == data.bytes

    def _find(self, file: str, names: set[str], pieces: list[memoryview]) -> DataFile | None:
        """The file, if it is there already, if need be under another attempt's name, and has this content."""
        path = self._job.constants / file
        source = file if os.path.lexists(path) else self._adopt(file)
        if not source:
            return None
        read = self._read.get(source)
        if read is not None and names <= set(read.arrays) and self.is_there(read.data):
            durable.flush_directory(self._job.constants)
            return msgspec.structs.replace(read.data, file=file)
        size, digests = digest_pieces(pieces, writer.BLOCK_BYTES)
        data = DataFile(file, size, writer.BLOCK_BYTES, digests)
        if not is_whole(path, data):
            return None
        # Who gave it this name may have died before it could flush that.
        durable.flush_directory(self._job.constants)
        return data

    def _adopt(self, file: str) -> str:
        """Give a file of the same content, of another attempt, a name of this one's; the other name, or nothing."""
        digest = file.partition("-")[0]
        others = {}
        for name in os.listdir(self._job.constants) if self._job.constants.is_dir() else ():
            parsed = layout.parse_constants_file(name)
            if parsed is not None and parsed[0] == digest:
                others[parsed[1]] = name
        for _, name in sorted(others.items(), reverse=True):
            if durable.link_file(self._job.constants / name, self._job.constants / file):
                return name
        return ""

    def _write(self, file: str, pieces: list[memoryview], pacer: Pacer | None) -> DataFile:
        durable.make_directory(self._job.constants)
        with new_constants_file(self._job.constants / file) as new:
            size, digests = write_pieces(new.fileno(), pieces, writer.BLOCK_BYTES, pacer)
            # It may replace one that is damaged, or the same of another rank that was faster.
            new.commit()
        return DataFile(file, size, writer.BLOCK_BYTES, digests)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        with durable.explained("write constants to", self._job.constants, safe="earlier checkpoints are untouched"):
            try:
                yield
            except FileNotFoundError:
                # A newer attempt sweeps what this one had not finished: then storage is not the cause.
                self._check_fence()
                raise


def new_constants_file(path: Path) -> durable.NewFile:
    """Every writer has a temporary file of its own, because several may write the same content."""
    return durable.NewFile(path, os.urandom(8).hex())


def content_digest(plan: tensorfile.Layout, digests: Mapping[str, bytes]) -> str:
    """What the name of a constants file says of its content: names, types, shapes (they make the header) and bytes
    of all arrays. Two contents with one digest are not met by accident."""
    digest = xxhash.xxh3_128(plan.header)
    for placed in plan.arrays:
        digest.update(digests[placed.spec.name])
    return digest.hexdigest()


def is_whole(path: Path, expected: DataFile) -> bool:
    """True if the file can be read and every block of it is as expected."""
    try:
        return not VerifiedFile(StoredContent(path, expected.bytes), expected).problems()
    except (DamagedError, OSError):
        # One that cannot be read is no use either: who asks has the content, and writes it anew.
        return False
