"""Reading a checkpoint, verified on the way: every byte that is handed out has passed its checksum."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import xxhash

from lastgood.core import layout
from lastgood.core.errors import DamagedError, NoSuchJobError
from lastgood.core.manifest import Constants, Manifest, Part, PartRef, check_format, check_manifest, check_part
from lastgood.core.sealed import unseal
from lastgood.core.tensorfile import Placed
from lastgood.store import durable
from lastgood.store.content import LentContent, Loan, StoredContent, Way
from lastgood.store.jobdir import JobDirectory, read_document
from lastgood.store.places import Places, Portion
from lastgood.store.verified import MAX_PROBLEMS, VerifiedFile

T = TypeVar("T")

Lender = Callable[[int], tuple[int, Callable[[], None]] | None]


class Checkpoint:
    """A committed checkpoint, opened for reading. Raises DamagedError wherever content fails its check."""

    def __init__(self, directory: Path, manifest: Manifest) -> None:
        self.directory = directory
        self.manifest = manifest
        self._parts: dict[int, Part] = {}
        self._data: dict[tuple[int, Way], VerifiedFile] = {}
        self._constants: dict[tuple[str, Way], VerifiedFile] = {}
        self._loans: dict[int, Loan] = {}
        self.memory_problems: list[str] = []
        """What was wrong with lent memory, which was given back for it."""
        self._lender: Lender | None = None
        self._stored_only: set[int] = set()

    @property
    def name(self) -> str:
        return self.manifest.name

    def part(self, rank: int) -> Part:
        """What `rank` wrote, without its arrays."""
        if rank not in self._parts:
            self._parts[rank] = _read_part(self.directory, self.manifest, self.manifest.parts[rank])
        return self._parts[rank]

    def arrays(self, rank: int) -> dict[str, Placed]:
        """The arrays of `rank`, by name: those in its file, and the constants that it refers to."""
        found = self._of_file(rank, lambda file: {placed.spec.name: placed for placed in file.arrays()})
        for constants in self.part(rank).constants:
            with self._shared(constants) as file:
                taken = _taken(constants, file)
            if twice := sorted(found.keys() & taken):
                raise DamagedError(f"{self.name}: rank {rank} has the array {twice[0]!r} twice")
            found |= taken
        return found

    def read(self, rank: int, names: Iterable[str]) -> dict[str, memoryview]:
        """The bytes of some arrays of `rank`. They stay valid as long as they are referenced."""
        found: dict[str, memoryview] = {}
        for taken in self._of_files(rank, names, lambda file, taken: file.read(taken)):
            found |= taken
        return found

    def load(self, rank: int, places: Places, way: Way = "fast") -> None:
        """Put the bytes of some arrays of `rank` where they belong, each block after it has passed its check. After
        an error some places are filled and others are not. Takes memory for a few blocks."""
        self._of_files(rank, places, lambda file, taken: file.load({name: places[name] for name in taken}), way)

    def portions(self, rank: int, names: Iterable[str]) -> list[Portion]:
        """Where some arrays of `rank` lie, file by file."""
        return self._of_files(rank, names, lambda file, taken: file.portion(taken))

    def stream(self, rank: int, names: Iterable[str], send: Callable[[memoryview], None]) -> None:
        """Call `send` with every chunk of the `portions`, in order; each is good until `send` returns."""
        sent = 0

        def send_counted(chunk: memoryview) -> None:
            nonlocal sent
            send(chunk)
            sent += 1

        def pass_on(file: VerifiedFile, taken: list[str]) -> None:
            # It is called again for the same file if lent memory turns out to be damaged on the way.
            file.stream(file.portion(taken), send_counted, skip=sent)

        for portion in self.portions(rank, names):
            sent = 0
            self._of_files(rank, [placed.spec.name for placed in portion.arrays], pass_on)

    def lend(self, rank: int, fd: int, on_release: Callable[[], None] | None = None) -> None:
        """From now on read the data of `rank` from this descriptor's memory, which holds the file's content from its
        first byte (and may be longer). The descriptor belongs to the checkpoint. Where the memory does not pass its
        checks, the file is read after all, and `memory_problems` says so.

        The memory must not change before `on_release` is called, which happens when it was given back or the
        checkpoint is gone, and with it every view that was handed out; see `Loan`. Raises OSError if the
        memory cannot be mapped.
        """
        self._stored_only.discard(rank)
        self._loans[rank] = Loan(fd, on_release)
        self._forget(rank)

    def borrow_from(self, lender: Lender) -> None:
        """Ask `lender` for the memory of each rank whose data is needed: it answers with what `lend` takes, or None."""
        self._lender = lender

    def unlend(self, rank: int) -> None:
        """Read the data of `rank` from storage from now on. Views that were handed out stay valid."""
        self._stored_only.add(rank)
        if self._loans.pop(rank, None) is not None:
            self._forget(rank)

    def _forget(self, rank: int) -> None:
        self._data = {key: file for key, file in self._data.items() if key[0] != rank}

    @property
    def lent(self) -> frozenset[int]:
        """The ranks whose data is read from memory."""
        return frozenset(self._loans)

    def _of_files(
        self, rank: int, names: Iterable[str], work: Callable[[VerifiedFile, list[str]], T], way: Way = "fast"
    ) -> list[T]:
        """What `work` answers for each file that holds some of these arrays of `rank`, and for which of them."""
        left = dict.fromkeys(names)
        found = []
        for constants in self.part(rank).constants:
            if taken := [name for name in constants.arrays if name in left]:
                with self._shared(constants, way) as file:
                    found.append(work(file, taken))
            for name in taken:
                del left[name]
        if left:
            found.append(self._of_file(rank, lambda file: work(file, list(left)), way))
        return found

    def _of_file(self, rank: int, work: Callable[[VerifiedFile], T], way: Way = "fast") -> T:
        """What `work` answers for the data file of `rank`: in memory, if it is lent and passes its checks."""
        try:
            return work(self._file(rank, way))
        except DamagedError as error:
            if rank not in self._loans:
                raise
            # What is in memory is no checkpoint: only what is stored is.
            self.memory_problems.append(error.what)
            self.unlend(rank)
        return work(self._file(rank, way))

    def _file(self, rank: int, way: Way) -> VerifiedFile:
        if (rank, way) not in self._data:
            expected = self.part(rank).data
            lender = None if rank in self._loans or rank in self._stored_only else self._lender
            if lender is not None and (offered := lender(rank)) is not None:
                self.lend(rank, *offered)
            if (loan := self._loans.get(rank)) is None:
                self._data[rank, way] = self._stored(rank, way)
            else:
                name = f"{self.name}/{layout.data_file(rank)}"
                self._data[rank, way] = VerifiedFile(LentContent(loan, name, expected.bytes), expected)
        return self._data[rank, way]

    def _stored(self, rank: int, way: Way) -> VerifiedFile:
        expected = self.part(rank).data
        path = self.directory / layout.data_file(rank)
        with _damage_if_missing(f"{self.name}/{path.name}"):
            content = StoredContent(path, expected.bytes, way)
        return VerifiedFile(content, expected)

    @contextmanager
    def _shared(self, constants: Constants, way: Way = "fast") -> Iterator[VerifiedFile]:
        """The constants file, for the block; what is wrong with it is damage of this checkpoint."""
        path = self.directory.parents[1] / layout.CONSTANTS_DIR / constants.data.file
        try:
            with _damage_if_missing(f"{layout.CONSTANTS_DIR}/{path.name}"):
                if (path.name, way) not in self._constants:
                    content = StoredContent(path, constants.data.bytes, way)
                    self._constants[path.name, way] = VerifiedFile(content, constants.data)
                yield self._constants[path.name, way]
        except DamagedError as error:
            raise DamagedError(f"{self.name} refers to constants that are damaged: {error.what}") from error

    def _problems_of_constants(self, rank: int, whole: set[str]) -> Iterator[str]:
        for constants in self.part(rank).constants:
            # Two checkpoints, or parts, that agree on a file agree on its checksums.
            key = f"{constants.data.file} {xxhash.xxh3_64_hexdigest(constants.data.xxh3.encode())}"
            with self._shared(constants, "device") as file:
                problems = [] if key in whole else file.problems()
                if not problems:
                    _taken(constants, file)
            self._constants.pop((constants.data.file, "device"))
            if not problems:
                whole.add(key)
            yield from (f"{self.name} refers to constants that are damaged: {problem}" for problem in problems)

    def verify(self, whole_constants: set[str] | None = None) -> list[str]:
        """Read everything that is stored, whatever is lent; one line for each problem (the first MAX_PROBLEMS or a
        few more), none for a whole checkpoint. Constants files in `whole_constants`, which is added to, are not
        read again.

        What cannot be read is not damaged: OSError is raised if something could not be read and nothing
        that could be is damaged, so that nobody rejects a checkpoint because its storage was away.
        """
        problems = []
        whole = set[str]() if whole_constants is None else whole_constants
        unread: OSError | None = None
        for rank in range(self.manifest.world_size):
            try:
                problems += self._stored(rank, "device").problems()
                problems += self._problems_of_constants(rank, whole)
            except DamagedError as error:
                problems.append(error.what)
            except OSError as error:
                unread = unread or error
            # One rank's documents at a time: those of thousands would not fit into memory.
            self._parts.pop(rank, None)
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
    check_format(manifest.format, f"{name}/{layout.MANIFEST_FILE}", may_have_constants=True)
    check_manifest(manifest, name, job.id)
    return Checkpoint(directory, manifest)


def _read_part(directory: Path, manifest: Manifest, reference: PartRef) -> Part:
    name = f"{manifest.name}/{layout.part_file(reference.rank)}"
    with _damage_if_missing(name):
        data = durable.read_file(directory / layout.part_file(reference.rank), reference.bytes)
    if len(data) != reference.bytes or xxhash.xxh3_64_hexdigest(data) != reference.xxh3:
        raise DamagedError(f"{name} is not the file that the manifest vouches for")
    part = unseal(data, Part, name)
    check_format(part.format, name, may_have_constants=True)
    check_part(part, manifest, reference.rank)
    return part


def _taken(constants: Constants, file: VerifiedFile) -> dict[str, Placed]:
    """The arrays that a part takes from a constants file."""
    there = {placed.spec.name: placed for placed in file.arrays()}
    if missing := [name for name in constants.arrays if name not in there]:
        raise DamagedError(f"{layout.CONSTANTS_DIR}/{constants.data.file} lacks the array {missing[0]!r}")
    return {name: there[name] for name in constants.arrays}


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
