"""Which files there are to audit: those named, and in directories those that look like jobs."""

import fnmatch
import os
import stat
from collections.abc import Iterator, Sequence

import msgspec

from lastgood.audit.finding import Problem
from lastgood.audit.recognise import begins_like_one, is_named_like_one, may_be_one

SKIPPED = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", ".tox", ".nox", "node_modules", "__pycache__", "site-packages"}
)
_HEAD_BYTES = 4096


class Candidate(msgspec.Struct, frozen=True):
    path: str
    is_named: bool
    """The user named this very file; not found in a directory."""
    directory: str = ""
    """Where it was found."""


class Found(msgspec.Struct):
    candidates: list[Candidate]
    problems: list[Problem]
    directories: list[str] = []
    """Those in which something should be found; not where all of it was found before."""


def discover(paths: Sequence[str], excluded: Sequence[str] = ()) -> Found:
    """In the order of the paths, files of a directory by name; each file once, however many names it has."""
    found = Found([], [])
    seen: set[tuple[int, int]] = set()
    for path in paths:
        try:
            is_directory = os.path.isdir(path)
        except ValueError:
            is_directory = False
        if not is_directory:
            if _is_new(path, seen):
                found.candidates.append(Candidate(path, is_named=True))
            continue
        files = list(_walk(path, excluded, found.problems))
        new = [file for file in files if _is_new(file, seen)]
        found.candidates += [Candidate(file, is_named=False, directory=path) for file in new]
        if new or not files:
            found.directories.append(path)
    return found


def _is_new(path: str, seen: set[tuple[int, int]]) -> bool:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        # Reading it will say what is wrong with it.
        return True
    identity = (status.st_dev, status.st_ino)
    is_new = identity not in seen
    seen.add(identity)
    return is_new


def _walk(top: str, excluded: Sequence[str], problems: list[Problem]) -> Iterator[str]:
    def note(error: OSError) -> None:
        problems.append(Problem(path=error.filename or top, message=f"cannot look into it: {error.strerror}"))

    for directory, names, files in os.walk(top, onerror=note):
        names[:] = sorted(name for name in names if not _is_skipped(directory, name, excluded))
        for name in sorted(files):
            path = os.path.join(directory, name)
            if not _is_excluded(path, name, excluded) and _looks_like_one(path, name):
                yield path


def _is_skipped(directory: str, name: str, excluded: Sequence[str]) -> bool:
    path = os.path.join(directory, name)
    return name in SKIPPED or _is_excluded(path, name, excluded) or os.path.exists(os.path.join(path, "pyvenv.cfg"))


def _is_excluded(path: str, name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(path, pattern) for pattern in patterns)


def _looks_like_one(path: str, name: str) -> bool:
    """By name, or by its first bytes. What cannot be opened is passed over: nobody asked for it."""
    if is_named_like_one(name):
        return os.path.isfile(path)
    if not may_be_one(name):
        return False
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return stat.S_ISREG(os.fstat(fd).st_mode) and begins_like_one(os.read(fd, _HEAD_BYTES))
    except OSError:
        return False
    finally:
        os.close(fd)
