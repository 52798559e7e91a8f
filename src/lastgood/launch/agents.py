"""The launcher's side of the agents that it has on the nodes of an allocation."""

import os
import select
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from lastgood.core.heartbeat import Heartbeat
from lastgood.core.signals import SIGKILL, SIGTERM
from lastgood.core.stopping import LEFTOVER_GRACE_S, Manner
from lastgood.core.units import duration
from lastgood.launch import agent_talk
from lastgood.launch.agent_step import SRUN, AgentStep, Start, start_agents
from lastgood.launch.agent_talk import Answer, Begin
from lastgood.launch.keeping import WRITE_LIMIT_S, Household, KeeperHold, Notes
from lastgood.store.jobdir import JobDirectory

READY_LIMIT_S = 30.0
ANSWER_LIMIT_S = 3.0
SILENT_S = 15.0
"""An agent that says nothing for so long is not waited for, and its ranks are not judged by what it said last."""

_STARTS = 4
"""More deaths have a cause that another start does not mend."""

_LEAVE_S = 15.0

_ALONE_S = 10.0
"""How long the last keeper that is not done may look for parts of nodes whose keepers are."""
_TURN_S = 0.2


class _Node(msgspec.Struct):
    """What is known of the agent of a node."""

    step: AgentStep
    sees_job: bool = False
    heard_at: float = 0.0
    answered: int = 0
    """The newest command that it has answered."""
    counts: dict[int, int] = {}
    beats: dict[int, tuple[Heartbeat, bool]] = {}


