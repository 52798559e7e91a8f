"""Jobs that wait behind this one to go on with the same work: the rest of a chained array, the segments that were
submitted with it, and one of our own where nothing else would start the job again."""

import os
import re
import tempfile
from collections.abc import Mapping

import msgspec

from lastgood.core.layout import Env
from lastgood.schedulers.slurm_commands import SlurmCommands
from lastgood.schedulers.slurm_text import value_of

_BEHIND = re.compile(r"after\w*:(\d+)")

_KEPT = {
    "Partition": "--partition",
    "Account": "--account",
    "QOS": "--qos",
    "TimeLimit": "--time",
    "JobName": "--job-name",
    "WorkDir": "--chdir",
    "NumNodes": "--nodes",
    "NumTasks": "--ntasks",
    "CPUs/Task": "--cpus-per-task",
    "TresPerNode": "--gres",
    "MinMemoryNode": "--mem",
    "MinMemoryCPU": "--mem-per-cpu",
    "Features": "--constraint",
    "ExcNodeList": "--exclude",
}
"""What a job was submitted with, as `scontrol show job` has it, and the option that says it again. Options in the script
are read from there, too; these are those that may have been given beside it."""


class Waiting(msgspec.Struct, frozen=True):
    """A job of this user in the queue."""

    job_id: str
    behind: frozenset[str]
    """The jobs whose end it waits for."""
    name: str


def parse_waiting(text: str) -> list[Waiting]:
    r"""From `squeue -h -o "%A|%E|%j"`.

    >>> parse_waiting("8|afterany:7(unfulfilled)|x\n9|(null)|y\n")[0]
    Waiting(job_id='8', behind=frozenset({'7'}), name='x')
    """
    rows = (line.split("|", 2) for line in text.splitlines())
    return [Waiting(row[0], frozenset(_BEHIND.findall(row[1])), row[2]) for row in rows if len(row) == 3]


def line_behind(job_id: str, name: str, waiting: list[Waiting]) -> list[str]:
    """The jobs of that name that wait behind a job, and those behind them, nearest first.

    >>> queue = [Waiting("9", frozenset({"8"}), "x"), Waiting("8", frozenset({"7"}), "x"), Waiting("6", frozenset({"7"}), "y")]
    >>> line_behind("7", "x", queue)
    ['8', '9']
    """
    found, ends = [], {job_id}
    while ends:
        ends = {one.job_id for one in waiting if one.name == name and one.behind & ends and one.job_id not in found}
        found += sorted(ends, key=int)
    return found


class Segments:
    """Of the job that this process runs in. Methods raise SchedulerError."""

    def __init__(self, commands: SlurmCommands, environment: Mapping[str, str], *, is_chained: bool) -> None:
        self._commands = commands
        self._environment = environment
        self._is_chained = is_chained
        self._job_id = environment["SLURM_JOB_ID"]
        self._name = environment.get("SLURM_JOB_NAME", "")

    def has_next(self) -> bool:
        return bool(self._rest_of_array()) or bool(self._line())

    def ensure_own(self, job: Mapping[str, str]) -> str:
        """Have a job behind this one, which goes on with the work: the one that is there, or a new one. Its id.

        `job` is what Slurm shows of this one: the new one is submitted with the same script and options.
        """
        if line := self._line():
            return line[0]
        words = [f"--dependency=afterany:{self._job_id}", f"--export=ALL,{Env.CHAIN}={self._chain()}"]
        words += [f"{option}={_plain(value)}" for name, option in _KEPT.items() if (value := value_of(dict(job), name))]
        with tempfile.NamedTemporaryFile("w", prefix="lastgood-", suffix=".sh") as script:
            script.write(self._commands.write_batch_script(self._job_id))
            script.flush()
            return self._commands.submit([*words, os.fspath(script.name)])

    def cancel_next(self) -> list[str]:
        """Take everything that waits behind this job to go on with it out of the queue; what that was."""
        # From the end: the next one would start as soon as the one before it is gone.
        ids = list(reversed(self._line()))
        if rest := self._rest_of_array():
            ids.append(rest)
        for job_id in ids:
            self._commands.cancel(job_id)
        return ids

    def _line(self) -> list[str]:
        return line_behind(self._job_id, self._name, parse_waiting(self._commands.queue("%A|%E|%j", state="PENDING")))

    def _chain(self) -> str:
        return self._environment.get(Env.CHAIN, self._job_id)

    def _rest_of_array(self) -> str:
        """The tasks of a chained array that come after this one, as scancel takes them; empty if there are none."""
        get = self._environment.get
        task, last = get("SLURM_ARRAY_TASK_ID", ""), get("SLURM_ARRAY_TASK_MAX", "")
        if not self._is_chained or not (task.isdigit() and last.isdigit()) or int(task) >= int(last):
            return ""
        return f"{get('SLURM_ARRAY_JOB_ID', self._job_id)}_[{int(task) + 1}-{last}]"


def _plain(value: str) -> str:
    """As sbatch takes what scontrol shows: a range of nodes where least and most are the same is a number."""
    return value.removeprefix("gres:").replace(":gres:", ":")
