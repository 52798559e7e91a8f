"""The only place that creates, renames, flushes and deletes files of a job.

What a function here promises holds after a crash of the program or the machine, as far as the file
system honours fsync. Network file systems that acknowledge fsync early can still lose what they
acknowledged; no program can see that.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lastgood.core.errors import DamagedError, LastgoodError, PermissionDeniedError, StorageError
from lastgood.core.layout import TEMPORARY_SUFFIX

_REMEDIES = {
    errno.ENOSPC: "free space there, or keep fewer checkpoints (Keep(last=...))",
    errno.EDQUOT: "free space in your quota, or keep fewer checkpoints (Keep(last=...))",
    errno.EROFS: "the file system is read-only: remount it, or choose another job directory",
    errno.EIO: "the storage reports errors: check it before running again",
    errno.ESTALE: "the network file system was remounted or exported anew: run again",
    errno.ENAMETOOLONG: "choose a shorter job directory",
}


@contextmanager
def explained(what: str, path: Path | str, safe: str = "") -> Iterator[None]:
    """Turn an OSError inside the block into an error that names the thing, the place and the way out."""
    try:
        yield
    except OSError as error:
        raise explain(error, what, path, safe) from error


def explain(error: OSError, what: str, path: Path | str, safe: str = "") -> LastgoodError:
    reason = error.strerror or str(error)
    place = os.fspath(path)
    if error.errno in (errno.EACCES, errno.EPERM):
        return PermissionDeniedError(
            f"cannot {what} {place}: {reason}",
            safe=safe,
            remedy=_owner_hint(place) or "check who may write there",
        )
    remedy = _REMEDIES.get(error.errno or 0, "check the file system, then run again")
    return StorageError(f"cannot {what} {place}: {reason}", safe=safe, remedy=remedy)


def _owner_hint(place: str) -> str:
    with suppress(OSError):
        while not os.path.lexists(place) and len(place) > 1:
            place = os.path.dirname(place)
        owner = os.stat(place).st_uid
        if owner != os.geteuid():
            return f"{place} belongs to user {owner}, you are {os.geteuid()}: use a directory of your own"
    return ""


def flush_directory(path: Path) -> None:
    """Make the names in a directory durable. File systems that cannot (EINVAL) have nothing to flush."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(fd)


def make_directory(path: Path) -> None:
    """Create a directory and those above it, durably; one that exists already is fine."""
    missing = []
    at = path
    while not at.is_dir():
        missing.append(at)
        if at == at.parent:
            break
        at = at.parent
    # The deepest one that exists may come from a process that died before it could flush the name.
    # Directories above it that are not ours to open were there long before us.
    try:
        flush_directory(at.parent)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
    for directory in reversed(missing):
        try:
            directory.mkdir()
        except FileExistsError:
            # Another rank was first. (Some network file systems say so even for a directory.)
            if not directory.is_dir():
                raise
        flush_directory(directory.parent)


class NewFile:
    """A file that appears under its name only when it is whole and flushed.

    Until `publish`, its content is in `<name>.part` beside it, which never counts and is swept later.
    Where several processes may make the same file, each gives a `token` of its own, which keeps their
    temporary files apart. Use as a context manager: leaving it before removes the temporary file.
    """

    def __init__(self, path: Path, token: str = "") -> None:
        self.path = path
        self.part = path.with_name(path.name + (f".{token}" if token else "") + TEMPORARY_SUFFIX)
        # Left by a process that died here before: nobody else writes to this path.
        self._fd = os.open(self.part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        self._is_open = True
        self._has_part = True

    def fileno(self) -> int:
        return self._fd

    def write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def flush(self) -> None:
        """Make the content durable; it has no name yet."""
        os.fsync(self._fd)

    def publish(self) -> None:
        """Give the flushed file its name (replacing an older file of it) and make the name durable."""
        self._close()
        os.replace(self.part, self.path)
        self._has_part = False
        flush_directory(self.path.parent)

    def commit(self) -> None:
        """`flush`, then `publish`."""
        self.flush()
        self.publish()

    def commit_exclusively(self) -> bool:
        """As `commit`, but never replaces: False if the name is taken. Only one of many callers gets True.

        A hard link is atomic and fails on an existing name, also on NFS. Where the file system has no
        links, the name is claimed by an exclusive create first, which has one winner too; but then the
        file is empty for a moment, and stays so if the winner dies in it. Readers must know that.
        """
        self.flush()
        try:
            os.link(self.part, self.path)
        except FileExistsError:
            return False
        except FileNotFoundError:
            # Swept by somebody who knew that the name is taken.
            if os.path.lexists(self.path):
                return False
            raise
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK):
                raise
            return self._claim_and_replace()
        flush_directory(self.path.parent)
        return True

    def _claim_and_replace(self) -> bool:
        try:
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
        except FileExistsError:
            return False
        try:
            self.publish()
        except FileNotFoundError:
            # We were away so long that somebody took us for dead and swept our temporary file.
            return False
        return True

    def _close(self) -> None:
        if self._is_open:
            self._is_open = False
            os.close(self._fd)

    def __enter__(self) -> "NewFile":
        return self

    def __exit__(self, *exc: object) -> None:
        self._close()
        if self._has_part:
            with suppress(OSError):
                self.part.unlink(missing_ok=True)


def write_file(path: Path, data: bytes) -> None:
    """Write a whole small file durably, replacing an older one of that name at once or not at all."""
    with NewFile(path) as new:
        new.write(data)
        new.commit()


