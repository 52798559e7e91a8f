"""The launcher's hands on one node of an allocation: holds the keeper there, relays heartbeats, delivers signals.

Started by `launch.agents`, once per node and in a step of its own, because everything in the step of the command ends
with it. It lives until the launcher lets go of it, or is gone.
"""

import argparse
import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import psutil

import lastgood
from lastgood.core.errors import LastgoodError
from lastgood.core.heartbeat import STACK_SIGNAL, Heartbeat
from lastgood.core.signals import SIGKILL, SIGTERM
from lastgood.core.stopping import Manner
from lastgood.keeper.node import agent_file, this_node
from lastgood.keeper.starting import may_use_keeper
from lastgood.launch import agent_talk
from lastgood.launch.agent_talk import MAX_LINE_BYTES, Answer, Beats, Begin, Lines, line_of
from lastgood.launch.heartbeats import HeldDirectory, read_heartbeats, share_directory
from lastgood.launch.keeping import KeeperHold
from lastgood.launch.members import Members
from lastgood.launch.process import catches
from lastgood.store.jobdir import JobDirectory, open_job

_TURN_S = 0.25
_ALIVE_S = 2.0
"""How often the launcher hears from us if there is nothing to say."""

_SUCCESSOR_S = 30.0
"""How long a launcher that lives takes at most to start another agent in our place."""

