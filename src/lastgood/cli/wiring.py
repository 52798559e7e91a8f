"""Joins the layers for a command of `lastgood`: the only place that knows all of them."""

import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from lastgood.cli.metrics import MetricsKept
from lastgood.core.array import chain_of
from lastgood.core.chain import is_begun_in_chain, is_earlier_start
from lastgood.core.layout import Env
from lastgood.keeper.starting import may_use_keeper
from lastgood.launch.agents import NodeAgents
from lastgood.launch.ground import Ground
from lastgood.launch.history import read_records
from lastgood.launch.inbox import SignalInbox
from lastgood.launch.keeping import KeeperHold
from lastgood.launch.known_commands import advice, is_srun, warning
from lastgood.launch.library import LibraryProgram
from lastgood.launch.output import Console, JobLog, reserve_standard_descriptors
from lastgood.launch.ports import Application
from lastgood.launch.process import become_subreaper, check_command
from lastgood.launch.standby import Standby, standby_for
from lastgood.launch.storage_check import Tolerance, check_reach
from lastgood.launch.supervisor import Settings, Supervisor
from lastgood.launch.takeover import take_lock
from lastgood.launch.wrapped import WrappedCommand, Wrapping
from lastgood.schedulers.local import LocalScheduler
from lastgood.store.durable import explained
from lastgood.store.jobdir import JobDirectory, create_job
from lastgood.store.record import Records, refuse_vanished, state_directory
from lastgood.store.slurm_index import note_slurm_job, numbers_of


class AppRequest(msgspec.Struct, frozen=True):
    """An application with checkpoints of its own, by its name."""

    name: str
    every_s: float | None
    """Work between two of its checkpoints; None: as for a save that takes a second."""


class RunRequest(msgspec.Struct, frozen=True):
    """A `lastgood run`, parsed and checked."""

    job: Path
    command: Sequence[str]
    settings: Settings
    time_limit_s: float | None = None
    wrapping: Wrapping | None = None
    """For a command with checkpoints of its own."""
    app: AppRequest | None = None
    """For an application whose checkpoints we know."""
    is_quiet: bool = False
    is_standby_wanted: bool = False
    local_storage: Tolerance | None = None
    """What to do about a job directory that only this node has, where the next attempt may run on another."""
    metrics: Path | None = None
    """Where to keep the job's metrics fresh; None: nowhere."""
    is_chained: bool = False
    """The tasks of the array that this runs in are the segments of one job."""
    is_same_gpu: bool = False
    """Attempts run only on GPUs of the models, and of the number, that the first one had."""


def run_job(request: RunRequest) -> int:
    """Supervise a command; the exit code for `lastgood run`."""
    reserve_standard_descriptors()
    started = time.time()
    environment = dict(os.environ)
    records = Records(state_directory(environment))
    check_command(request.command, environment.get("PATH"))
    if environment.get("SLURM_JOB_ID"):
        # A start without Slurm should not pay for it.
        from lastgood.schedulers.slurm import refuse_in_tasks

        refuse_in_tasks(environment)
    chain = chain_of(environment, is_chained=request.is_chained) if environment.get("SLURM_JOB_ID") else ""
    start = f"{environment.get('SLURM_JOB_ID', '')} {environment.get('SLURM_RESTART_COUNT', '0')}"
    # A script that says --fresh says so again in each start and each segment of its job.
    is_new = request.settings.is_fresh and not records.has_begun_anew(request.job, chain, start)
    with SignalInbox() as inbox:
        if not is_new:
            refuse_vanished(request.job, records, is_fresh_spent=request.settings.is_fresh)
        job = create_job(request.job)
        console = Console(JobLog(job.log), is_quiet=request.is_quiet)
        metrics = MetricsKept(request.metrics, console.say)
        try:
            superseded = partial(_is_superseded, job, environment)
            with take_lock(job, request.settings.grace_s, console, inbox, superseded) as lock:
                if is_new:
                    # Not before the lock is ours: a job that somebody runs keeps its record.
                    _begin_anew(job, records, chain, start)
                become_subreaper()
                metrics.begin(job)
                scheduler = _scheduler(request, job, environment, console, started)
                if scheduler.may_move() and (text := check_reach(job.path, request.local_storage)):
                    console.say(f"warning: {text}")
                application = _application(request, job, records, scheduler)
                if text := warning(request.command, request.settings.grace_s):
                    console.say(text)
                standby = _standby(request, console)
                keeper = _keeper(request, job, environment, console)
                agents = _agents(request, job, environment, console, keeper)
                ground = _ground(request, job, environment)
                supervisor = Supervisor(
                    job, lock, application, scheduler, request.settings, console, inbox, standby, keeper, agents, ground
                )
                return supervisor.run(request.command, {**environment, **advice(request.command, environment)})
        finally:
            metrics.end()
            console.close()


