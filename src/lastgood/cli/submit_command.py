"""`lastgood submit`: write the batch script of a job, and submit it to Slurm."""

import argparse
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from lastgood.cli.batch import Order
    from lastgood.schedulers.slurm_commands import SlurmCommands
    from lastgood.store.jobdir import JobDirectory

EPILOG = """\
What stands before -- and is no option of lastgood is for sbatch. The script is kept in the job's directory
(batch.sh), and so is the output, where --output says nothing else. Slurm runs the job again after a failure
of a node or a preemption; lastgood asks it to after a time limit; where the program fails, lastgood decides.

examples:
  lastgood submit --job runs/x --time=24:00:00 --gres=gpu:2 -- python train.py
  lastgood submit --job runs/x --work 36h -p day --nodes=2 -- srun python train.py
  lastgood submit --job runs/x-%a --array=0-9 -- python train.py
"""


def configure(parser: argparse.ArgumentParser) -> None:
    from lastgood.cli import batch

    batch.configure(parser)
    parser.usage = "lastgood submit [options] [options of sbatch] -- COMMAND [ARGUMENT ...]"
    parser.epilog = EPILOG


def execute(parsed: argparse.Namespace) -> int:
    from lastgood.cli import batch, output
    from lastgood.core.errors import LastgoodError
    from lastgood.schedulers.slurm_commands import SlurmCommands
    from lastgood.schedulers.slurm_script import batch_script
    from lastgood.store.record import state_directory
    from lastgood.store.slurm_index import note_slurm_job

    order = batch.order_of(parsed)
    for line in order.plan.said:
        output.note(line)
    commands = SlurmCommands(os.environ)
    order = _on_same_gpus(order, commands)
    limit_s = _time_limit(order, commands)
    segments = batch.plan(order, limit_s, output.note)
    script = batch.script_of(order, segments)
    path = _keep(order, batch_script(script), limit_s)
    ids: list[str] = []
    try:
        for _ in range(segments):
            # Not only in the script: there, variables such as SBATCH_PARTITION would win over them.
            after = [f"--dependency=afterany:{ids[-1]}"] if ids else []
            ids.append(commands.submit([*order.sbatch, *after, os.fspath(path)]))
    except (LastgoodError, KeyboardInterrupt):
        _take_back(commands, ids, segments)
        raise
    if not order.is_named_later and (
        error := note_slurm_job(state_directory(dict(os.environ)), _cluster(commands), ids, order.job)
    ):
        output.note(f"`lastgood status {ids[0]}` will not know the job: {error}")
    output.put(_told(order, ids, path, script.output))
    return 0


def _on_same_gpus(order: "Order", commands: "SlurmCommands") -> "Order":
    """With --same-gpu, GPUs of the type that the job began on are asked for, where that type has a name. The launcher looks
    at what it gets in any case."""
    import msgspec

    from lastgood.cli import output
    from lastgood.core.chain import allocation_of
    from lastgood.core.errors import LastgoodError, SchedulerError
    from lastgood.launch.ground import first_with_gpus
    from lastgood.launch.history import read_records
    from lastgood.schedulers.slurm_gpu_types import type_of_node, with_type
    from lastgood.store import durable
    from lastgood.store.jobdir import open_job

    request = order.request
    if not request.is_same_gpu or request.settings.is_fresh or order.is_named_later:
        return order
    try:
        job = open_job(order.job)
        with durable.explained("read the history of", job.attempts, safe="nothing was submitted"):
            records = read_records(job)
    except LastgoodError:
        # A new job; or one of which the submission itself says what is wrong.
        return order
    first = first_with_gpus(records)
    if first is None:
        return order
    node = next((str(allocation_of(one).get("node") or "") for one in records if one.number == first[0]), "")
    try:
        gpu_type = type_of_node(commands.node(node).get("Gres", "")) if node else ""
    except SchedulerError:
        return order
    added = with_type(order.sbatch, os.environ, gpu_type) if gpu_type else []
    if added:
        output.note(f"the job began on GPUs of type {gpu_type}: {' '.join(added)}")
    return msgspec.structs.replace(order, sbatch=[*order.sbatch, *added])


def _time_limit(order: "Order", commands: "SlurmCommands") -> float | None:
    """Of one job, in seconds: as given, or the partition's. Says where the partition allows less."""
    from lastgood.cli import output
    from lastgood.core.errors import SchedulerError
    from lastgood.core.units import duration
    from lastgood.schedulers.slurm_text import parse_slurm_duration, value_of

    given = order.options.time_limit_s
    try:
        partitions = commands.partitions()
    except SchedulerError:
        # Only to plan with: the submission itself says what is wrong, and waits for slurmctld.
        return given
    names = order.options.partitions
    ours = [p for p in partitions if p.get("PartitionName") in names or (not names and p.get("Default") == "YES")]
    most = [parse_slurm_duration(value_of(p, "MaxTime")) for p in ours]
    if given is not None:
        if most and all(limit is not None and limit < given for limit in most):
            shown = ", ".join(f"{p['PartitionName']} {p['MaxTime']}" for p in ours)
            output.note(
                f"the time limit of {duration(given)} is more than the partition allows ({shown}): it may wait for ever"
            )
        return given
    limits = [
        limit if (limit := parse_slurm_duration(value_of(p, "DefaultTime"))) is not None else longest
        for p, longest in zip(ours, most, strict=True)
    ]
    return min((limit for limit in limits if limit is not None), default=None)


