"""Results by path: files, directories of them, and jobs of ours, held against each other by relative name."""

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

import msgspec

from lastgood.core import layout
from lastgood.core.errors import LastgoodError, UsageError
from lastgood.prove.checkpoint_state import compare_jobs
from lastgood.prove.difference import Comparison, join, not_comparable, settled
from lastgood.prove.files import Rule, compare_files
from lastgood.prove.values import only_one
from lastgood.store.durable import explained

IGNORED = ("__pycache__", "*.pyc", ".git", ".nfs*", "*.pid", "*.lock", "*.sock")
"""What no program means as a result."""

_STAMP = re.compile(
    r"(?<!\d)(?:1[5-9]\d{8}|20\d{2}-?\d{2}-?\d{2}(?:[T_ -]?\d{2}[-:.]?\d{2}(?:[-:.]?\d{2})?)?)(?:\.\d+)?(?!\d)"
)
"""A date with or without a time, or seconds since 1970, in a name."""


class Expected(msgspec.Struct, frozen=True):
    """Something to be compared: a file, a directory, or a glob, from the directory in which the run worked."""

    pattern: str
    kind: str = ""
    """As in `Rule`."""


def compare_paths(
    left: Path,
    right: Path,
    rule: Rule = Rule(),  # noqa: B008
    *,
    ignore: Sequence[str] = (),
    where: str = "",
) -> Comparison:
    """Whether two files, two directories or two jobs hold the same; `left` is the undisturbed run's.

    `ignore` are globs of relative paths, or of names at any depth. Raises UsageError where neither is there.
    """
    kinds = [_kind(path) for path in (left, right)]
    if kinds == ["nothing", "nothing"]:
        raise UsageError(f"{where or left} was written by neither run", remedy="name a file that the command writes")
    if "nothing" in kinds:
        return only_one(where or left.name, is_left=kinds[0] != "nothing")
    if kinds[0] != kinds[1]:
        return not_comparable(f"{where or left.name} is {kinds[0]} in the undisturbed run, {kinds[1]} in the other")
    if kinds[0] == "a file":
        return compare_files(left, right, rule, where=where)
    if kinds[0] == "a job":
        return _compared_jobs(left, right, rule, where)
    if kinds[0] == "a directory":
        return _compare_directories(left, right, rule, tuple(ignore), where)
    return not_comparable(f"{where or left} is {kinds[0]}")


def compare_expected(
    left: Path,
    right: Path,
    expected: Sequence[Expected],
    rule: Rule = Rule(),  # noqa: B008
    *,
    ignore: Sequence[str] = (),
) -> Comparison:
    """Hold all that was declared as a result against each other, in the directories where two runs worked."""
    parts = []
    for one in expected:
        names = dict.fromkeys(name for root in (left, right) for name in _matching(root, one.pattern))
        if not names:
            parts.append(not_comparable(f"{one.pattern} was written by neither run"))
        of_kind = msgspec.structs.replace(rule, kind=one.kind or rule.kind)
        parts += [compare_paths(left / name, right / name, of_kind, ignore=ignore, where=name) for name in names]
    return settled(
        join(parts, "nothing was declared as a result"), "what was declared as a result is empty in both runs"
    )


def _matching(root: Path, pattern: str) -> list[str]:
    if not any(sign in pattern for sign in "*?["):
        return [pattern] if os.path.lexists(root / pattern) else []
    if os.path.isabs(pattern):
        raise UsageError(
            f"{pattern} is absolute: both runs would write it", remedy="name it from the working directory"
        )
    return sorted(path.relative_to(root).as_posix() for path in root.glob(pattern))


def _kind(path: Path) -> str:
    try:
        with explained("look at", path):
            status = path.stat()
    except LastgoodError:
        return "nothing"
    if stat.S_ISDIR(status.st_mode):
        return (
            "a job"
            if (path / layout.JOB_FILE).is_file() and (path / layout.CHECKPOINTS_DIR).is_dir()
            else "a directory"
        )
    return "a file" if stat.S_ISREG(status.st_mode) else "neither a file nor a directory"


def _compared_jobs(left: Path, right: Path, rule: Rule, where: str) -> Comparison:
    try:
        return compare_jobs(left, right, rule.tolerance, where=where)
    except LastgoodError as error:
        return not_comparable(f"{where or left.name}: {error.what}")


def _compare_directories(left: Path, right: Path, rule: Rule, ignore: tuple[str, ...], where: str) -> Comparison:
    trees = []
    for root in (left, right):
        with explained("look through", root):
            trees.append(dict(_walk(root, "", (*IGNORED, *ignore))))
    pairs = {name: (name, name) for name in trees[0] if name in trees[1]}
    pairs |= _pairs_by_stamp(trees[0].keys() - trees[1].keys(), trees[1].keys() - trees[0].keys())
    paired = {other for _, other in pairs.values()}
    parts = []
    for name in sorted(trees[0].keys() | (trees[1].keys() - paired)):
        place = f"{where}/{name}" if where else name
        if name in pairs:
            one, other = pairs[name]
            parts.append(compare_paths(left / one, right / other, rule, ignore=ignore, where=place))
            if one != other:
                parts.append(Comparison(kind="identical", compared=0, notes=(f"{one} is compared with {other}",)))
        else:
            parts.append(only_one(place, is_left=name in trees[0]))
    return join(parts, f"{where or left} is empty in both runs")


def _walk(root: Path, inside: str, ignore: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    """Files and jobs below, by relative name; what is neither a file nor a directory (pipes, sockets) is left out."""
    for entry in sorted(os.scandir(root / inside), key=lambda entry: entry.name):
        name = f"{inside}/{entry.name}" if inside else entry.name
        if any(fnmatch(name, pattern) or fnmatch(entry.name, pattern) for pattern in ignore):
            continue
        kind = _kind(root / name)
        if kind == "a directory" and not entry.is_symlink():
            yield from _walk(root, name, ignore)
        elif kind in ("a file", "a job"):
            yield name, root / name


def _pairs_by_stamp(left: set[str], right: set[str]) -> dict[str, tuple[str, str]]:
    """Names that differ in a date or a time alone, where it is clear which belongs to which."""
    plain = {name: _STAMP.sub("*", name) for name in left | right}
    counts = [Counter(plain[name] for name in names) for names in (left, right)]
    others = {plain[name]: name for name in right}
    return {
        name: (name, others[plain[name]])
        for name in left
        if "*" in plain[name] and counts[0][plain[name]] == 1 and counts[1][plain[name]] == 1
    }
