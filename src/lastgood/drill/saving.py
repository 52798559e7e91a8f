"""Which of a program's changes on disk are its save, and what each of them is in words. Pure."""

import fnmatch
import re
from collections.abc import Callable, Sequence

from lastgood.core.units import byte_size
from lastgood.drill.filesystem.changes import Change

_VARYING = re.compile(r"[0-9a-f]{8,}|\d+")


def pattern_of(path: str) -> str:
    """A glob for this path at other saves: numbers and random tokens vary.

    >>> pattern_of("out/step-120/model.pt"), pattern_of("rank-00000.json.0123456789abcdef.part")
    ('out/step-[0-9]*/model.pt', 'rank-[0-9]*.json.[0-9a-f]*.part')
    """
    return _VARYING.sub(_any_such, re.sub(r"([\[?*])", "?", path))


def _any_such(varying: re.Match[str]) -> str:
    """A star alone would also match names that have a word in place of the number."""
    return "[0-9]*" if varying[0].isdigit() else "[0-9a-f]*"


def is_under(pattern: str) -> Callable[[str], bool]:
    """Whether a path matches the glob, or lies below something that does.

    >>> [is_under("out/step-*")(path) for path in ("out/step-1/a/b", "out/step-1", "out/log")]
    [True, True, False]
    """
    parts = pattern.split("/")

    def matches(path: str) -> bool:
        names = path.split("/")
        return len(names) >= len(parts) and all(map(fnmatch.fnmatchcase, names, parts))

    return matches


def changes_of_saves(changes: Sequence[Change], is_checkpoint: Callable[[str], bool]) -> list[Change]:
    """Those of checkpoints, of the files that become one by a new name, and of the directories in which they are made."""
    names = {name for change in changes for name in (change.path, change.other) if name and is_checkpoint(name)}
    for change in reversed(changes):
        if change.operation in ("rename", "link") and (change.other in names or change.path in names):
            names |= {change.path, change.other}
    homes = {name.rpartition("/")[0] for name in names}
    # A directory that is filled under another name, and renamed when it is complete.
    moved = tuple(f"{c.path}/" for c in changes if c.operation == "rename" and (c.other in names or c.other in homes))
    return [
        change
        for change in changes
        if change.path in names
        or change.other in names
        or (change.operation in ("mkdir", "rmdir") and change.path in homes)
        or change.path.startswith(moved or ("\0",))
    ]


def patterns_of(changes: Sequence[Change]) -> tuple[str, ...]:
    """Globs that match these changes, and those of the next saves."""
    return tuple(sorted({pattern_of(name) for change in changes for name in (change.path, change.other) if name}))


def matches_any(patterns: Sequence[str], change: Change) -> bool:
    return any(
        fnmatch.fnmatchcase(name, pattern) for name in (change.path, change.other) if name for pattern in patterns
    )


def shape_of(change: Change) -> tuple[str, str, str]:
    """The same for the same call in another run."""
    return change.operation, pattern_of(change.path), pattern_of(change.other)


def first_save(changes: Sequence[Change]) -> tuple[int, list[Change]]:
    """(how many come before it, the changes of the first save): up to where a save begins as it did, after the longest
    pause if there are several such places (files of one save that differ by a number)."""
    begin = next((i for i, change in enumerate(changes) if change.operation not in ("unlink", "rmdir")), len(changes))
    if not any(change.operation == "write" for change in changes[begin:]):
        return 0, []
    again = [i for i in range(begin + 1, len(changes)) if shape_of(changes[i]) == shape_of(changes[begin])]
    end = max(again, key=lambda i: changes[i].at - changes[i - 1].at, default=len(changes))
    return begin, list(changes[begin:end])


def spread(count: int, wanted: int) -> list[int]:
    """Indices: the first, the last, and others at even distances between them; all if no number is wanted.

    >>> spread(10, 4), spread(3, 12), spread(5, 0)
    ([0, 3, 6, 9], [0, 1, 2], [0, 1, 2, 3, 4])
    """
    if not 0 < wanted < count:
        return list(range(count))
    if wanted == 1:
        return [0]
    return [round(i * (count - 1) / (wanted - 1)) for i in range(wanted)]


def describe(save: Sequence[Change], i: int) -> str:
    """Where a kill right before the i-th change of a save leaves the disk."""
    before = f"before {_doing(save, i)}"
    return before if i == 0 else f"after {_doing(save, i - 1)}, {before}"


def _doing(save: Sequence[Change], i: int) -> str:
    change = save[i]
    name, other = _short(change.path), _short(change.other)
    match change.operation:
        case "create":
            return f"creating {name}"
        case "empty":
            return f"emptying {name} (opened to be written anew)"
        case "write":
            same = [n for n in range(i + 1) if save[n].operation == "write" and save[n].path == change.path]
            # strace does not see at which offset.
            where = "" if change.call else f" at {change.offset}"
            return f"write {len(same)} of {name} ({byte_size(change.size)}{where})"
        case "truncate":
            return f"cutting {name} to {byte_size(change.size)}"
        case "rename":
            return f"renaming {name} to {other}"
        case "link":
            return f"linking {name} as {other}"
        case "unlink":
            return f"deleting {name}"
        case "mkdir":
            return f"making directory {name}"
        case _:
            return f"{change.operation} of {name}"


def _short(path: str) -> str:
    """The last two parts: enough to tell files of one checkpoint apart."""
    return "/".join(path.split("/")[-2:])
