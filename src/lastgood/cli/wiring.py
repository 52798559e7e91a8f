"""Joins the layers for a command of `lastgood`: the only place that knows all of them."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from lastgood.launch.inbox import SignalInbox
from lastgood.launch.library import LibraryProgram
from lastgood.launch.output import Console, JobLog
from lastgood.launch.ports import Application
from lastgood.launch.process import become_subreaper, check_command
from lastgood.launch.supervisor import Settings, Supervisor
from lastgood.schedulers.local import LocalScheduler
from lastgood.store.jobdir import create_job
from lastgood.store.lock import lock_job
from lastgood.store.record import Records, state_directory


class RunRequest(msgspec.Struct, frozen=True):
    """A `lastgood run`, parsed and checked."""

    job: Path
    command: Sequence[str]
    settings: Settings
    time_limit_s: float | None = None
    resume_argument: str | None = None
    checkpoints: str | None = None
    is_quiet: bool = False


def run_job(request: RunRequest) -> int:
    """Supervise a command; the exit code for `lastgood run`."""
    started = time.time()
    environment = dict(os.environ)
    check_command(request.command, environment.get("PATH"))
    with SignalInbox() as inbox:
        job = create_job(request.job)
        with lock_job(job) as lock:
            become_subreaper()
            records = Records(state_directory(environment))
            scheduler = LocalScheduler(environment, time_limit_s=request.time_limit_s, started=started)
            application: Application = LibraryProgram(job)
            if request.settings.is_fresh:
                records.forget(job.path)
            log = JobLog(job.log)
            console = Console(log, is_quiet=request.is_quiet)
            try:
                supervisor = Supervisor(job, lock, application, scheduler, request.settings, console, inbox)
                return supervisor.run(request.command, environment)
            finally:
                console.drain(5.0)
                log.close()
