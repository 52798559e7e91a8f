"""The command's output on its way to ours, to the job's log, and to the end that is kept as evidence.

One thread, no blocking: what our own reader does not take yet is held back (and so, in the end, is the
command, exactly as if it wrote there itself), while signals and hangs are still attended to.
"""

import contextlib
import errno
import os
import select
import time
from pathlib import Path

from lastgood.store.durable import AppendFile

TAIL_BYTES = 64 * 1024
_CHUNK_BYTES = 64 * 1024
_PENDING_BYTES = 256 * 1024
_PIPE_BUF = 4096
"""A pipe that is ready for writing takes this much without blocking (POSIX: at least 512; Linux: 4096)."""

ERASE_LINE = b"\r\x1b[K"


def reserve_standard_descriptors() -> None:
    """Make sure that descriptors 0 to 2 are taken, by /dev/null where our parent closed them.

    Otherwise the next file that is opened (the lock, the log) gets such a number and receives the output.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


class JobLog:
    """log.txt of a job: appended, never a reason to stop. Trouble is kept until somebody asks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: AppendFile | None = None
        self._failure: OSError | None = None
        self._is_told = False

    def write(self, data: bytes) -> None:
        try:
            if self._file is None:
                self._file = AppendFile(self.path)
            self._file.append(data)
        except OSError as error:
            self._failure = self._failure or error

    def take_complaint(self) -> str:
        """Why output is missing from the log, once; empty if none is."""
        if self._failure is None or self._is_told:
            return ""
        self._is_told = True
        return f"{self.path} cannot be written: {self._failure.strerror}; the job carries on, its log has a hole"

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class _Sink:
    """One of our own two outputs."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.pending = bytearray()
        self.is_open = True
        self.is_terminal = os.isatty(fd)

    def write_some(self) -> None:
        try:
            del self.pending[: os.write(self.fd, self.pending[:_PIPE_BUF])]
        except BlockingIOError:
            return
        except OSError as error:
            # A full disk behind our output may have room later; a reader that is gone is gone for good.
            self.is_open = error.errno in (errno.ENOSPC, errno.EDQUOT)
            self.pending.clear()


class Console:
    """Writes the command's output, our own messages, and on a terminal one status line at the bottom."""

    def __init__(self, log: JobLog, *, is_quiet: bool = False, out_fd: int = 1, err_fd: int = 2) -> None:
        self.log = log
        self.is_quiet = is_quiet
        self.tail = bytearray()
        self.last_output_at = time.monotonic()
        self._sinks = {out_fd: _Sink(out_fd), err_fd: _Sink(err_fd)}
        self._err = self._sinks[err_fd]
        self._sources: dict[int, _Sink] = {}
        self._out_fd, self._err_fd = out_fd, err_fd
        self._wanted_status = b""
        self._is_status_shown = False
        self._is_at_line_start = True

    @property
    def is_terminal(self) -> bool:
        return self._err.is_terminal

    @property
    def width(self) -> int:
        """Columns for the status line; one less than the terminal has, so that it never wraps."""
        try:
            columns = os.get_terminal_size(self._err_fd).columns
        except OSError:
            columns = 0
        # Some terminals (in containers, over serial lines) do not know their size and say 0.
        return (columns or 80) - 1

    def attach(self, stdout: int, stderr: int) -> None:
        """Take over the reading ends of a command's two pipes; they are closed here at their end."""
        self._sources = {stdout: self._sinks[self._out_fd], stderr: self._sinks[self._err_fd]}
        self.tail.clear()
        self.last_output_at = time.monotonic()

    def detach(self) -> None:
        """Close what is left of the command's pipes."""
        for fd in list(self._sources):
            self._close_source(fd)

    def say(self, text: str, *, is_important: bool = False) -> None:
        """A message of our own, to standard error and the log; important ones also when quiet."""
        data = b"".join(
            (b"lastgood: " if i == 0 else b"lastgood:   ") + line.encode("utf-8", "backslashreplace") + b"\n"
            for i, line in enumerate(text.split("\n"))
        )
        self._finish_line()
        self.log.write(data)
        if is_important or not self.is_quiet:
            if not self._is_at_line_start:
                data = b"\n" + data
            self._put(self._err, data)

    def _finish_line(self) -> None:
        """A program may write a line in pieces: the rest of it is often there in a moment."""
        for _ in range(5):
            if self._is_at_line_start or not self._sources:
                return
            self.wait(0.01)

    def show_status(self, line: str) -> None:
        """Draw the status line anew as soon as it does not cut into other output; only on a terminal."""
        if self.is_terminal and not self.is_quiet:
            self._wanted_status = line.encode("utf-8", "replace")

    def _draw_status(self) -> None:
        if self._wanted_status and self._is_at_line_start and not any(sink.pending for sink in self._sinks.values()):
            self._err.pending += ERASE_LINE + self._wanted_status
            self._wanted_status = b""
            self._is_status_shown = True

    def clear_status(self) -> None:
        self._wanted_status = b""
        if self._is_status_shown:
            self._err.pending += ERASE_LINE
            self._is_status_shown = False

    def wait(self, timeout_s: float, wake_fd: int | None = None) -> None:
        """Move output for at most `timeout_s`, less if `wake_fd` becomes readable or something was moved."""
        self._draw_status()
        poll = select.poll()
        if wake_fd is not None:
            poll.register(wake_fd, select.POLLIN)
        for fd, sink in self._sources.items():
            if len(sink.pending) < _PENDING_BYTES:
                poll.register(fd, select.POLLIN)
        for sink in self._sinks.values():
            if sink.pending and sink.is_open:
                poll.register(sink.fd, select.POLLOUT)
        for fd, _ in poll.poll(max(timeout_s, 0.0) * 1000):
            if fd in self._sources:
                self._read(fd)
            elif fd in self._sinks:
                self._sinks[fd].write_some()

    def close(self) -> None:
        """Write out what is held back, within a limit, and close the log."""
        self.clear_status()
        self.drain(5.0)
        self.log.close()

    def drain(self, limit_s: float) -> None:
        """Move what is left, until all is written or the limit is reached."""
        end = time.monotonic() + limit_s
        while (self._sources or any(s.pending and s.is_open for s in self._sinks.values())) and (
            left := end - time.monotonic()
        ) > 0:
            self.wait(left)

    def _read(self, fd: int) -> None:
        try:
            data = os.read(fd, _CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close_source(fd)
            return
        self.last_output_at = time.monotonic()
        self.log.write(data)
        self.tail += data
        del self.tail[:-TAIL_BYTES]
        self._put(self._sources[fd], data)

    def _put(self, sink: _Sink, data: bytes) -> None:
        if not sink.is_open:
            return
        if sink.is_terminal or sink is self._err:
            if self._is_status_shown and sink.is_terminal:
                sink.pending += ERASE_LINE
                self._is_status_shown = False
            self._is_at_line_start = data.endswith(b"\n")
        sink.pending += data

    def _close_source(self, fd: int) -> None:
        del self._sources[fd]
        with contextlib.suppress(OSError):
            os.close(fd)
