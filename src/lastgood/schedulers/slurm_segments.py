"""Jobs that wait behind this one to go on with the same work: the rest of a chained array, the segments that were
submitted with it, and one of our own where nothing else would start the job again."""

import os
import re
import tempfile
from collections.abc import Mapping

import msgspec

from lastgood.core.array import chain_of, full_id
from lastgood.core.errors import NoSuchJobError, SchedulerError
from lastgood.core.layout import Env
from lastgood.schedulers.slurm_commands import SlurmCommands
from lastgood.schedulers.slurm_text import value_of

_BEHIND = re.compile(r"after\w*:([\d_*]+)")
_QUEUE = "%A|%F|%K|%E|%o"
_TRIES = 3

_KEPT = {
    "Partition": "--partition",
    "Account": "--account",
    "QOS": "--qos",
    "Reservation": "--reservation",
    "TimeLimit": "--time",
    "JobName": "--job-name",
    "WorkDir": "--chdir",
    "NumNodes": "--nodes",
    "NumTasks": "--ntasks",
    "CPUs/Task": "--cpus-per-task",
    "TresPerNode": "--gres",
    "TresPerJob": "--gpus",
    "TresPerTask": "--gpus-per-task",
    "MinMemoryNode": "--mem",
    "MinMemoryCPU": "--mem-per-cpu",
    "Features": "--constraint",
    "Licenses": "--licenses",
    "ExcNodeList": "--exclude",
}
"""What a job was submitted with, as `scontrol show job` has it, and the option that says it again. Options in the script
are read from there, too; these are those that may have been given beside it."""


class Waiting(msgspec.Struct, frozen=True):
    """A job of this user in the queue, running or not."""

    job_id: str
    name: str
    """As others wait for it: the number, or that of the array and of the task."""
    behind: frozenset[str]
    """The jobs whose end it waits for."""
    command: str
    """Path and arguments of its script; empty if it was submitted without a file."""


def parse_queue(text: str) -> list[Waiting]:
    r"""From `squeue -h -o "%A|%F|%K|%E|%o"`.

    >>> parse_queue("8|8|N/A|afterany:7(unfulfilled),afterok:5_1(unfulfilled)|/x.sh a|b\n")[0].behind == {"7", "5_1"}
    True
    """
    rows = (line.split("|", 4) for line in text.splitlines())
    return [
        Waiting(
            job_id=row[0],
            name=f"{row[1]}_{row[2]}" if row[2].isdigit() else row[0],
            behind=frozenset(_BEHIND.findall(row[3])),
            command="" if row[4].strip() == "(null)" else row[4].strip(),
        )
        for row in rows
        if len(row) == 5
    ]


def line_behind(job_id: str, queue: list[Waiting], *, is_chain: bool) -> list[str]:
    """The jobs that wait behind one to go on with its work, and those behind them, nearest first.

    With `is_chain` that is what runs the same script with the same arguments; and always what `ensure_own` submitted. Others
    that wait for a job have work of their own, such as to evaluate its result.

    >>> queue = parse_queue("7|7|N/A|(null)|/x.sh\\n9|9|N/A|afterany:8|/x.sh\\n8|8|N/A|afterany:7|/x.sh\\n6|6|N/A|afterok:7|/y.sh")
    >>> line_behind("7", queue, is_chain=True), line_behind("7", queue, is_chain=False)
    (['8', '9'], [])
    """
    here = next((one for one in queue if one.job_id == job_id), None)
    command = here.command if here is not None and is_chain else ""
    found: list[str] = []
    ends = [here or Waiting(job_id, job_id, frozenset(), "")]
    while ends:
        names = {name for one in ends for name in (one.job_id, one.name)}
        prefixes = tuple(_script_prefix(one.job_id) for one in ends)
        ends = sorted(
            (
                one
                for one in queue
                if one.behind & names
                and one.job_id not in (*found, job_id)
                and ((command and one.command == command) or os.path.basename(one.command).startswith(prefixes))
            ),
            key=lambda one: int(one.job_id),
        )
        found += [one.job_id for one in ends]
    return found


