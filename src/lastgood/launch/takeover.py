"""Taking a job's lock, also right after its last launcher was killed.

The lock is inherited by the command, so that nobody starts a second one beside a command whose launcher is
gone. Such a command has been asked to stop by the kernel and may still be saving: that is worth waiting for.
"""

import time
from collections.abc import Callable

from lastgood.core.errors import EXIT_INTERRUPTED, EXIT_SAVED_RUN_AGAIN, JobBusyError
from lastgood.core.signals import SIGINT
from lastgood.core.stopping import STOP_SIGNALS
from lastgood.core.units import duration
from lastgood.launch.inbox import SignalInbox
from lastgood.launch.output import Console
from lastgood.store.jobdir import JobDirectory
from lastgood.store.lock import JobLock, holder, lock_job, without_lock

_MARGIN_S = 5.0


def take_lock(
    job: JobDirectory,
    grace_s: float,
    console: Console,
    inbox: SignalInbox,
    is_superseded: Callable[[], bool] = lambda: False,
) -> JobLock:
    """The job's lock. Waits at most the grace time, and only for what a dead launcher has left.

    `is_superseded`: whoever holds it is known to have been given up, such as on a node that is cut off: then the job
    goes on without the lock.

    Raises JobBusyError if the job is being run, SystemExit if a signal asks to stop meanwhile.
    """
    end = time.monotonic() + grace_s + _MARGIN_S
    is_told = False
    while True:
        try:
            return lock_job(job)
        except JobBusyError as error:
            owner = holder(job)
            is_late = time.monotonic() > end
            if owner is not None and (is_late or not owner.is_dead) and is_superseded():
                console.say(
                    f"an earlier start of this job still runs ({error.what}), and the scheduler has given it up: going on; "
                    "it can commit nothing any more",
                    is_important=True,
                )
                return without_lock(job)
            if owner is not None and not owner.is_dead:
                raise
            if is_late:
                raise JobBusyError(
                    f"{error.what}, which is gone; the command that it started still runs",
                    safe=error.safe,
                    remedy=f"end the command's processes (`fuser -v {job.path / 'lock'}` lists them)",
                ) from error
        if not is_told:
            is_told = True
            console.say(
                "the last launcher of this job is gone, but the command that it started still runs: "
                f"waiting for its end, at most {duration(grace_s + _MARGIN_S)}",
                is_important=True,
            )
        console.wait(0.2, inbox.fileno())
        for number in inbox.take():
            if number in STOP_SIGNALS:
                raise SystemExit(EXIT_INTERRUPTED if number == SIGINT else EXIT_SAVED_RUN_AGAIN)
