"""The keeper of a job under a launcher: started before the command, replaced if it dies, let go at the end."""

import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from lastgood.core.units import duration
from lastgood.keeper.client import Keeper, NoKeeperError
from lastgood.keeper.starting import linger_s, start_keeper
from lastgood.store.jobdir import JobDirectory

WRITE_LIMIT_S = 600.0
"""How long a start waits for what is still to be written; then it begins with an older checkpoint."""

_CONNECT_S = 0.5
_PATIENCE_S = 15.0
_LEAVE_S = 10.0
_REPLACEMENTS = 20
"""Keepers that are started in one launch; more deaths have a cause that another one does not mend."""


class Household(Protocol):
    """Who has children, and must tell those of the command from others."""

    def note_stranger(self, pid: int) -> None:
        """This one is not the command's."""


class Notes(Protocol):
    """A journal."""

    def write(self, kind: str, **data: Any) -> None:
        """Note what has happened."""


class Memory(Protocol):
    """What holds snapshots in memory for the next attempt: the keeper of this node, or of every node."""

    def start(self) -> None:
        """Before the command starts: be there."""

    def look(self, household: Household, notes: Notes) -> None:
        """Replace what has died. Called now and then while the command runs."""

    def await_written(self, may_wait: Callable[[], bool]) -> None:
        """Let all be written and committed that the command has left, as long as `may_wait()`."""

    def await_promoted(self, may_wait: Callable[[], bool]) -> None:
        """Let all be promoted that is staged, as long as `may_wait()`."""

    def close(self) -> None:
        """Let go: what is held is not needed again."""


class KeeperHold:
    """Holds the keeper: it lives as long as the launcher does, and while it has something to write."""

    def __init__(self, job: JobDirectory, environment: Mapping[str, str], say: Callable[[str], None]) -> None:
        self._job = job
        self._environment = environment
        self._say = say
        self._process: subprocess.Popen[bytes] | None = None
        self._link: Keeper | None = None
        self._starts = 0
        self._is_missing = False

    def start(self) -> None:
        """Before the command starts: have one."""
        if not self._starts:
            self._start()

    def _start(self) -> None:
        self._starts += 1
        try:
            self._process = start_keeper(self._job, linger_s(self._environment), self._environment, is_detached=False)
        except OSError as error:
            self._is_missing = True
            self._say(f"note: no keeper ({error}): the loop stands still while a checkpoint is written")

    @property
    def pid(self) -> int:
        """The keeper's process; 0 if none answers."""
        return self._link.pid if not self._is_missing and self._connect(_LEAVE_S) and self._link is not None else 0

    def look(self, household: Household, notes: Notes) -> None:
        """Hold on to it; start another one if it has died. Called now and then while the command runs."""
        if self._is_missing:
            return
        if self._link is None:
            self._connect()
            return
        try:
            self._link.events()
        except OSError as error:
            pid = self._link.pid
            self._link.close()
            self._link = None
            self._is_missing = self._starts >= _REPLACEMENTS
            notes.write("keeper_lost", pid=pid, error=str(error))
            self._say(f"the keeper (process {pid}) has ended" + ("" if self._is_missing else "; starting another one"))
            if not self._is_missing:
                self._start()
                if self._process is not None:
                    household.note_stranger(self._process.pid)

    def await_written(self, may_wait: Callable[[], bool]) -> None:
        """Let it write and commit what the command has left, as long as `may_wait()`: another attempt that begins
        before that would find an older checkpoint."""
        self._await(may_wait, "a snapshot", "written", is_last=False)

    def await_promoted(self, may_wait: Callable[[], bool]) -> None:
        """Let it promote what is staged, as long as `may_wait()`: the next attempt may run on another node."""
        self._await(may_wait, "a checkpoint", "promoted", is_last=True)

    def _await(self, may_wait: Callable[[], bool], what: str, done: str, *, is_last: bool) -> None:
        began = told_at = time.monotonic()
        if self._is_missing or not self._connect(_LEAVE_S):
            return
        while may_wait() and time.monotonic() - began < WRITE_LIMIT_S:
            assert self._link is not None
            try:
                self._link.drain(_CONNECT_S, is_last=is_last)
                return
            except TimeoutError:
                if time.monotonic() - told_at >= _PATIENCE_S:
                    if not self._link.answers():
                        self._say(f"the keeper (process {self._link.pid}) does not answer; going on without it")
                        self._is_missing = True
                        return
                    told_at = time.monotonic()
                    self._say(f"waiting for {what} to be {done}, {duration(told_at - began)} so far")
            except OSError:
                return
        self._say(f"{what} is still being {done}; going on without it")

    def _connect(self, limit_s: float = _CONNECT_S) -> bool:
        if self._link is None:
            with suppress(NoKeeperError):
                self._link = Keeper(self._job, limit_s=limit_s)
        return self._link is not None

    def give_up_rest(self, reason: str) -> None:
        """Parts that are not there by now will not come: the other nodes have nothing left to write."""
        if self._link is not None:
            with suppress(OSError):
                self._link.give_up_rest(reason)

    def leave(self) -> None:
        """Let go of it without a word, and wait for its end: it holds what it has, for a while, for whoever comes."""
        if self._link is not None:
            self._link.close()
            self._link = None
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(linger_s(self._environment) + WRITE_LIMIT_S)

    def close(self) -> None:
        """Let go of it: it ends as soon as all is written."""
        if self._connect() and self._link is not None:
            self._link.bye()
            self._link = None
        if self._process is not None:
            # One that has not come as far as to answer has nothing to write.
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_LEAVE_S)