class NodeAgents:
    """Has the agents, starts them again if their step dies, and does without where they do not come.

    To the supervisor this is the memory of the job (see keeping.Memory), and to the watch the source of heartbeats.
    Nothing here waits without a limit, and nothing raises: agents that fail are a loss of comfort.
    """

    def __init__(
        self,
        job: JobDirectory,
        nodes: Sequence[str],
        environment: Mapping[str, str],
        say: Callable[[str], None],
        start: Start = start_agents,
        words: Sequence[str] = SRUN,
        fallback: KeeperHold | None = None,
    ) -> None:
        """`fallback`: the keeper of the launcher's node, for when there are no agents."""
        self._job = job
        self._names = list(nodes)
        self._environment = environment
        self._say = say
        self._start_step = start
        self._words = words
        self._agent = [sys.executable or "python3", "-P", "-m", "lastgood.launch.agent", os.fspath(job.path), job.id]
        self._fallback = fallback
        self._steps: list[AgentStep] = []
        self._nodes: dict[str, _Node] = {}
        self._starts = 0
        self._id = 0
        self._begin: Begin | None = None
        self._happened: list[agent_talk.Happened] = []
        self._awaited: set[str] = set()
        """Nodes whose agent is starting."""
        self._missed: list[agent_talk.Deliver] = []
        """Signals of this attempt that came while an agent was starting."""
        self.signalled: list[int] = []
        """Signals that agents got from somebody else, until they are taken."""

    # What the launcher wants to know -------------------------------------------------------------------------

    @property
    def are_there(self) -> bool:
        """Some agent answers."""
        return bool(self._nodes) and any(not step.is_over for step in self._steps)

    @property
    def are_expected(self) -> bool:
        """Some agent answers, or is starting: what it is told now it does then."""
        return any(not step.is_over for step in self._steps) and bool(self._nodes or self._awaited)

    @property
    def sees_job(self) -> dict[str, bool]:
        """For each node whose agent answers: whether the job's directory is visible there."""
        return {name: node.sees_job for name, node in self._nodes.items()}

    @property
    def was_terminated(self) -> bool:
        """An agent got SIGTERM, as steps do when a job is preempted with a time of grace."""
        return SIGTERM in self.signalled

    def fileno(self) -> int:
        """Becomes readable when an agent says something; -1 if there is none."""
        return next((step.fileno() for step in self._steps if not step.is_over), -1)

    # The life of the steps -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Before the command starts: have agents on all nodes, or go on without."""
        if not self._starts:
            self._start(self._names)
        else:
            self._replace(self._take_lost())
        self._await_ready()
        if not self.are_there and self._fallback is not None:
            self._fallback.start()

    def _start(self, nodes: list[str]) -> AgentStep | None:
        """Start agents on these nodes; None if they cannot be started."""
        self._starts += 1
        count = len(nodes)
        where = [] if count == len(self._names) else [f"--nodelist={','.join(nodes)}"]
        words = [*self._words, f"--nodes={count}", f"--ntasks={count}", *where, *self._agent]
        try:
            step = AgentStep(self._start_step, words, self._environment)
        except OSError as error:
            self._starts = _STARTS
            self._say(f"note: no agents on the nodes ({words[0]}: {error.strerror})")
            return None
        self._steps.append(step)
        self._awaited |= set(nodes)
        return step

    def _await_ready(self) -> None:
        end = time.monotonic() + READY_LIMIT_S
        while self._awaited and time.monotonic() < end and any(not step.is_over for step in self._steps):
            self._hear(_TURN_S)
        missing, self._awaited = sorted(self._awaited), set()
        if not missing:
            return
        why = self._last_words()
        self._say(
            f"note: no agent answers on {', '.join(missing[:10])}{why and f' ({why})'}: there, snapshots do not survive the "
            "end of the step, and nobody sees a rank that stands still"
        )
        if not self._nodes:
            for step in self._steps:
                step.end()
            self._starts = _STARTS

    def _last_words(self) -> str:
        return next((words for step in reversed(self._steps) if (words := step.last_words)), "")

    def _take_lost(self) -> list[str]:
        """Nodes whose agent has ended, or says nothing any more: they are forgotten."""
        self._hear(0.0)
        now = time.monotonic()
        lost = sorted(n for n, node in self._nodes.items() if node.step.is_over or now - node.heard_at > 2 * SILENT_S)
        for name in lost:
            del self._nodes[name]
        return lost

    def _replace(self, lost: list[str]) -> AgentStep | None:
        """Start others where agents were lost, and say so; None if none are started."""
        self._steps = [step for step in self._steps if not step.is_over] or self._steps[-1:]
        if not lost:
            return None
        why = self._last_words()
        can_start = self._starts < _STARTS
        what = "starting others" if can_start else "going on without them"
        self._say(f"the agents on {', '.join(lost[:10])} have ended, or are silent{why and f' ({why})'}; {what}")
        return self._start(lost) if can_start else None

    def look(self, household: Household, notes: Notes) -> None:
        """Hear what there is, and replace agents that have died."""
        if lost := self._take_lost():
            notes.write("agents_lost", nodes=lost, error=self._last_words())
            if (step := self._replace(lost)) is not None:
                household.note_stranger(step.pid)
        for event in self._happened:
            notes.write(event.event, node=event.node, **event.data)
        self._happened.clear()
        if not self.are_there and not self._awaited and self._fallback is not None:
            self._fallback.look(household, notes)

    # The attempt ---------------------------------------------------------------------------------------------

    def begin(self, launch: str, attempt: int, heartbeats: Path, grace_s: float) -> None:
        """An attempt begins: its ranks keep their heartbeats in that directory, which is made on every node."""
        for node in self._nodes.values():
            node.beats = {}
        self.signalled.clear()
        self._missed.clear()
        self._begin = Begin(self._next_id(), launch, attempt, os.fspath(heartbeats), grace_s)
        self._send(self._begin)
        self._await_answers(self._begin.id, READY_LIMIT_S)

    def finish(self) -> int:
        """The command has ended, and nothing of it lives on, on any node: what does is asked to save and stop, and then
        killed; how many processes that were."""
        count = self.signal(SIGTERM)
        end = time.monotonic() + LEFTOVER_GRACE_S
        while count and self._living() and time.monotonic() < end:
            self._hear(_TURN_S)
        if count:
            self.kill()
        self._begin = None
        self._send(agent_talk.Over())
        return count

    def signal(self, number: int, only_to: Collection[str] = (), manner: Manner = Manner.STOP) -> int:
        """Pass a signal on to the processes of the attempt on all nodes, or to those of some names; how many got one."""
        command = agent_talk.Deliver(self._next_id(), number, tuple(only_to), manner)
        if self._awaited:
            self._missed.append(command)
        return self._order(command)

    def _living(self) -> int:
        """How many processes of the attempt there are, on all nodes."""
        return self._order(agent_talk.Deliver(self._next_id(), 0, manner=Manner.AS_IS))

    def kill(self) -> int:
        return self.signal(SIGKILL, manner=Manner.AS_IS)

    # Heartbeats ----------------------------------------------------------------------------------------------

    def read(self) -> dict[int, Heartbeat]:
        """The newest heartbeat of every rank, by this process's clock."""
        self._hear(0.0)
        return {rank: beat for node in self._nodes.values() for rank, (beat, _) in node.beats.items()}

    def has_ranks(self) -> bool:
        return bool(self.read())

    def listens(self, rank: int) -> bool:
        """True if a rank lives and writes its stacks when asked; of one whose agent is silent that is not known."""
        now = time.monotonic()
        for node in self._nodes.values():
            if rank in node.beats and now - node.heard_at < SILENT_S:
                return node.beats[rank][1]
        return False

    def ask_for_stacks(self) -> list[int]:
        """Make every rank that listens write its Python stacks; the ranks asked."""
        asked = sorted(rank for rank in self.read() if self.listens(rank))
        self._order(agent_talk.Stacks(self._next_id()))
        return asked

    # Memory --------------------------------------------------------------------------------------------------

    def await_written(self, may_wait: Callable[[], bool]) -> None:
        if not self._starts:
            # An earlier launcher in this allocation may have left something.
            self.start()
        self._drain(may_wait, "a snapshot is still being written", is_last=False)
        if not self.are_there and self._fallback is not None:
            self._fallback.await_written(may_wait)

    def await_promoted(self, may_wait: Callable[[], bool]) -> None:
        self._drain(may_wait, "a checkpoint is still being promoted", is_last=True)
        if not self.are_there and self._fallback is not None:
            self._fallback.await_promoted(may_wait)

    def _drain(self, may_wait: Callable[[], bool], what: str, *, is_last: bool) -> None:
        number = self._next_id()
        self._send(agent_talk.Drain(number, is_last))
        began = alone_since = time.monotonic()
        while waited := self._unanswered(number):
            now = time.monotonic()
            if not may_wait() or now > began + WRITE_LIMIT_S:
                self._say(f"{what} on {', '.join(waited)}; going on without it")
                return
            if len(waited) > 1 or set(self._nodes) != set(self._names):
                alone_since = now
            elif not is_last and now > alone_since + _ALONE_S:
                # All that the other nodes had is written: a part that is not there yet will not come. (What they have
                # just written may not be seen at once, on storage of the network.)
                self._send(agent_talk.GiveUpRest())
                alone_since = now
            self._hear(_TURN_S)

    def close(self) -> None:
        """An orderly end: the agents let go of their keepers, and end."""
        self._send(agent_talk.Bye())
        end = time.monotonic() + _LEAVE_S
        while (left := [step for step in self._steps if not step.is_over]) and time.monotonic() < end:
            self._hear(_TURN_S)
        if left:
            self._say(f"the agents on the nodes do not end within {duration(_LEAVE_S)}; ending their step")
            for step in left:
                step.end()
        if self._fallback is not None:
            self._fallback.close()

    # Talking -------------------------------------------------------------------------------------------------

    def _next_id(self) -> int:
        self._id += 1
        return self._id

    def _order(self, command: "agent_talk.Deliver | agent_talk.Stacks") -> int:
        self._send(command)
        self._await_answers(command.id, ANSWER_LIMIT_S)
        return sum(node.counts.pop(command.id, 0) for node in self._nodes.values())

    def _await_answers(self, number: int, limit_s: float) -> None:
        end = time.monotonic() + limit_s
        while self._unanswered(number) and time.monotonic() < end:
            self._hear(_TURN_S)

    def _unanswered(self, number: int) -> list[str]:
        """The nodes whose agent has yet to answer that command, and says something at all."""
        now = time.monotonic()
        return [
            name
            for name, node in sorted(self._nodes.items())
            if node.answered < number and not node.step.is_over and now - node.heard_at < SILENT_S
        ]

    def _send(self, command: agent_talk.Command) -> None:
        for step in self._steps:
            step.send(command)

    def _hear(self, limit_s: float) -> None:
        """Take what the agents say; wait that long for the first of it."""
        living = [step for step in self._steps if not step.is_over]
        if limit_s and living:
            select.select(living, [], [], limit_s)
        for step in living:
            for answer in step.hear():
                self._note(answer, step)

    def _note(self, answer: Answer, step: AgentStep) -> None:
        now = time.monotonic()
        if isinstance(answer, agent_talk.Ready):
            self._nodes[answer.node] = _Node(step, answer.sees_job, now)
            self._awaited.discard(answer.node)
            if self._begin is not None:
                # It has come late, or in the place of another.
                step.send(self._begin)
                for command in self._missed:
                    step.send(command)
            return
        if (node := self._nodes.get(answer.node)) is None:
            return
        node.heard_at = now
        if isinstance(answer, agent_talk.Beats):
            if self._begin is not None and answer.attempt == self._begin.attempt:
                node.beats |= {b.rank: (agent_talk.as_heartbeat(b, now), b.listens) for b in answer.beats}
        elif isinstance(answer, agent_talk.Done):
            node.answered = max(node.answered, answer.id)
            node.counts = {answer.id: answer.count}
        elif isinstance(answer, agent_talk.Told):
            self._say(f"{answer.node}: {answer.text}" if answer.node else answer.text)
        elif isinstance(answer, agent_talk.Happened):
            self._happened.append(answer)
        else:
            self.signalled.append(answer.number)