class Segments:
    """Of the job that this process runs in. Methods raise SchedulerError."""

    def __init__(self, commands: SlurmCommands, environment: Mapping[str, str], *, is_chained: bool) -> None:
        self._commands = commands
        self._environment = environment
        self._is_chained = is_chained
        self._job_id = environment["SLURM_JOB_ID"]
        self._full_id = full_id(environment)
        self._array = environment.get("SLURM_ARRAY_JOB_ID", "")
        self._chain = chain_of(environment, is_chained=is_chained)

    def has_next(self) -> bool:
        return bool(self.waiting())

    def waiting(self) -> list[str]:
        """What waits behind this job to go on with it, nearest first; tasks of an array as "7_2"."""
        return [*(f"{self._array}_{task}" for task in self._rest_of_array()), *self._line()]

    def ensure_own(self, job: Mapping[str, str]) -> str:
        """Have a job behind this one, which goes on with the work: the one that is there, or a new one. Its id.

        `job` is what Slurm shows of this one: the new one is submitted with the same script and options.
        """
        if line := self._line():
            return line[0]
        record = dict(job)
        # With a name after ALL, slurmd would ask a login shell for the environment, and wait for it (seen with 22.05).
        words = [f"--dependency=afterany:{self._full_id}", "--export=ALL"]
        for name, option in _KEPT.items():
            if value := _plain(option, value_of(record, name)):
                words.append(f"{option}={value}")
        words += ["--requeue" if record.get("Requeue") == "1" else "--no-requeue"]
        words += [*self._same_task(), *_same_output(record, self._job_id)]
        with tempfile.NamedTemporaryFile("w", prefix=_script_prefix(self._job_id), suffix=".sh") as script:
            script.write(self._commands.write_batch_script(self._full_id))
            script.flush()
            return self._commands.submit([*words, os.fspath(script.name)], variables={Env.CHAIN: self._chain})

    def cancel_next(self) -> list[str]:
        """Take everything that waits behind this job to go on with it out of the queue; what that was."""
        # From the end: the next one would start as soon as the one before it is gone.
        ids = list(reversed(self._line()))
        for job_id in ids:
            self._commands.cancel(job_id)
        return ids + self._cancel_rest()

    def _cancel_rest(self) -> list[str]:
        for _ in range(_TRIES):
            if not (tasks := self._rest_of_array()):
                return []
            rest = f"{self._array}_[{','.join(tasks)}]"
            # scancel does nothing at all if one of them is gone.
            try:
                self._commands.cancel(rest)
            except NoSuchJobError:
                continue
            return [rest]
        raise SchedulerError(f"cannot cancel the tasks {rest}: Slurm says that there are none")

    def _line(self) -> list[str]:
        queue = parse_queue(self._commands.queue(_QUEUE, state="PENDING,RUNNING,COMPLETING"))
        return line_behind(self._job_id, queue, is_chain=bool(self._environment.get(Env.CHAIN)))

    def _rest_of_array(self) -> list[str]:
        """The tasks of a chained array that wait."""
        if not self._is_chained or not self._array:
            return []
        return self._commands.queue("%K", state="PENDING", array=self._array).split()

    def _same_task(self) -> list[str]:
        """The whole array is named in the script; what goes on is this task of it."""
        task = self._environment.get("SLURM_ARRAY_TASK_ID", "")
        return [f"--array={task}"] if task else []


def _script_prefix(job_id: str) -> str:
    return f"lastgood-after-{job_id}-"


def _plain(option: str, value: str) -> str:
    """As sbatch takes what scontrol shows; empty if there is nothing to say.

    >>> _plain("--gres", "gres:gpu:2,gres:nic"), _plain("--gpus", "gres:gpu:a100:2"), _plain("--gpus", "cpu=2")
    ('gpu:2,nic', 'a100:2', '')
    """
    parts = [re.sub(r"^gres[:/]", "", part) for part in value.split(",")]
    if option in ("--gpus", "--gpus-per-task"):
        # They are of GPUs only, and these come without their name.
        parts = [part[4:] for part in parts if part.startswith(("gpu:", "gpu="))]
    return ",".join(parts)


def _same_output(job: dict[str, str], job_id: str) -> list[str]:
    """Options for the same files of output: numbers of this job in their names become those of the next one.

    >>> _same_output({"StdOut": "/runs/7/out-7.txt", "StdErr": "/runs/7/out-7.txt"}, "7")
    ['--output=/runs/7/out-%j.txt', '--open-mode=append']
    """
    words = []
    for option, shown in (("--output", value_of(job, "StdOut")), ("--error", value_of(job, "StdErr"))):
        if shown and (option == "--output" or shown != value_of(job, "StdOut")):
            directory, slash, name = shown.replace("%", "%%").rpartition("/")
            words.append(f"{option}={directory}{slash}" + re.sub(rf"(?<!\d){job_id}(?!\d)", "%j", name))
    return [*words, "--open-mode=append"] if words else []
