"""A disk as a value: what was asked of it, and what can be left of that after a power cut. Pure.

The rules are POSIX's, with nothing that a particular file system adds: data of a file is durable after
an fsync of that file; names in a directory (create, link, rename, unlink, mkdir, rmdir) after an fsync of
that directory. Of everything else any part may have reached the disk, each operation by itself. A rename
within one directory is one operation; a rename across directories is two.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

ROOT = 1

Fate = Literal["whole", "lost", "zeros", "torn"]
"""Of an operation at a power cut. A write can also leave zeros of its length, or its first half."""


class Write(NamedTuple):
    inode: int
    offset: int
    data: bytes


class Truncate(NamedTuple):
    inode: int
    size: int


class Names(NamedTuple):
    """Changes in one directory that happen together: for each name the inode that it leads to, or None."""

    inode: int
    changes: tuple[tuple[str, int | None], ...]
    is_directory: bool = False
    """The inodes that are named here are directories."""


class Flush(NamedTuple):
    inode: int


class Note(NamedTuple):
    """No operation: something that the program said between operations."""

    text: str


Operation = Write | Truncate | Names | Flush | Note


@dataclass
class Disk:
    """Files as bytes and directories as tables of names, by inode number."""

    files: dict[int, bytearray] = field(default_factory=dict)
    directories: dict[int, dict[str, int]] = field(default_factory=lambda: {ROOT: {}})

    def copy(self) -> "Disk":
        return Disk({i: bytearray(f) for i, f in self.files.items()}, {i: dict(d) for i, d in self.directories.items()})

    def apply(self, operation: Operation, fate: Fate = "whole") -> None:
        if fate == "lost":
            return
        match operation:
            case Write(inode, offset, data):
                if fate == "torn":
                    data = data[: len(data) // 2]
                if fate == "zeros":
                    data = bytes(len(data))
                content = self.files.setdefault(inode, bytearray())
                content.extend(bytes(max(0, offset - len(content))))
                content[offset : offset + len(data)] = data
            case Truncate(inode, size):
                content = self.files.setdefault(inode, bytearray())
                del content[size:]
                content.extend(bytes(size - len(content)))
            case Names(inode, changes, is_directory):
                names = self.directories.setdefault(inode, {})
                for name, target in changes:
                    if target is None:
                        names.pop(name, None)
                        continue
                    names[name] = target
                    if is_directory:
                        self.directories.setdefault(target, {})
                    else:
                        self.files.setdefault(target, bytearray())

    def tree(self, at: int = ROOT, prefix: str = "") -> dict[str, bytes | None]:
        """Paths with their contents; None for a directory."""
        found: dict[str, bytes | None] = {}
        for name, inode in sorted(self.directories.get(at, {}).items()):
            path = prefix + name
            if inode in self.directories:
                found[path] = None
                found |= self.tree(inode, path + "/")
            else:
                found[path] = bytes(self.files.get(inode, b""))
        return found


def put_on_disk(tree: dict[str, bytes | None], directory: Path) -> None:
    """Make a tree real, in an empty directory."""
    for path, content in tree.items():
        if content is None:
            (directory / path).mkdir()
        else:
            (directory / path).write_bytes(content)


Choose = Callable[[Operation], Fate]


def after_power_cut(before: Disk, log: Iterable[Operation], choose: Choose) -> Disk:
    """What a disk holds after its power failed at the end of `log`.

    `before` was durable when the log began. `choose` decides about each operation that was not flushed.
    """
    operations = list(log)
    flushed_from: set[int] = set()
    is_durable = [False] * len(operations)
    for at in range(len(operations) - 1, -1, -1):
        operation = operations[at]
        if isinstance(operation, Flush):
            flushed_from.add(operation.inode)
        elif not isinstance(operation, Note):
            is_durable[at] = operation.inode in flushed_from
    disk = before.copy()
    for operation, durable in zip(operations, is_durable, strict=True):
        if not isinstance(operation, Flush | Note):
            disk.apply(operation, "whole" if durable else choose(operation))
    return disk


def policies(seeds: int) -> dict[str, Choose]:
    """The extremes, and as many random mixtures as asked for."""
    chosen: dict[str, Choose] = {
        "nothing survives": lambda o: "lost",
        "everything survives": lambda o: "whole",
        "only names survive": lambda o: "whole" if isinstance(o, Names) else "lost",
        "names and sizes survive": lambda o: "whole" if isinstance(o, Names | Truncate) else "zeros",
        "only data survives": lambda o: "lost" if isinstance(o, Names) else "whole",
        "only new names survive": lambda o: "lost" if _is_removal(o) else "whole",
        "only removals survive": lambda o: "whole" if _is_removal(o) else "lost",
    }
    for seed in range(seeds):
        chosen[f"seed {seed}"] = _random(seed)
    return chosen


def _is_removal(operation: Operation) -> bool:
    return isinstance(operation, Names) and all(target is None for _, target in operation.changes)


def _random(seed: int) -> Choose:
    choice = random.Random(seed)
    share = choice.choice([0.2, 0.5, 0.8])

    def choose(operation: Operation) -> Fate:
        if choice.random() > share:
            return "lost"
        return choice.choice(["whole", "torn", "zeros"]) if isinstance(operation, Write) else "whole"

    return choose
