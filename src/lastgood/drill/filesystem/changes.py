"""What is changed on a disk, call by call, and who is killed right before which of them.

Flushes are left out: when a process is killed, what it has written stays, flushed or not.
"""

import fnmatch
import threading
import time
from pathlib import Path

import msgspec


class Change(msgspec.Struct, frozen=True):
    """One call that changes what others see. Paths are from where the disk is mounted."""

    at: float
    """Seconds since 1970."""
    operation: str
    """"create", "empty" (opening with O_TRUNC), "write", "truncate", "rename", "link", "unlink", "mkdir" or "rmdir"."""
    path: str
    other: str = ""
    """Of a rename or a link: the new name."""
    offset: int = 0
    size: int = 0
    """Bytes written, or the length that a file is cut to."""
    words: str = ""
    """Command line of who asks."""
    call: str = ""
    """Name of the system call, where strace has seen it."""
    nth_of_call: int = 0
    """Which of its thread's calls of that name, from 1."""


class ChangeLog:
    """Notes changes of paths that match; methods may be called by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._patterns: tuple[str, ...] | None = None
        self._changes: list[Change] = []
        self._words: dict[int, str] = {}
        self._killed_from = 0
        self._struck: Change | None = None

    def watch(self, patterns: tuple[str, ...], killed_from: int = 0) -> None:
        """From now on, note changes of these paths (globs in which * matches any text). Whoever asks for the
        `killed_from`-th of them, and for any after it, is to be killed; 0: nobody."""
        with self._lock:
            self._patterns, self._killed_from = patterns, killed_from
            self._changes.clear()
            self._struck = None

    def changes(self) -> list[Change]:
        with self._lock:
            return list(self._changes)

    def struck(self) -> Change | None:
        """The change before which somebody was killed."""
        with self._lock:
            return self._struck

    def is_deadly(
        self, pid: int, operation: str, path: str, *, other: str = "", offset: int = 0, size: int = 0
    ) -> bool:
        """Note a change that is asked for; True if whoever asks is to be killed in place of it."""
        with self._lock:
            if self._patterns is None or not any(
                fnmatch.fnmatchcase(name, pattern) for name in (path, other) if name for pattern in self._patterns
            ):
                return False
            change = Change(time.time(), operation, path, other, offset, size, self._words_of(pid))
            if self._killed_from and len(self._changes) + 1 >= self._killed_from:
                self._struck = self._struck or change
                return True
            self._changes.append(change)
            return False

    def _words_of(self, pid: int) -> str:
        if pid not in self._words:
            try:
                self._words[pid] = (
                    Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
            except OSError:
                return ""
        return self._words[pid]
