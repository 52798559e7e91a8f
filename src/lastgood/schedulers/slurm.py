"""The launcher inside a Slurm allocation: what this cluster does with the job, why it ends it, and getting it started
again by exactly one means (see core.handback)."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from lastgood.core import handback
from lastgood.core.array import chain_of, full_id
from lastgood.core.errors import EXIT_SAVED_RUN_AGAIN, LastgoodError, NoSuchJobError, SchedulerError, UsageError
from lastgood.core.handback import Interruption, JobState, Means, Owner, Rules
from lastgood.launch.ports import Left
from lastgood.schedulers.local import LocalScheduler
from lastgood.schedulers.slurm_avoiding import avoid, may_avoid
from lastgood.schedulers.slurm_commands import SlurmCommands
from lastgood.schedulers.slurm_segments import Segments
from lastgood.schedulers.slurm_text import (
    expand_hosts,
    parse_codes,
    parse_seconds,
    parse_time,
    value_of,
)

_AT_START_S = 20.0
_CAUSE_S = 3.0
"""Within KillWait, the answer must leave time to write down how it ended."""
_MARGIN_S = 1.5
"""Of KillWait, for the launcher's own last words."""
_UNKNOWN = "with work left it asks Slurm to requeue it (scontrol requeue)"

_GPUS = re.compile(r"(?:^|,)gres/gpu=(\d+)")


def refuse_in_tasks(environment: Mapping[str, str]) -> None:
    """Raises UsageError in a step of several tasks: each of them would be a launcher of its own."""
    tasks = environment.get("SLURM_STEP_NUM_TASKS", "1")
    if tasks != "1" and environment.get("SLURM_STEP_ID"):
        raise UsageError(
            f"srun has started `lastgood run` {tasks} times, and a job has one launcher",
            safe="nothing was started",
            remedy="turn it round: lastgood run --job DIR -- srun COMMAND",
        )