def write_shared_file(path: Path, data: bytes) -> None:
    """`write_file` for a file that several processes may write at the same time: the last one wins, whole."""
    with NewFile(path, os.urandom(8).hex()) as new:
        new.write(data)
        new.commit()


def create_file(path: Path, data: bytes) -> bool:
    """Create a small file durably unless the name is taken; False if it is."""
    # Neither process ids nor host names tell callers apart: in containers all may be process 1.
    with NewFile(path, os.urandom(8).hex()) as new:
        new.write(data)
        return new.commit_exclusively()


def link_file(existing: Path, path: Path) -> bool:
    """Give a flushed file a second name, durably. False if that name is taken, if the file is gone, or where the
    file system has no second names."""
    try:
        os.link(existing, path, follow_symlinks=False)
    except (FileExistsError, FileNotFoundError):
        return False
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EACCES, errno.EXDEV, errno.EMLINK, errno.ENOSYS, errno.ENOTSUP):
            raise
        return False
    flush_directory(path.parent)
    return True


class NewDirectory:
    """A directory that other code fills, and that appears under its name only when all in it is flushed.

    `staging` is where to write. Use as a context manager: leaving it without `publish` removes it.
    """

    def __init__(self, path: Path, unique: str) -> None:
        self.path = path
        self.staging = path.with_name(f"{path.name}.{unique}{TEMPORARY_SUFFIX}")
        self._remove()
        self.staging.mkdir()

    def publish(self) -> None:
        """Make all that is in it durable and give it its name. Raises OSError if the name is taken by a
        file or by a directory that is not empty."""
        for directory, _, files in os.walk(self.staging):
            for name in files:
                fd = os.open(Path(directory, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    os.fsync(fd)
                finally:
                    os.close(fd)
            flush_directory(Path(directory))
        self.staging.rename(self.path)
        flush_directory(self.path.parent)

    def __enter__(self) -> "NewDirectory":
        return self

    def __exit__(self, *exc: object) -> None:
        self._remove()

    def _remove(self) -> None:
        # Imported here: every job and launcher loads this module, and few ever make such a directory.
        import shutil

        shutil.rmtree(self.staging, ignore_errors=True)


class AppendFile:
    """A file that lines are appended to, each by a single write, so that lines never mix.

    Not flushed unless asked: losing the last lines to a power cut loses history, never a checkpoint.
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        self._is_torn = False

    def append(self, data: bytes) -> None:
        """Append one line. Raises OSError if it was not, or not wholly, written."""
        if self._is_torn:
            # The end of the line before did not fit: what follows must not be lost with it.
            data = b"\n" + data
        count = os.write(self._fd, data)
        self._is_torn = count < len(data)
        if self._is_torn:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def flush(self) -> None:
        os.fsync(self._fd)

    def close(self) -> None:
        os.close(self._fd)


def put_aside(path: str, why: str, *, prefix: str = "") -> str:
    """Rename another program's file, so that it is not taken any more; its new path. `why` becomes part of the name, with a
    number where that is taken; `prefix` stands in front of the name."""
    directory, name = os.path.split(path)
    stem = os.path.join(directory, prefix + name)
    for number in range(1, 1000):
        aside = f"{stem}.{why}" if number == 1 else f"{stem}.{why}-{number}"
        if not os.path.lexists(aside):
            os.rename(path, aside)
            flush_directory(Path(path).parent)
            return aside
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), f"{path}.{why}")


def delete_file(path: Path) -> None:
    """Remove a file; one that is gone already is fine. A directory of that name is not ours, and stays."""
    with suppress(IsADirectoryError):
        path.unlink(missing_ok=True)


def delete_directory(path: Path) -> None:
    """Remove an empty directory; one that is gone, or not empty, is left as it is."""
    try:
        path.rmdir()
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise


def read_file(path: Path, limit_bytes: int) -> bytes:
    """The content of a small file of ours.

    Raises DamagedError for what cannot be one (see `open_regular`, or larger than the limit), and
    OSError if it cannot be read.
    """
    for _ in range(_STALE_TRIES):
        try:
            return _read_once(path, limit_bytes)
        except OSError as error:
            # Network file systems say so when the file is replaced between opening and reading it.
            if error.errno != errno.ESTALE:
                raise
    return _read_once(path, limit_bytes)


_STALE_TRIES = 3


def _read_once(path: Path, limit_bytes: int) -> bytes:
    fd = open_regular(path)
    try:
        size = os.fstat(fd).st_size
        if size > limit_bytes:
            raise DamagedError(f"{_short(path)} has {size} bytes, more than it can have")
        pieces = []
        while size > 0 and (piece := os.read(fd, min(size, 1 << 20))):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)
    finally:
        os.close(fd)


def open_regular(path: Path) -> int:
    """A descriptor for reading a file of ours. Never follows a link and never waits for a pipe.

    Raises DamagedError if the name belongs to a link, a directory or anything else that is no file.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise DamagedError(f"{_short(path)} is a link, which is not allowed") from error
        if error.errno == errno.ENXIO:
            raise DamagedError(f"{_short(path)} is not a file") from error
        raise
    try:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
        raise DamagedError(f"{_short(path)} is not a file")
    except BaseException:
        os.close(fd)
        raise


def _short(path: Path) -> str:
    """A file by its name and its directory's, as messages about checkpoints have it."""
    return f"{path.parent.name}/{path.name}"
