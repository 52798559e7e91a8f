"""This rank's heartbeat: a record in a small mapped file that the launcher reads. Costs no system call."""

import faulthandler
import mmap
import os
import sys
import time
from pathlib import Path

from lastgood.core import heartbeat
from lastgood.core.heartbeat import Heartbeat
from lastgood.core.layout import Env
from lastgood.runtime.imports import ImportsReport


class HeartbeatWriter:
    """Rewrites the record in place. Without a directory, or if it is gone, beats go nowhere."""

    def __init__(self, directory: str | None, rank: int) -> None:
        self._map: mmap.mmap | None = None
        self._sequence = 0
        self.total_steps = -1
        self.last_good_step = -1
        self._imports = ImportsReport(directory, rank, is_wanted=os.environ.get(Env.STANDBY) == "1")
        if directory is None:
            return
        try:
            fd = os.open(Path(directory) / heartbeat.heartbeat_file(rank), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                # A disk that is full has to refuse it now, not by a SIGBUS at the first beat.
                os.posix_fallocate(fd, 0, heartbeat.RECORD_BYTES)
                self._map = mmap.mmap(fd, heartbeat.RECORD_BYTES)
            finally:
                os.close(fd)
            # The launcher asks for stacks before it ends a job that stands still.
            faulthandler.register(heartbeat.STACK_SIGNAL, file=sys.stderr, all_threads=True)
        except (OSError, ValueError, AttributeError, RuntimeError):
            # A heartbeat that cannot be kept must not stop the job; the launcher then watches the output only.
            # (RuntimeError: there is no standard error to write stacks to.)
            self._map = None

    def beat(self, step: int, phase: str) -> None:
        if self._map is None:
            return
        self._sequence += 1
        self._map[:] = heartbeat.encode(
            Heartbeat(os.getpid(), step, self.total_steps, self.last_good_step, time.monotonic(), phase, self._sequence)
        )
        self._imports.at_step(step)

    def close(self) -> None:
        if self._map is not None:
            faulthandler.unregister(heartbeat.STACK_SIGNAL)
            self._map.close()
            self._map = None
