"""Being told at once when something happens in a directory (Linux's inotify): polling would miss a save of a millisecond."""

import ctypes
import os
import select

_libc = ctypes.CDLL(None, use_errno=True)
_OPENED_CHANGED_OR_MADE = 0x20 | 0x2 | 0x100
_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK


class DirectoryEvents:
    """Says when a file in one of the directories is opened, made or written to. Directories below them are not watched."""

    def __init__(self, directories: list[str]) -> None:
        self._fd = _libc.inotify_init1(_FLAGS)
        self.is_watching = False
        """False where the kernel gives no more watches, or there is no such directory yet."""
        if self._fd < 0:
            return
        for directory in directories:
            watch = _libc.inotify_add_watch(self._fd, os.fsencode(directory), _OPENED_CHANGED_OR_MADE)
            self.is_watching = watch >= 0 or self.is_watching

    def wait(self, limit_s: float) -> bool:
        """Whether something happened within the limit, or before and was not asked for yet."""
        ready, _, _ = select.select([self._fd], [], [], max(limit_s, 0.0))
        if ready:
            self.forget()
        return bool(ready)

    def forget(self) -> None:
        """What has happened until now."""
        try:
            while os.read(self._fd, 65536):
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
