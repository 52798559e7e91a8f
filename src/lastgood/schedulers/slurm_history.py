"""What Slurm's accounting says of a job's runs, beside what our journals say of its attempts. Pure."""

import re
from collections.abc import Sequence

import msgspec

from lastgood.core.errors import EXIT_SAVED_RUN_AGAIN
from lastgood.core.events import Event
from lastgood.core.outcome import Outcome
from lastgood.schedulers.slurm_text import expand_hosts, parse_exit, parse_time, value_of

_GPUS = re.compile(r"gres/gpu(?::([^=]+))?=(\d+)", re.ASCII)
_CLOCKS_S = 60.0
"""How far the clocks of two machines may be apart."""


class Run(msgspec.Struct, frozen=True):
    """One run of a Slurm job: from its start on its nodes to its end there."""

    job_id: str
    """The number that this job alone has, also where it is a task of an array."""
    state: str = ""
    exit_code: str = ""
    began: float | None = None
    ended: float | None = None
    nodes: tuple[str, ...] = ()
    gpus: int | None = None
    restart_count: int | None = None
    partition: str = ""

    @property
    def has_ended(self) -> bool:
        return self.state not in (
            "",
            "RUNNING",
            "PENDING",
            "SUSPENDED",
            "COMPLETING",
            "CONFIGURING",
            "REQUEUED_PENDING",
        )


def gpus_in(tres: str) -> int | None:
    """GPUs in a list of resources; None if it is empty.

    >>> gpus_in("billing=4,cpu=4,gres/gpu:a100=2,gres/gpu=4,node=2"), gpus_in("cpu=1,gres/gpu:a=1,gres/gpu:b=2"), gpus_in("cpu=1"), gpus_in("")
    (4, 3, 0, None)
    """
    if not tres:
        return None
    found = _GPUS.findall(tres)
    in_all = [int(count) for kind, count in found if not kind]
    return in_all[0] if in_all else sum(int(count) for _, count in found)


def runs_of(rows: Sequence[dict[str, str]]) -> list[Run]:
    """The rows of `sacct -X --duplicates`, those of each job in the order in which they began."""
    runs = []
    for row in rows:
        try:
            nodes = tuple(expand_hosts(value_of(row, "NodeList")))
        except ValueError:
            nodes = ()
        runs.append(
            Run(
                job_id=row.get("JobIDRaw") or row.get("JobID", ""),
                # "CANCELLED by 1000"
                state=value_of(row, "State").partition(" ")[0],
                exit_code=row.get("ExitCode", ""),
                began=parse_time(row.get("Start", "")),
                ended=parse_time(row.get("End", "")),
                nodes=() if nodes == ("None assigned",) else nodes,
                gpus=gpus_in(row.get("AllocTRES", "")),
                partition=value_of(row, "Partition"),
            )
        )
    runs.sort(key=lambda run: (run.job_id, run.began or float("inf")))
    counts: dict[str, int] = {}
    numbered = []
    for run in runs:
        counts[run.job_id] = counts.get(run.job_id, -1) + 1
        numbered.append(msgspec.structs.replace(run, restart_count=counts[run.job_id]))
    return numbered


def run_told(allocation: Event) -> Run:
    """The run that an attempt was in, by its own journal."""
    data = allocation.data
    nodes, gpus, count = data.get("nodes"), data.get("gpus"), data.get("restart_count")
    return Run(
        job_id=str(data.get("job_id", "")),
        nodes=tuple(map(str, nodes)) if isinstance(nodes, list) else (),
        gpus=gpus if isinstance(gpus, int) else None,
        restart_count=count if isinstance(count, int) else None,
        partition=str(data.get("partition", "")),
    )


def matching(told: Run, attempt_began: float, runs: Sequence[Run]) -> Run:
    """The run of the accounting that an attempt was in; what it says itself, where the accounting has none.

    Goes by the time: the accounting may lack earlier runs, and a requeue of a job that waits makes none.
    """
    ours = [run for run in runs if run.job_id == told.job_id]
    begun = [run for run in ours if run.began is not None and run.began <= attempt_began + _CLOCKS_S]
    found = [run for run in begun if run.began is not None and run.began <= attempt_began + 1] or begun
    if not found:
        return told
    return msgspec.structs.replace(
        found[-1],
        nodes=found[-1].nodes or told.nodes,
        gpus=told.gpus if found[-1].gpus is None else found[-1].gpus,
        restart_count=found[-1].restart_count if told.restart_count is None else told.restart_count,
    )


def disagreement(run: Run, outcome: str, exit_code: int | None, *, is_job_finished: bool, is_last: bool) -> str:
    """What Slurm and our journal do not say the same about, in words; empty if they agree.

    `outcome` and `exit_code` are of the last attempt in this run, and `is_last` tells whether it is the job's last.
    """
    if not outcome:
        return f"Slurm says that it has ended ({run.state}), but it still runs" if run.has_ended else ""
    if run.state == "COMPLETED" and not is_job_finished and outcome != Outcome.FINISHED:
        return "Slurm says COMPLETED, but the job is not finished"
    if outcome == Outcome.FINISHED and run.has_ended and run.state not in ("COMPLETED", "COMPLETING"):
        return f"the job is finished, but Slurm says {run.state} {run.exit_code}".rstrip()
    shown = parse_exit(run.exit_code)
    if exit_code == EXIT_SAVED_RUN_AGAIN and is_last and run.state == "FAILED" and shown == (EXIT_SAVED_RUN_AGAIN, 0):
        return "it ended with 75 to be run again, but Slurm did not requeue it (RequeueExit)"
    if run.state == "RUNNING" and is_last:
        return "its attempt has ended, but Slurm says RUNNING"
    return ""
