"""A Slurm that is a few rules in memory: what it answers to its commands, and whom it starts when a job has ended.

For fast tests of decisions. What it does is what Slurm 22.05 was seen to do on the test cluster.
"""

from collections.abc import Mapping, Sequence

import msgspec

from lastgood.core.handback import Interruption
from lastgood.schedulers.slurm_commands import Answer, SlurmCommands

AWAY = Answer(1, "", "error: Unable to contact slurm controller (connect failure)\n")
SCRIPT = "/runs/x/batch.sh"


class Queued(msgspec.Struct):
    """A job in the queue, or a task of an array there."""

    name: str
    behind: str
    command: str
    state: str = "PENDING"


class SlurmModel:
    """The job 7, which runs, and what waits behind it. Its attributes may be changed between commands."""

    def __init__(
        self,
        *,
        may_requeue: bool = True,
        requeue_exit: str = "75",
        hold_exit: str = "",
        queue: Sequence[Queued] = (),
        is_batch: bool = True,
    ) -> None:
        self.may_requeue = may_requeue
        self.requeue_exit = requeue_exit
        self.hold_exit = hold_exit
        self.queue = list(queue)
        self.is_batch = is_batch
        self.ending = Interruption.NONE
        """Why Slurm ends the job now."""
        self.is_away_until = 0.0
        self.has_partition = True
        """It may have been removed since the job began."""
        self.now = 0.0
        self.said: list[list[str]] = []
        self.environments: list[Mapping[str, str]] = []
        """What sbatch was given."""
        self._is_requeued = False
        self._next = 20

    def commands(self, environment: Mapping[str, str]) -> SlurmCommands:
        return SlurmCommands(environment, run=self.run, clock=lambda: self.now, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def run(self, words: Sequence[str], environment: Mapping[str, str], limit_s: float) -> Answer:
        self.said.append(list(words))
        if words[:2] == ["sbatch", "--parsable"]:
            self.environments.append(environment)
        if self.now < self.is_away_until:
            return AWAY
        if words[:4] == ["scontrol", "-o", "show", "job"]:
            return Answer(0, self._shown(words[4]), "")
        if words[:3] == ["scontrol", "show", "config"]:
            lines = [f"KillWait = 30 sec\nRequeueExit = {self.requeue_exit or '(null)'}"]
            return Answer(0, "\n".join([*lines, f"RequeueExitHold = {self.hold_exit or '(null)'}"]), "")
        if words[:5] == ["scontrol", "-a", "-o", "show", "partition"] and not self.has_partition:
            return Answer(1, "", "Partition main not found\n")
        if words[:5] == ["scontrol", "-a", "-o", "show", "partition"]:
            return Answer(0, "PartitionName=main GraceTime=0 PreemptMode=REQUEUE TotalNodes=4\n", "")
        if words[:2] == ["scontrol", "requeue"]:
            return self._requeue()
        if words[:3] == ["scontrol", "write", "batch_script"]:
            return Answer(0, "#!/bin/sh\nexec lastgood run\n", "")
        if words[0] == "squeue":
            return self._squeue(list(words))
        if words[0] == "sbatch":
            return self._sbatch(list(words))
        if words[0] == "scancel":
            return self._scancel(words[-1])
        raise AssertionError(f"the model does not know {words}")

    def _shown(self, job_id: str) -> str:
        state, end, reason, preempted, restarts = "RUNNING", "1790000000", "None", "None", 0
        if self._is_requeued or self.ending is Interruption.REQUEUED:
            state, end, restarts = "COMPLETING", "Unknown", 1
        elif self.ending is Interruption.CANCELLED:
            state = "COMPLETING"
        elif self.ending is Interruption.TIME_LIMIT:
            state, reason = "COMPLETING", "TimeLimit"
        elif self.ending is Interruption.NODE_FAILURE:
            state, reason = "COMPLETING", "NodeDown"
        elif self.ending is Interruption.PREEMPTION:
            preempted = "1780000000"
        return (
            f"JobId={job_id} JobName=x UserId=a(1) QOS=normal JobState={state} Reason={reason} "
            f"Requeue={int(self.may_requeue)} Restarts={restarts} BatchFlag={int(self.is_batch)} EndTime={end} "
            f"PreemptTime={preempted} Partition=main NumNodes=1 TimeLimit=01:00:00 Command={SCRIPT} WorkDir=/runs/x "
            f"StdErr=/runs/x/slurm-7.out StdIn=/dev/null StdOut=/runs/x/slurm-7.out Power=\n"
        )

    def _requeue(self) -> Answer:
        if not self.may_requeue:
            return Answer(1, "", "Requested operation is presently disabled for job 7\n")
        self._is_requeued = True
        return Answer(0, "", "")

    def _squeue(self, words: list[str]) -> Answer:
        if words[-1] == "%A":
            return Answer(0, "7\n" + "".join(f"{one.name}\n" for one in self.queue), "")
        if words[-1] == "%K":
            tasks = [one.name.partition("_")[2] for one in self.queue if one.name.startswith("7_")]
            return Answer(0, "".join(f"{task}\n" for task in tasks), "")
        rows = [("7", "", SCRIPT)] + [(one.name, one.behind, one.command) for one in self.queue if "_" not in one.name]
        lines = [
            f"{name}|{name}|N/A|{f'afterany:{behind}(unfulfilled)' if behind else '(null)'}|{command}\n"
            for name, behind, command in rows
        ]
        return Answer(0, "".join(lines), "")

    def _sbatch(self, words: list[str]) -> Answer:
        if words[1:] == ["--version"]:
            return Answer(0, "slurm-wlm 22.05.8\n", "")
        behind = next(word for word in words if word.startswith("--dependency=")).rpartition(":")[2]
        self._next += 1
        self.queue.append(Queued(str(self._next), behind, words[-1]))
        return Answer(0, f"{self._next}\n", "")

    def _scancel(self, name: str) -> Answer:
        array, bracket, tasks = name.partition("_[")
        names = {f"{array}_{task}" for task in tasks.rstrip("]").split(",")} if bracket else {name}
        if not names <= {one.name for one in self.queue}:
            return Answer(0, "", f"scancel: error: Kill job error on job id {name}: Invalid job id specified\n")
        self.queue = [one for one in self.queue if one.name not in names]
        return Answer(0, "", "")

    def starts(self, code: int) -> list[str]:
        """Which jobs start when the job has ended with this code: "7", or what waited behind it."""
        if self.ending is not Interruption.CANCELLED and self.is_batch:
            listed = set(self.requeue_exit.split(",")) | set(self.hold_exit.split(","))
            if self._is_requeued or self.ending is Interruption.REQUEUED or str(code) in listed:
                # What waits for its end goes on waiting.
                return ["7"]
        tasks = [one.name for one in self.queue if one.name.startswith("7_")]
        # Of a chained array one at a time.
        return [one.name for one in self.queue if one.behind == "7"] + tasks[:1]
