"""Finding files by a pattern without taking an unreadable directory for an empty one.

glob.glob passes over directories that it may not read, which would turn "cannot look" into "nothing there".
"""

import fnmatch
import os
from collections.abc import Iterator

import msgspec

from lastgood.core.errors import UsageError
from lastgood.core.numbering import is_temporary


class Match(msgspec.Struct, frozen=True):
    path: str
    open_part: str
    """The part of the path that the pattern leaves open, from its first wildcard on."""
    modified: float
    modified_ns: int
    size: int
    is_directory: bool


def find(pattern: str) -> list[Match]:
    """Everything that a pattern matches: `*`, `?` and `[...]` within a name, `**` for directories in between.

    A directory that does not exist holds nothing. Hidden and temporary names never match, unless the pattern
    spells them out. Raises OSError for what cannot be read.
    """
    base, rest = split_pattern(pattern)
    found = {}
    for path in _walk(base, rest):
        try:
            status = os.stat(path)
        except FileNotFoundError:
            # Deleted this very moment, or a link to nothing.
            continue
        open_part = path[len(base) :].lstrip("/") if base else path
        is_directory = os.path.isdir(path)
        found[path] = Match(path, open_part, status.st_mtime, status.st_mtime_ns, status.st_size, is_directory)
    return sorted(found.values(), key=lambda match: match.path)


def split_pattern(pattern: str) -> tuple[str, list[str]]:
    """The directory that a pattern begins in, and the names from its first wildcard on. Raises UsageError."""
    names = pattern.split("/")
    fixed = 0
    while fixed < len(names) - 1 and not _is_open(names[fixed]):
        fixed += 1
    rest = [name for name in names[fixed:] if name]
    if not rest:
        raise UsageError(f"the pattern {pattern} names no file", remedy="give a pattern such as 'out/*.pt'")
    base = "/".join(names[:fixed])
    return ("/" if fixed and not base else base), rest


def _walk(directory: str, names: list[str]) -> Iterator[str]:
    name, rest = names[0], names[1:]
    if name == "**":
        if rest:
            yield from _walk(directory, rest)
        for entry in _entries(directory):
            if entry.is_dir(follow_symlinks=False) and not is_temporary(entry.name):
                yield from _walk(os.path.join(directory, entry.name), names)
            elif not rest and not is_temporary(entry.name):
                yield os.path.join(directory, entry.name)
        return
    if not _is_open(name):
        path = os.path.join(directory, name)
        if rest:
            yield from _walk(path, rest)
        elif os.path.lexists(path):
            yield path
        return
    for entry in _entries(directory):
        is_asked_for = not is_temporary(entry.name) or is_temporary(name)
        if is_asked_for and fnmatch.fnmatchcase(entry.name, name):
            path = os.path.join(directory, entry.name)
            if not rest:
                yield path
            elif entry.is_dir():
                yield from _walk(path, rest)


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory or ".") as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        return []


def _is_open(name: str) -> bool:
    return any(character in name for character in "*?[")
