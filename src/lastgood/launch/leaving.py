"""How the launcher leaves: what starts the job again, or that nothing does, and which nodes the job stays away from."""

from collections.abc import Mapping
from typing import Any

from lastgood.core.errors import EXIT_INTERRUPTED, FencedError, StartRefusedError
from lastgood.core.suspects import already_left, suspects, times_left
from lastgood.launch.history import read_records
from lastgood.launch.output import Console
from lastgood.launch.ports import Left, Scheduler
from lastgood.store.attempts import Journal
from lastgood.store.durable import explained
from lastgood.store.jobdir import JobDirectory

_DRAIN_S = 1.0
_MOST_TIMES = 3
"""How often the job may be sent away from a node that it comes back to."""


class Leaving:
    """Of one launcher. Each way returns its exit code."""

    def __init__(self, job: JobDirectory, scheduler: Scheduler, console: Console) -> None:
        self._job = job
        self._scheduler = scheduler
        self._console = console
        self._nodes: list[str] = []
        """Those that the job is to be kept away from when it is started again."""

    def hand_back(self, what: str, reason: str, *, is_unasked: bool) -> int:
        """Have the job started again, away from the nodes that it is to leave. `is_unasked` as ports.Scheduler has it."""
        # A scheduler that does not answer is waited for; what was said before is to be read meanwhile.
        self._console.drain(_DRAIN_S)
        left = self._scheduler.avoid(self._nodes) if self._nodes else None
        if left is None:
            left = self._scheduler.hand_back(is_unasked=is_unasked)
        self._console.say(_joined(what, reason, left))
        return left.exit_code

    def end(self, what: str, exit_code: int) -> int:
        """Leave so that nothing starts the job again."""
        # What waits in the queue of one that is fenced belongs to the newer attempt.
        is_fenced = exit_code == FencedError.exit_code
        left = Left(exit_code) if is_fenced else self._scheduler.end(exit_code)
        if what or left.message:
            is_bad = exit_code not in (0, EXIT_INTERRUPTED)
            self._console.say(_joined(what, "", left), is_important=is_bad)
        return left.exit_code

    def because_of_nodes(self, allocation: Mapping[str, Any], journal: Journal) -> str:
        """Why the job should leave nodes of this allocation, if attempts died there; empty if it may stay."""
        if not (at_most := self._scheduler.may_avoid()):
            return ""
        with explained("read the history of", self._job.attempts, safe="what is saved stays"):
            records = read_records(self._job)
        found = set(suspects(records, at_most)) - already_left(records)
        self._nodes = [node for node in allocation.get("nodes", []) if node in found]
        if not self._nodes:
            return ""
        reason = f"two attempts or more died on {', '.join(self._nodes)} as if its hardware failed: leaving it"
        journal.write("excluded", nodes=self._nodes, reason=reason)
        return reason

    def for_other_gpus(self, problem: str, allocation: Mapping[str, Any]) -> int:
        """Have the job started again on another node than the launcher's, which has not the GPUs that it needs. Raises
        StartRefusedError where that cannot be had."""
        with explained("read the history of", self._job.attempts, safe="what is saved stays"):
            records = read_records(self._job)
        node = str(allocation.get("node") or "")
        if node and self._scheduler.may_avoid() and times_left(records, node) < _MOST_TIMES:
            self._console.drain(_DRAIN_S)
            left = self._scheduler.avoid([node])
            if left is not None:
                if records:
                    journal = Journal(self._job, records[-1].number)
                    journal.write("excluded", nodes=[node], reason=problem)
                    journal.close()
                self._console.say(_joined("to be run again", problem, left), is_important=True)
                return left.exit_code
        raise StartRefusedError(
            f"{problem} (--same-gpu)",
            safe="nothing was started, and what is saved stays",
            remedy="start it where those GPUs are, or without --same-gpu if its numbers may change",
        )


def _joined(what: str, reason: str, left: Left) -> str:
    words = "; ".join(part for part in (": ".join(filter(None, (what, reason))), left.message) if part)
    return f"{words} (exit code {left.exit_code})"
