"""A program's changes on disk as strace sees them, where no file system of ours can be mounted.

strace counts the calls of each name for each thread by itself, and kills the first thread that comes to the n-th: that is
the right one in a program of one process. Which call it really was is read from its log.
"""

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import msgspec

from lastgood.drill.filesystem.changes import Change
from lastgood.trial.trial import Trial

CALLS = (
    *(
        "open",
        "openat",
        "openat2",
        "creat",
        "write",
        "pwrite64",
        "writev",
        "pwritev",
        "pwritev2",
        "ftruncate",
        "truncate",
    ),
    *("rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "unlink", "unlinkat"),
    *("mkdir", "mkdirat", "rmdir", "sendfile", "copy_file_range"),
)
_ENTRY = re.compile(r"(\d+)\s+(\d+\.\d+) (\w+)\((.*)$")
_KILLED = re.compile(r"(\d+)\s+\d+\.\d+ \+\+\+ killed by SIGKILL \+\+\+$")
_RESULT = re.compile(r"\)\s+= (-?\d+|\?)[^)]*$")
_DESCRIPTOR = re.compile(r"(?:AT_FDCWD|\d+)<([^>]*)>")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_NAMED = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"((?:[^"\\]|\\.)*)"')
_NUMBER_AT_END = re.compile(r", (\d+)[^,]*$")


def missing() -> str:
    return "" if shutil.which("strace") else "strace is not installed"


class _Entry(msgspec.Struct, frozen=True):
    thread: str
    at: float
    call: str
    nth: int
    """Of this name, by this thread, from 1."""
    text: str
    result: str
    """A number, "?" if it never returned, or empty if the log tells it elsewhere."""


class StraceEye:
    """Sees the changes below a directory of the trial's next start, and has it killed at one of them."""

    def __init__(self, trial: Trial, subject: Path, log: Path) -> None:
        self._trial = trial
        self._subject = subject
        self._log = log
        self._existing: frozenset[str] = frozenset()

    def __enter__(self) -> "StraceEye":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._trial.precede([])

    def watch(self) -> None:
        self._precede()

    def arm(self, change: Change, nth: int, patterns: tuple[str, ...]) -> None:
        """`nth` of the changes that match is counted by the other kind of eye: here the thread's own calls are."""
        self._precede("-e", f"inject={change.call}:signal=SIGKILL:when={change.nth_of_call}")

    def changes(self) -> list[Change]:
        return changes_in(self._text(), self._subject, self._trial.place.work, self._existing)

    def struck(self) -> Change | None:
        return struck_in(self._text(), self._subject, self._trial.place.work, self._existing)

    def _precede(self, *options: str) -> None:
        self._existing = frozenset(
            os.path.relpath(os.path.join(at, name), self._subject)
            for at, _, names in os.walk(self._subject)
            for name in names
        )
        self._log.unlink(missing_ok=True)
        trace = f"trace={','.join('?' + name for name in CALLS)}"
        self._trial.precede(
            ["strace", "-f", "-qq", "-y", "-ttt", "-s", "0", "-o", str(self._log), "-e", trace, *options]
        )

    def _text(self) -> str:
        try:
            return self._log.read_text(errors="replace")
        except OSError:
            return ""


def changes_in(text: str, root: Path, work: Path, existing: frozenset[str]) -> list[Change]:
    """The changes below `root` of a log, in its order. Relative names are from `work`. Pure."""
    return _follow(text, root, work, set(existing))


def _follow(text: str, root: Path, work: Path, known: set[str]) -> list[Change]:
    """`known` are the files that there are: those at the beginning, and then those at the end."""
    found = []
    for entry in _entries(text):
        if not entry.result.startswith("-") and entry.result != "?":
            change = _change(entry, root, work, known)
            if change is not None:
                found.append(change)
                if change.operation in ("rename", "unlink"):
                    known.discard(change.path)
                if change.operation != "unlink":
                    known.add(change.other or change.path)
    return found


def struck_in(text: str, root: Path, work: Path, existing: frozenset[str]) -> Change | None:
    """The change that a killed thread had asked for and did not get. Pure."""
    killed = next((match[1] for line in text.splitlines() if (match := _KILLED.match(line))), None)
    last = [entry for entry in _entries(text) if entry.thread == killed][-1:]
    if not last or last[0].result not in ("?", ""):
        return None
    known = set(existing)
    _follow(text, root, work, known)
    return _change(last[0], root, work, known)


def _entries(text: str) -> Iterator[_Entry]:
    seen: Counter[tuple[str, str]] = Counter()
    for line in text.splitlines():
        if match := _ENTRY.match(line):
            thread, at, call, rest = match.groups()
            seen[thread, call] += 1
            result = _RESULT.search(rest)
            yield _Entry(thread, float(at), call, seen[thread, call], rest, result[1] if result else "")


def _change(entry: _Entry, root: Path, work: Path, known: set[str]) -> Change | None:
    """None for what changes nothing below `root`."""
    named = [os.path.join(base or work, name) for base, name in _NAMED.findall(entry.text)]
    descriptor = _DESCRIPTOR.match(entry.text)
    if entry.call in ("write", "pwrite64", "writev", "pwritev", "pwritev2", "ftruncate", "sendfile", "copy_file_range"):
        if entry.call == "copy_file_range":
            descriptor = _DESCRIPTOR.search(entry.text, entry.text.find(">") + 1)
        named = [descriptor[1]] if descriptor else []
    paths = [os.path.relpath(path, root) for path in named]
    if entry.call.startswith("symlink"):
        # The first is what it says, the second where it is.
        paths = paths[1:]
    if not paths or all(path.startswith("..") for path in paths):
        return None
    path, other = paths[0], paths[1] if len(paths) > 1 else ""
    operation = _operation(entry, path in known)
    if not operation:
        return None
    size = int(entry.result) if operation == "write" and entry.result.isdigit() else 0
    if (
        operation in ("write", "truncate")
        and not size
        and (number := _NUMBER_AT_END.search(entry.text.partition(")")[0]))
    ):
        size = int(number[1])
    return Change(entry.at, operation, path, other, size=size, call=entry.call, nth_of_call=entry.nth)


def _operation(entry: _Entry, is_known: bool) -> str:
    call = entry.call
    if call in ("open", "openat", "openat2", "creat"):
        if is_known:
            return "empty" if "O_TRUNC" in entry.text or call == "creat" else ""
        return "create" if "O_CREAT" in entry.text or call == "creat" else ""
    if "write" in call or call in ("sendfile", "copy_file_range"):
        return "write"
    if call == "unlinkat" and "AT_REMOVEDIR" in entry.text:
        return "rmdir"
    names = ("truncate", "rename", "symlink", "link", "unlink", "mkdir", "rmdir")
    found = next((name for name in names if call.removeprefix("f").startswith(name)), "")
    return "link" if found == "symlink" else found
