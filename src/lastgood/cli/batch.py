"""What `lastgood submit` and `lastgood script` have in common: their options, and the batch script these make."""

import argparse
import math
import os
import re
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from lastgood.cli import arguments, handing_on, planned, run_command
from lastgood.core.array import TASK
from lastgood.core.errors import UsageError
from lastgood.core.segments import MOST_SEGMENTS, segments_for, usable_s
from lastgood.core.units import duration, parse_duration
from lastgood.schedulers.slurm_options import SbatchOptions
from lastgood.schedulers.slurm_script import BatchScript, output_pattern

if TYPE_CHECKING:
    from lastgood.cli.wiring import RunRequest

_TASK = re.compile(r"%[aA]")
_NOT_OURS = {
    "wrap": "the command comes after `--`",
    "test-only": "`lastgood script ... > batch.sh; sbatch --test-only batch.sh` does that",
    "wait": "`lastgood submit` answers at once; `lastgood status` tells when the job is done",
}


class Order(msgspec.Struct, frozen=True):
    """A batch job as it was asked for, checked as far as that is possible without Slurm."""

    request: "RunRequest"
    """What `lastgood run` will be asked."""
    job: Path
    """Absolute; with %a or %A in it, one directory for each task of an array."""
    sbatch: list[str]
    """The user's own words for sbatch."""
    options: SbatchOptions
    run_options: list[str]
    segments: int | None
    work_s: float | None
    plan: planned.Planned = planned.Planned()

    @property
    def is_per_task(self) -> bool:
        """Each task of the array is a job of its own."""
        return TASK in os.fspath(self.job)

    @property
    def is_named_later(self) -> bool:
        """The directory has a number in its name that Slurm gives."""
        return _TASK.search(os.fspath(self.job)) is not None

    @property
    def home(self) -> Path:
        """The deepest directory above and with the job's own whose name is known now."""
        if not self.is_named_later:
            return self.job
        return next(parent for parent in self.job.parents if not _TASK.search(os.fspath(parent)))

    @property
    def grace_s(self) -> float:
        return self.request.settings.grace_s


def configure(parser: argparse.ArgumentParser) -> None:
    run_command.configure(parser)
    # As it is where nobody has said anything: a plan may say something else then.
    parser.set_defaults(grace=None)
    parser.add_argument(
        "--plan",
        metavar="FILE",
        help="what `lastgood plan --json` printed: options that are not given are as planned there",
    )
    segments = parser.add_mutually_exclusive_group()
    segments.add_argument(
        "--segments",
        type=arguments.at_least(1),
        metavar="N",
        help="the job runs as N batch jobs, each after the one before, however that ended",
    )
    segments.add_argument(
        "--work",
        metavar="DURATION",
        help="as many segments as this much computing takes in the time limit, such as 36h",
    )


def order_of(parsed: argparse.Namespace) -> Order:
    """Raises UsageError for what cannot be meant."""
    if not [word for word in parsed.words if word != "--"]:
        raise UsageError("which command?", safe="nothing was submitted", remedy=parsed.parser.usage)
    plan = planned.apply(parsed, os.environ)
    sbatch = [*parsed.handed_on, *plan.sbatch]
    request = run_command.request_of(parsed)
    options = SbatchOptions(sbatch, os.environ)
    order = Order(
        request=request,
        job=request.job.absolute(),
        sbatch=sbatch,
        options=options,
        run_options=_run_options(parsed),
        segments=parsed.segments,
        work_s=None if parsed.work is None else parse_duration(parsed.work),
        plan=plan,
    )
    _check(order, is_chained=getattr(parsed, "chained", False), no_restart=parsed.no_restart)
    return order