class SlurmScheduler(LocalScheduler):
    """The allocation that this process runs in. Asks slurmctld once at the start, and when something ends."""

    name = "slurm"

    def __init__(
        self,
        environment: Mapping[str, str],
        commands: SlurmCommands,
        segments: Segments,
        say: Callable[[str], None],
        *,
        time_limit_s: float | None,
        started: float,
        is_chained: bool = False,
        may_submit: bool = True,
    ) -> None:
        """`may_submit`: a job that Slurm may not requeue goes on in a segment of ours."""
        super().__init__(environment, time_limit_s=time_limit_s, started=started)
        self._commands = commands
        self._segments = segments
        self._say = say
        self.job_id = environment["SLURM_JOB_ID"]
        self._full_id = full_id(environment)
        self._is_chained = is_chained
        self._may_submit = may_submit
        self._job: dict[str, str] = {}
        self._nodes_of_partition = ""
        self._found = Interruption.NONE
        """What slurmctld said when it was asked last."""
        self._rules: Rules | None = None
        """None if slurmctld did not answer at the start."""
        self._learn(_AT_START_S)

    @property
    def rules(self) -> Rules:
        """Where nothing is known, Slurm is asked to requeue the job: its answer tells whether it does."""
        return self._rules or Rules(may_requeue=True)

    def _learn(self, limit_s: float) -> None:
        try:
            self._job = self._commands.show_job(self._full_id, limit_s=limit_s)
            self._rules = self._read_rules()
        except LastgoodError as error:
            self._say(f"note: what this cluster does with the job is not known: {error.what}")

    def _read_rules(self) -> Rules:
        config = self._commands.config()
        partition = self._partition()
        self._nodes_of_partition = value_of(partition, "TotalNodes")
        return Rules(
            is_batch=self._job.get("BatchFlag") != "0",
            may_requeue=self._job.get("Requeue") == "1",
            requeue_codes=parse_codes(config.get("RequeueExit", "")),
            hold_codes=parse_codes(config.get("RequeueExitHold", "")),
            has_next_segment=self._segments.has_next(),
            may_submit=self._may_submit,
            kill_wait_s=parse_seconds(config.get("KillWait", "")) or Rules().kill_wait_s,
            grace_s=max(parse_seconds(partition.get("GraceTime", "")) or 0.0, self._grace_of_qos(config)),
            unkillable_s=parse_seconds(config.get("UnkillableStepTimeout", "")),
            preempts_by=value_of(partition, "PreemptMode"),
        )

    def _partition(self) -> dict[str, str]:
        name = value_of(self._job, "Partition")
        try:
            return self._commands.partition(name)
        except SchedulerError as error:
            self._say(f"note: the partition {name} is not known: {error.what}")
            return {}

    def _grace_of_qos(self, config: dict[str, str]) -> float:
        """Where jobs are preempted by QOS, its grace time counts."""
        name = value_of(self._job, "QOS")
        if "qos" not in config.get("PreemptType", "") or not name:
            return 0.0
        try:
            return parse_seconds(self._commands.qos(name).get("GraceTime", "")) or 0.0
        except LastgoodError as error:
            self._say(f"note: the grace time of QOS {name} is not known: {error.what}")
            return 0.0

    def deadline(self) -> float | None:
        ends = [parse_time(self._job.get("EndTime", "")), super().deadline()]
        return min((end for end in ends if end is not None), default=None)

    def may_move(self) -> bool:
        return self._nodes_of_partition != "1"

    def window_s(self) -> float | None:
        return max(self.rules.kill_wait_s - _MARGIN_S, self.rules.kill_wait_s / 2)

    def allocation(self) -> dict[str, Any]:
        get = self._environment.get
        nodes = expand_hosts(get("SLURM_JOB_NODELIST", ""))
        return {
            "scheduler": self.name,
            "cluster": get("SLURM_CLUSTER_NAME", ""),
            "job_id": self.job_id,
            "array_job_id": get("SLURM_ARRAY_JOB_ID", ""),
            "array_task_id": get("SLURM_ARRAY_TASK_ID", ""),
            "restart_count": int(self.restart_counts().get("SLURM_RESTART_COUNT", 0)),
            "nodes": nodes,
            "node": get("SLURMD_NODENAME", ""),
            "gpus": _gpus_in(value_of(self._job, "TRES")),
            "chain": self.chain,
            "partition": get("SLURM_JOB_PARTITION", ""),
            "mechanism": handback.plan(self.rules).means.value,
        }

    @property
    def chain(self) -> str:
        return chain_of(self._environment, is_chained=self._is_chained)

    def introduction(self, write_s: float | None) -> list[str]:
        count = int(self.restart_counts().get("SLURM_RESTART_COUNT", 0))
        begun = "started by Slurm for the first time" if not count else f"requeued by Slurm {count} time(s)"
        # Nothing is claimed of a cluster that is not known.
        how = handback.introduction(self._rules) if self._rules is not None else _UNKNOWN
        lines = [f"Slurm job {self.job_id}, {begun}: {how}"]
        if self._rules is not None:
            lines.append(f"this cluster: {handback.facts(self._rules)}")
        if self._rules is not None and (text := handback.window_warning(self._rules, write_s)):
            lines.append(f"warning: {text}")
        return lines

    def before_attempt(self) -> None:
        """Whatever ends the attempt, the job is started again: where nothing else would do that, a segment of our own
        is submitted now."""
        if handback.plan(self.rules).means is not Means.OWN_SEGMENT:
            return
        try:
            if job_id := self._segments.ensure_own(self._job):
                self._rules = msgspec.structs.replace(self.rules, has_next_segment=True)
                self._say(f"Slurm job {job_id} waits behind this one, to go on with the work")
        except LastgoodError as error:
            self._say(f"warning: no next segment could be submitted: {error.what}; nothing starts the job again")

    def interruption(self) -> str:
        """Why Slurm ends the allocation now; empty if it does not, or if that is not known."""
        found = self._ask()
        return "" if found is Interruption.UNKNOWN else found.value

    def _ask(self) -> Interruption:
        limit_s = min(_CAUSE_S, self.rules.kill_wait_s / 4)
        try:
            self._found = handback.interruption_of(
                self._state_of(self._commands.show_job(self._full_id, limit_s=limit_s))
            )
        except NoSuchJobError:
            self._found = Interruption.CANCELLED
        except SchedulerError:
            self._found = Interruption.UNKNOWN
        return self._found

    def _state_of(self, job: dict[str, str]) -> JobState:
        restarts = job.get("Restarts", "")
        return JobState(
            state=job.get("JobState", ""),
            reason=value_of(job, "Reason"),
            has_end=parse_time(job.get("EndTime", "")) is not None,
            is_preempted=parse_time(job.get("PreemptTime", "")) is not None,
            was_requeued=restarts.isdigit() and int(restarts) > self._restart_count,
        )

    @property
    def _restart_count(self) -> int:
        """Of the start of the job that this process belongs to."""
        return self.restart_counts().get("SLURM_RESTART_COUNT", 0)

    def hand_back(self, *, is_unasked: bool) -> Left:
        """Have the job started again. `is_unasked`: no signal made it stop, as one would after scancel."""
        # slurmctld that has just not answered is not waited for again: there may be a second left.
        found = self._ask() if self._found is not Interruption.UNKNOWN else self._found
        had_next = self.rules.has_next_segment
        self._look_for_next()
        chosen = handback.plan(self.rules)
        if handback.owner(found) is Owner.NOBODY:
            return self.end(EXIT_SAVED_RUN_AGAIN)
        if handback.owner(found) is Owner.SLURM:
            return Left(chosen.exit_code, "Slurm has put the job back into its queue")
        if had_next and not self.rules.has_next_segment and found is not Interruption.UNKNOWN:
            # Coming back after scancel is worse than to wait for a person.
            return Left(
                handback.unlisted(EXIT_SAVED_RUN_AGAIN, self.rules),
                "what waited behind it to go on has been taken out of the queue; to go on, submit it again",
            )
        if chosen.means is Means.PERSON:
            how = "submit it" if self.rules.is_batch else "run the same command"
            return Left(chosen.exit_code, f"to go on, {how} again")
        if chosen.means is Means.EXIT_CODE:
            return Left(chosen.exit_code, f"Slurm requeues it for exit code {chosen.exit_code}")
        if chosen.means is Means.NEXT_SEGMENT:
            return Left(chosen.exit_code, "the next segment goes on")
        if chosen.means is Means.OWN_SEGMENT:
            return self._by_segment(chosen.exit_code)
        if found is Interruption.UNKNOWN and not is_unasked:
            return Left(
                chosen.exit_code,
                "slurmctld does not answer, and it may have been cancelled, so it is not requeued; "
                f"to go on: scontrol requeue {self._full_id}",
            )
        return self._by_requeue(chosen.exit_code)

    def may_avoid(self) -> int:
        if self._rules is None or handback.plan(self._rules).means is Means.PERSON:
            return 0
        return may_avoid(self._job, self._nodes_of_partition)

    def avoid(self, nodes: Sequence[str]) -> Left | None:
        if handback.owner(self._ask()) is not Owner.MEANS:
            return None
        self._look_for_next()
        job = {**self._job, "JobId": self._full_id}
        return avoid(nodes, job, self.rules, self._commands, self._segments, self._say)

    def _look_for_next(self) -> None:
        """What was queued behind this job may have been cancelled since."""
        if self._found is Interruption.UNKNOWN:
            return
        if self._rules is None:
            self._learn(_CAUSE_S)
            return
        try:
            self._rules = msgspec.structs.replace(self._rules, has_next_segment=self._segments.has_next())
        except LastgoodError as error:
            self._say(f"note: whether the next segment still waits is not known: {error.what}")

    def _by_requeue(self, code: int) -> Left:
        try:
            self._commands.requeue(self._full_id)
        except LastgoodError as error:
            if self._ask() is Interruption.REQUEUED:
                return Left(code, "Slurm has put the job back into its queue")
            self._say(f"scontrol requeue did not work: {error.what}")
            return self._by_segment(code)
        return Left(code, "Slurm has put the job back into its queue (scontrol requeue)")

    def _by_segment(self, code: int) -> Left:
        if not self._may_submit:
            return Left(code, "nothing starts it again; submit it again to go on")
        try:
            job_id = self._segments.ensure_own(self._job)
        except LastgoodError as error:
            return Left(code, f"nothing starts it again: {error.what}; submit it again to go on")
        return Left(code, f"Slurm job {job_id} goes on with the work")

    def end(self, exit_code: int) -> Left:
        """Nothing is to start the job again. What waits to do so is taken out of the queue."""
        try:
            cancelled = self._segments.cancel_next()
        except LastgoodError as error:
            self._say(f"warning: what is queued to go on with the job could not be cancelled: {error.what}")
            cancelled = []
        code = handback.unlisted(exit_code, self.rules)
        words = [f"cancelled what waited to go on: {', '.join(cancelled)}"] if cancelled else []
        if code != exit_code:
            words.append(f"exit code {code} in place of {exit_code}, which RequeueExit lists")
        return Left(code, "; ".join(words))

    def was_cancelled(self, job_id: str) -> bool:
        """True if slurmctld, or the accounting for a job that it has forgotten, says that a job was cancelled."""
        try:
            state = self._commands.show_job(job_id).get("JobState", "")
        except LastgoodError:
            rows, _ = self._commands.history([job_id])
            # The number may be that of a whole array, too.
            states = [row.get("State", "") for row in rows if row.get("JobIDRaw", job_id) == job_id]
            state = states[-1] if states else ""
        return state.startswith("CANCELLED")


def _gpus_in(tres: str) -> int:
    """GPUs in a list of trackable resources.

    >>> _gpus_in("cpu=8,mem=4G,node=2,gres/gpu=4"), _gpus_in("cpu=8")
    (4, 0)
    """
    match = _GPUS.search(tres)
    return int(match[1]) if match else 0