_NOT_FOR_US = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class Agent:
    """Serves the launcher until it says that it needs us no longer, or is gone."""

    def __init__(self, path: Path, job_id: str, read_fd: int = 0, write_fd: int = 1) -> None:
        self._node = this_node()
        self._read_fd, self._write_fd = read_fd, write_fd
        self._lines = Lines()
        self._signals: list[int] = []
        self._job = _open(path, job_id)
        self._hold: KeeperHold | None = None
        if self._job is not None and may_use_keeper(os.environ):
            self._hold = KeeperHold(self._job, dict(os.environ), self._tell)
        self._begin: Begin | None = None
        self._members: Members | None = None
        self._directory: HeldDirectory | None = None
        self._told: dict[int, tuple[int, int, bool]] = {}
        """Of each rank whose heartbeat the launcher has heard: its process, the number of the beat, whether it listens."""
        self._next_sign = 0.0
        self._is_wanted, self._is_orphan = True, False
        self._drains: list[agent_talk.Drain] = []
        self._is_draining = False

    def run(self) -> None:
        for number in _NOT_FOR_US:
            # Schedulers signal all steps of a job. What is to be done about it is the launcher's business.
            signal.signal(number, lambda number, _: self._signals.append(number))
        if self._hold is not None:
            self._hold.start()
        keeper = 0 if self._hold is None else self._hold.pid
        self._say(
            agent_talk.Ready(
                self._node, os.getpid(), lastgood.__version__, sees_job=self._job is not None, keeper=keeper
            )
        )
        while self._is_wanted:
            self._turn(_TURN_S)
            self._drain()
        if self._is_orphan:
            if self._await_successor():
                if self._directory is not None:
                    # The job may be over by now, and we the last on this host that holds it.
                    self._directory.close()
                return
            self._end_members()
        self._leave()

    # The launcher --------------------------------------------------------------------------------------------

    def _turn(self, limit_s: float) -> None:
        ready, _, _ = select.select([self._read_fd] if self._is_wanted else [], [], [], limit_s)
        if ready:
            self._listen()
        while self._signals:
            self._say(agent_talk.Signalled(self._node, self._signals.pop(0)))
        if self._hold is not None:
            self._hold.look(self, self)
        self._tell_beats()

    def _listen(self) -> None:
        try:
            data = os.read(self._read_fd, 64 * 1024)
        except OSError:
            data = b""
        if not data:
            self._is_wanted, self._is_orphan = False, True
        for line in self._lines.feed(data):
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                self._obey(msgspec.json.decode(line, type=agent_talk.Command))

    def _obey(self, command: agent_talk.Command) -> None:
        if isinstance(command, agent_talk.Begin):
            self._begin_attempt(command)
            self._done(command.id)
        elif isinstance(command, agent_talk.Deliver):
            self._done(command.id, self._deliver(command))
        elif isinstance(command, agent_talk.Stacks):
            self._done(command.id, self._ask_for_stacks())
        elif isinstance(command, agent_talk.Drain):
            self._drains.append(command)
        elif isinstance(command, agent_talk.GiveUpRest):
            if self._hold is not None:
                self._hold.give_up_rest("the ranks of other nodes have ended without it")
        elif isinstance(command, agent_talk.Over):
            self._end_attempt()
        else:
            self._is_wanted = False

    def _deliver(self, command: agent_talk.Deliver) -> int:
        if self._members is None:
            return 0
        return self._members.send(command.number, command.only_to, command.manner)

    def _say(self, answer: Answer) -> None:
        data = line_of(answer)
        try:
            while data:
                data = data[os.write(self._write_fd, data) :]
        except OSError:
            # Nobody hears us. That they are gone is seen where they are listened to.
            self._write_fd = os.open(os.devnull, os.O_WRONLY)

    def _tell(self, text: str) -> None:
        self._say(agent_talk.Told(self._node, agent_talk.shortened(text)))

    def _done(self, number: int, count: int = 0) -> None:
        self._say(agent_talk.Done(self._node, number, count))

    # For the hold of the keeper: we have no command of our own, and no journal -------------------------------

    def note_stranger(self, pid: int) -> None:
        """All our children are."""

    def write(self, kind: str, **data: Any) -> None:
        short = {name: agent_talk.shortened(v) if isinstance(v, str) else v for name, v in data.items()}
        self._say(agent_talk.Happened(self._node, kind, short))

    # The attempt ---------------------------------------------------------------------------------------------

    def _begin_attempt(self, begin: Begin) -> None:
        if self._begin is not None and (self._begin.launch, self._begin.attempt) == (begin.launch, begin.attempt):
            return
        self._end_attempt()
        self._begin = begin
        self._members = Members(begin.launch, begin.attempt)
        try:
            self._directory = share_directory(Path(begin.heartbeats))
            (self._directory.path / agent_file(self._node)).write_text(f"{os.getpid()}\n")
        except OSError as error:
            self._tell(f"no heartbeats from here: {error}")

    def _end_attempt(self) -> None:
        if self._directory is not None:
            if not self._is_replaced():
                with suppress(OSError):
                    (self._directory.path / agent_file(self._node)).unlink(missing_ok=True)
            self._directory.close()
        self._begin, self._members, self._directory = None, None, None
        self._told.clear()

    def _beats(self) -> dict[int, Heartbeat]:
        """Of the ranks on this node: others may share the host, and so the directory."""
        if self._directory is None or self._members is None:
            return {}
        found = read_heartbeats(self._directory.path)
        return {
            rank: beat
            for rank, beat in found.items()
            # One that has died is not asked for again.
            if self._told.get(rank, (0,))[0] == beat.pid or self._members.has(beat.pid)
        }

    def _tell_beats(self) -> None:
        now = time.monotonic()
        beats = self._beats()
        found = {rank: (beat.pid, beat.sequence, catches(beat.pid, STACK_SIGNAL)) for rank, beat in beats.items()}
        news = {rank: beats[rank] for rank, standing in found.items() if self._told.get(rank) != standing}
        if not news and now < self._next_sign:
            return
        self._next_sign = now + _ALIVE_S
        self._told |= found
        attempt = 0 if self._begin is None else self._begin.attempt
        lines: list[list[agent_talk.Beat]] = [[]]
        for rank, beat in sorted(news.items()):
            one = agent_talk.as_beat(rank, beat, now, listens=found[rank][2])
            if len(line_of(Beats(self._node, attempt, [*lines[-1], one]))) > MAX_LINE_BYTES:
                lines.append([])
            lines[-1].append(one)
        for line in lines:
            self._say(Beats(self._node, attempt, line))

    def _ask_for_stacks(self) -> int:
        count = 0
        for beat in self._beats().values():
            if catches(beat.pid, STACK_SIGNAL):
                with suppress(OSError):
                    os.kill(beat.pid, STACK_SIGNAL)
                    count += 1
        return count

    # The keeper ----------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        if self._is_draining:
            return
        self._is_draining = True
        while self._drains:
            drain = self._drains.pop(0)
            if self._hold is not None:
                wait = self._hold.await_promoted if drain.is_last else self._hold.await_written
                wait(self._may_wait)
            self._done(drain.id)
        self._is_draining = False

    def _may_wait(self) -> bool:
        """While the keeper is waited for, the launcher is attended to."""
        self._turn(0.0)
        return self._is_wanted

    # The end -------------------------------------------------------------------------------------------------

    def _await_successor(self) -> bool:
        """Nobody listens any more. Only our step may have ended, not the launcher: true if it sends another agent."""
        end = time.monotonic() + _SUCCESSOR_S
        while self._directory is not None and time.monotonic() < end:
            if self._is_replaced():
                return True
            time.sleep(_TURN_S)
        return False

    def _is_replaced(self) -> bool:
        with suppress(OSError, ValueError):
            path = Path(self._begin.heartbeats) if self._begin is not None else Path()
            return int((path / agent_file(self._node)).read_text()) != os.getpid()
        return False

    def _end_members(self) -> None:
        """The launcher is gone, and would have ended what it started: it saves, and stops."""
        if self._members is None or self._begin is None:
            return
        self._members.send(SIGTERM)
        end = time.monotonic() + self._begin.grace_s
        while (left := self._members.find()) and time.monotonic() < end:
            psutil.wait_procs(left, timeout=_TURN_S)
        self._members.send(SIGKILL, manner=Manner.AS_IS)

    def _leave(self) -> None:
        self._end_attempt()
        if self._hold is None:
            return
        if self._is_orphan:
            # Somebody may start the job again here: what is held is held for them, as long as that is usual.
            self._hold.await_written(lambda: True)
            self._hold.leave()
        else:
            self._hold.close()


def _open(path: Path, job_id: str) -> JobDirectory | None:
    """The job, if this node sees it where the launcher does."""
    try:
        job = open_job(path)
    except (LastgoodError, OSError):
        return None
    return job if job.id == job_id else None


def main() -> int:
    parser = argparse.ArgumentParser(prog="lastgood-agent", description="Started by `lastgood run`, not by people.")
    parser.add_argument("job", type=Path)
    parser.add_argument("id")
    arguments = parser.parse_args()
    Agent(arguments.job, arguments.id).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