def plan(order: Order, limit_s: float | None, say: Callable[[str], None]) -> int:
    """How many segments there will be, for a time limit; None if there is none, or it is not known.

    Says what it has counted. Raises UsageError if a segment could not do any work.
    """
    grace = duration(order.grace_s)
    if limit_s is not None and usable_s(limit_s, order.grace_s) <= 0:
        raise UsageError(
            f"a time limit of {duration(limit_s)} leaves no time for work: the job is asked to save {grace} before its "
            "end (--grace)",
            safe="nothing was submitted",
            remedy="give a longer --time, a partition that allows one, or a shorter --grace",
        )
    if order.work_s is None:
        return order.segments or 1
    if limit_s is None:
        raise UsageError(
            "--work needs a time limit to count with",
            safe="nothing was submitted",
            remedy="give --time to sbatch, or --segments N",
        )
    count = segments_for(order.work_s, limit_s, order.grace_s)
    if count > MOST_SEGMENTS:
        raise UsageError(f"--work {duration(order.work_s)} would be {count} segments: more than {MOST_SEGMENTS}")
    segments = "1 segment" if count == 1 else f"{count} segments"
    say(f"{_plainly(order.work_s)} of work in a {_plainly(limit_s)} limit: {segments}")
    return count


def script_of(order: Order, segments: int) -> BatchScript:
    has_output = order.options.has("output", "o")
    # The program's own restarts and Slurm's are one thing to who says that there shall be none.
    may_requeue = order.request.settings.policy.max_restarts > 0
    return BatchScript(
        name=_TASK.sub("", order.job.name).strip("-_.") or "lastgood",
        job=os.fspath(order.job),
        output="" if has_output else output_pattern(os.fspath(order.home), is_array=bool(order.options.array)),
        command=order.request.command,
        python=sys.executable,
        run_options=order.run_options,
        sbatch_options=order.sbatch,
        notice_s=order.plan.lead_s or math.ceil(order.grace_s),
        may_requeue=may_requeue and order.plan.may_requeue,
        exports=order.plan.exports,
        planned_interval_s=order.plan.interval_s,
        chain=uuid.uuid4().hex[:16] if segments > 1 else "",
        segments=segments,
    )


def _run_options(parsed: argparse.Namespace) -> list[str]:
    parser = argparse.ArgumentParser()
    run_command.configure(parser)
    return handing_on.given(parser, argparse.Namespace(**{**vars(parsed), "job": None}))


def _check(order: Order, *, is_chained: bool, no_restart: bool) -> None:
    options, job = order.options, os.fspath(order.job)
    for name, instead in _NOT_OURS.items():
        if options.has(name, "W" if name == "wait" else ""):
            raise UsageError(f"sbatch's --{name} has no place here: {instead}", safe="nothing was submitted")
    is_long = order.work_s is not None or (order.segments or 1) > 1
    if options.has("requeue") and options.has("no-requeue"):
        _refuse("--requeue and --no-requeue contradict each other", "give one of them")
    if no_restart and is_long:
        _refuse("--no-restart means one attempt, and --segments or --work several", "give one of them")
    if no_restart and options.has("requeue"):
        _refuse("--no-restart means one attempt, and --requeue several", "give one of them")
    if options.array and is_long:
        _refuse(
            "segments and an array contradict each other: segments run one after the other by themselves",
            "give --segments N (or --work) alone, or --array=1-N%1 with --chained alone",
        )
    if "%j" in job:
        _refuse(
            f"--job {job}: %j changes with each submission, and the job would begin anew", "give a name of your own"
        )
    if order.is_named_later and not options.array:
        _refuse(f"--job {job}: %a and %A are for arrays", "give --array, or a name without them")
    if options.array and order.is_per_task and is_chained:
        _refuse("--chained makes one job of all tasks, and %a in --job one of each", "give one of them")
    if options.array and not order.is_per_task and not is_chained:
        _refuse(
            f"the tasks of an array cannot all run the job in {job}",
            "for independent jobs put %a into its name (--job runs/x-%a); for one job whose segments the tasks are, "
            "give --chained and --array=1-N%1",
        )
    if is_chained and not options.runs_one_task_at_a_time:
        _refuse("--chained tasks run one after the other", "give --array=1-N%1")


def _plainly(seconds: float) -> str:
    return duration(seconds).removesuffix(" 0 min").removesuffix(" 0 s").removesuffix(" 0 h")


def _refuse(what: str, remedy: str) -> None:
    raise UsageError(what, safe="nothing was submitted", remedy=remedy)