def _begin_anew(job: JobDirectory, records: Records, chain: str, start: str) -> None:
    with explained("read the history of", job.attempts, safe="nothing was changed"):
        is_begun = is_begun_in_chain(read_records(job), {"chain": chain})
    if not is_begun:
        records.forget(job.path)
    records.note_new_start(job.path, chain, start)


def _is_superseded(job: JobDirectory, environment: Mapping[str, str]) -> bool:
    """Whether the newest attempt is of an earlier start of the Slurm job that we are in."""
    count = environment.get("SLURM_RESTART_COUNT", "")
    here = {
        "cluster": environment.get("SLURM_CLUSTER_NAME", ""),
        "job_id": environment.get("SLURM_JOB_ID", ""),
        "restart_count": int(count) if count.isdigit() else 0,
    }
    try:
        records = read_records(job)
    except OSError:
        return False
    return bool(records) and is_earlier_start(records[-1], here)


def _scheduler(
    request: RunRequest, job: JobDirectory, environment: Mapping[str, str], console: Console, started: float
) -> LocalScheduler:
    if not environment.get("SLURM_JOB_ID"):
        return LocalScheduler(environment, time_limit_s=request.time_limit_s, started=started)
    from lastgood.schedulers.slurm import SlurmScheduler
    from lastgood.schedulers.slurm_commands import SlurmCommands
    from lastgood.schedulers.slurm_segments import Segments

    note_slurm_job(
        state_directory(dict(environment)),
        environment.get("SLURM_CLUSTER_NAME", ""),
        numbers_of(environment, is_chained=request.is_chained),
        job.path,
    )
    commands = SlurmCommands(environment)
    segments = Segments(commands, environment, is_chained=request.is_chained)
    return SlurmScheduler(
        environment,
        commands,
        segments,
        console.say,
        time_limit_s=request.time_limit_s,
        started=started,
        is_chained=request.is_chained,
        may_submit=request.settings.policy.max_restarts > 0,
    )


def _keeper(
    request: RunRequest, job: JobDirectory, environment: Mapping[str, str], console: Console
) -> KeeperHold | None:
    """Programs that use the library save through it; a wrapped command has checkpoints of its own."""
    if request.wrapping is not None or request.app is not None or not may_use_keeper(environment):
        return None
    return KeeperHold(job, environment, console.say)


def _agents(
    request: RunRequest,
    job: JobDirectory,
    environment: Mapping[str, str],
    console: Console,
    keeper: KeeperHold | None,
) -> NodeAgents | None:
    """Where the command is srun its ranks are on the nodes of the allocation, and so is what watches them."""
    if not environment.get("SLURM_JOB_NODELIST") or not is_srun(request.command):
        return None
    from lastgood.schedulers.slurm_text import expand_hosts

    nodes = expand_hosts(environment["SLURM_JOB_NODELIST"])
    given = {**environment, Env.KEEPER: "off"} if keeper is None else environment
    return NodeAgents(job, nodes, given, console.say, fallback=keeper)


def _standby(request: RunRequest, console: Console) -> Standby | None:
    if not request.is_standby_wanted:
        return None
    standby = standby_for(request.command, os.environ, console.say)
    if isinstance(standby, Standby):
        return standby
    console.say(f"--standby has no effect: {standby}", is_important=True)
    return None


def _ground(request: RunRequest, job: JobDirectory, environment: Mapping[str, str]) -> Ground | None:
    """Programs that use the library write down themselves where they run."""
    is_silent = request.wrapping is not None or request.app is not None
    if not is_silent and not request.is_same_gpu:
        return None
    from lastgood.cli.surroundings import facts_of_command, models_of_gpus

    facts = facts_of_command(request.command, environment) if is_silent else {}
    return Ground(job, facts, partial(models_of_gpus, environment) if request.is_same_gpu else None)


def _application(request: RunRequest, job: JobDirectory, records: Records, scheduler: LocalScheduler) -> Application:
    if request.app is not None:
        return _adapted(request.app, request, job, records, scheduler)
    if request.wrapping is None:
        return LibraryProgram(job)
    return WrappedCommand(job, records, request.wrapping, scheduler.restart_counts())


def _adapted(
    app: AppRequest, request: RunRequest, job: JobDirectory, records: Records, scheduler: LocalScheduler
) -> Application:
    from lastgood.apps.known import adapter_for
    from lastgood.core.interval import exact_interval_s
    from lastgood.core.reliability import preset_mtti
    from lastgood.launch.adapted import AdaptedCommand
    from lastgood.launch.time_limit import TimeLimit

    deadline, grace_s = scheduler.deadline(), request.settings.grace_s
    return AdaptedCommand(
        adapter_for(app.name, request.command),
        job,
        records,
        scheduler.restart_counts(),
        exact_interval_s(_SAVE_S, preset_mtti().seconds) if app.every_s is None else app.every_s,
        None if deadline is None else TimeLimit(deadline, grace_s),
        grace_s,
        is_interval_given=app.every_s is not None,
    )


_SAVE_S = 1.0
"""What a checkpoint of an application is taken to cost where nobody says how often to save: cautious for most."""