def _keep(order: "Order", text: str, limit_s: float | None) -> "Path":
    """Write the script to where the job is. Raises StartRefusedError for a job that has vanished from there."""
    from lastgood.cli import output
    from lastgood.core import layout
    from lastgood.core.errors import UsageError
    from lastgood.store import durable
    from lastgood.store.jobdir import create_job
    from lastgood.store.record import Records, refuse_vanished, state_directory

    if order.is_named_later:
        path = order.home / f"{order.job.relative_to(order.home).parts[0]}.{layout.BATCH_FILE}"
    else:
        refuse_vanished(order.job, Records(state_directory(dict(os.environ))))
        job = create_job(order.job)
        if not order.request.settings.is_fresh and (finished := job.finished()) is not None:
            raise UsageError(
                f"the job in {order.job} is finished: all its steps are done, the last is {finished.step}",
                safe="nothing was submitted",
                remedy="give another --job directory",
            )
        _check_write_time(order, limit_s)
        if (running := _running(job)) and not order.options.has("dependency", "d"):
            output.note(
                f"the job runs already ({running}): if it still does when this one begins, this one ends at once, with "
                "code 86; --dependency=afterany:JOBID has it wait"
            )
        path = order.job / layout.BATCH_FILE
    with durable.explained("write the batch script", path, safe="nothing was submitted"):
        durable.make_directory(path.parent)
        durable.write_file(path, os.fsencode(text))
    return path


def _running(job: "JobDirectory") -> str:
    """Who runs it now, in words; empty if nobody is known to."""
    from lastgood.store.lock import holder

    try:
        found = holder(job)
    except OSError:
        return ""
    return "" if found is None else f"process {found.pid} on {found.host}"


def _check_write_time(order: "Order", limit_s: float | None) -> None:
    """Say it if the last save took longer than there will be. Raises UsageError if no save fits into the time limit."""
    from lastgood.cli import output
    from lastgood.core.errors import UsageError
    from lastgood.core.units import duration
    from lastgood.store.jobdir import open_job
    from lastgood.store.survey import last_good, survey

    good = last_good(survey(open_job(order.job)))
    write_s = good.manifest.write_s if good is not None and good.manifest is not None else 0.0
    if limit_s is not None and write_s >= limit_s:
        raise UsageError(
            f"the last checkpoint took {duration(write_s)} to write, and the time limit is {duration(limit_s)}",
            safe="nothing was submitted",
            remedy="give a longer --time, or a partition that allows one",
        )
    if write_s > order.grace_s:
        output.note(
            f"the last checkpoint took {duration(write_s)} to write, longer than the {duration(order.grace_s)} that there "
            f"are after a signal: give --grace {write_s * 2:.0f}s"
        )


def _take_back(commands: "SlurmCommands", ids: list[str], segments: int) -> None:
    """Cancel the first segments of a chain of which a later one could not be submitted, and say so."""
    from lastgood.cli import output
    from lastgood.core.errors import LastgoodError

    if not ids:
        return
    left: list[str] = []
    # The last one first: none of those that wait starts because the one before it is cancelled.
    for job_id in reversed(ids):
        try:
            commands.cancel(job_id)
        except LastgoodError:
            left.insert(0, job_id)
    output.note(f"segment {len(ids) + 1} of {segments} could not be submitted")
    cancelled = [job_id for job_id in ids if job_id not in left]
    if cancelled:
        output.note(f"cancelled the segments before it: {' '.join(cancelled)}")
    if left:
        output.note(f"could not cancel: `scancel {' '.join(left)}`")


def _cluster(commands: "SlurmCommands") -> str:
    from lastgood.core.errors import SchedulerError

    try:
        return commands.config().get("ClusterName", "")
    except SchedulerError:
        return ""


def _told(order: "Order", ids: list[str], script: "Path", output_pattern: str) -> str:
    pattern = output_pattern or f"{order.options.value('output', 'o')} (below the directory of the submission)"
    if len(ids) == 1:
        pattern = pattern.replace("%j", ids[0]).replace("%A", ids[0])
    first = ids[0]
    lines = [
        f"submitted {order.job} as {'job' if len(ids) == 1 else f'{len(ids)} segments, jobs'} {' '.join(ids)}",
        f"script  {script}",
        f"output  {pattern.replace('%%', '%')}",
        f"look    lastgood status {f'{first}_TASK' if order.is_per_task else first}",
    ]
    return "\n".join(lines)
