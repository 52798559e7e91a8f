"""What a plan says to a submission. An option that is given stands, whatever was planned, and that is said."""

import argparse
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from lastgood.cli.plan_options import content_of
from lastgood.core.layout import Env
from lastgood.core.units import duration, parse_duration
from lastgood.schedulers.slurm_options import SbatchOptions
from lastgood.schedulers.slurm_script import MAX_SIGNAL_S

if TYPE_CHECKING:
    from lastgood.plan.document import PlannedSubmission

DEFAULT_GRACE = "30s"
"""Of `lastgood run`."""


class Planned(msgspec.Struct, frozen=True):
    lead_s: float | None = None
    """How long before the time limit Slurm signals; None: as long as the grace time."""
    may_requeue: bool = True
    exports: dict[str, str] = {}
    interval_s: float | None = None
    """How often to save; None without a plan."""
    sbatch: list[str] = []
    """Further words for sbatch."""
    said: list[str] = []


def apply(parsed: argparse.Namespace, environment: Mapping[str, str]) -> Planned:
    """Fill in what the options leave open. Changes `parsed`. Raises what `read_plan` does."""
    if parsed.plan is None:
        parsed.grace = parsed.grace or DEFAULT_GRACE
        return Planned()
    plan = _read(parsed.plan)
    options = SbatchOptions(parsed.handed_on, environment)
    taken: list[str] = []
    differs: list[str] = []
    _grace(parsed, plan, taken, differs)
    _segments(parsed, plan, options, taken, differs)
    sbatch = _time(plan, options, taken, differs)
    lead_s, given_s = plan.lead_s, options.time_limit_s
    if options.has("signal"):
        differs.append(f"--signal={options.value('signal')} is given")
    elif lead_s is not None and given_s is not None and lead_s > given_s / 2:
        differs.append(
            f"a signal {lead_s:.0f} s before the end is most of that time: it comes as early as --grace says"
        )
        lead_s = None
    elif lead_s is not None:
        lead_s = max(lead_s, math.ceil(parse_duration(parsed.grace)))
        taken.append(f"a signal {min(lead_s, MAX_SIGNAL_S):.0f} s before the end")
    exports = {}
    mtti = f"{max(plan.mtti_s, 1):.0f}s"
    if environment.get(Env.MTTI):
        differs.append(f"{Env.MTTI}={environment[Env.MTTI]} is set, planned was {mtti}")
    else:
        exports[Env.MTTI] = mtti
        taken.append(f"{Env.MTTI}={mtti}")
    may_requeue = _requeue(plan, options, taken, differs)
    if parsed.no_restart and may_requeue:
        differs.append("--no-restart is given, planned was a requeue after a failure")
    _nodes(plan, options, differs)
    said = [f"as planned in {parsed.plan}: {', '.join(taken)}"] if taken else []
    said += [f"not as planned: {text}" for text in differs]
    if not plan.is_auto_enough:
        said.append(
            f'the planned interval is {duration(plan.interval_s)}, and every="auto" comes to another: the program has to be '
            f'told, Run(every="{max(plan.interval_s, 1):.0f}s")'
        )
    return Planned(lead_s, may_requeue, exports, plan.interval_s, sbatch, said)


def _read(name: str) -> "PlannedSubmission":
    from lastgood.plan.document import MOST_BYTES, read_plan

    data = content_of("--plan", name, MOST_BYTES, safe="nothing was submitted")
    return read_plan(data, name)


def _grace(parsed: argparse.Namespace, plan: "PlannedSubmission", taken: list[str], differs: list[str]) -> None:
    wanted = f"{math.ceil(plan.grace_s)}s"
    if parsed.grace is None:
        parsed.grace = wanted
        taken.append(f"--grace {wanted}")
    elif parse_duration(parsed.grace) != math.ceil(plan.grace_s):
        differs.append(f"--grace {parsed.grace} is given, planned was {wanted}")


def _segments(
    parsed: argparse.Namespace,
    plan: "PlannedSubmission",
    options: SbatchOptions,
    taken: list[str],
    differs: list[str],
) -> None:
    if parsed.work is not None or parsed.segments is not None:
        given = f"--work {parsed.work}" if parsed.work is not None else f"--segments {parsed.segments}"
        if plan.segments is None:
            differs.append(f"{given} is given, planned was one job that is requeued")
        elif parsed.segments != plan.segments:
            differs.append(f"{given} is given, planned were {plan.segments} segments")
    elif plan.segments is None:
        return
    elif options.array or parsed.no_restart:
        given = f"--array={options.array}" if options.array else "--no-restart"
        differs.append(f"{given} is given, planned were {plan.segments} segments")
    else:
        parsed.segments = plan.segments
        taken.append(f"--segments {plan.segments}")


def _time(plan: "PlannedSubmission", options: SbatchOptions, taken: list[str], differs: list[str]) -> list[str]:
    if plan.limit_s is None:
        return []
    if not options.value("time", "t", "SBATCH_TIMELIMIT"):
        minutes = max(int(plan.limit_s // 60), 1)
        taken.append(f"--time={minutes} (minutes)")
        return [f"--time={minutes}"]
    given_s = options.time_limit_s
    if given_s is None or abs(given_s - plan.limit_s) > 60:
        given = options.value("time", "t", "SBATCH_TIMELIMIT")
        differs.append(f"--time={given} is given, it was planned for {duration(plan.limit_s)}")
    return []


def _requeue(plan: "PlannedSubmission", options: SbatchOptions, taken: list[str], differs: list[str]) -> bool:
    """Whether the script asks for it; a word of the user's own comes after it, and wins."""
    if options.has("requeue") and not plan.may_requeue:
        differs.append("--requeue is given, planned was none")
    elif options.has("no-requeue") and plan.may_requeue:
        differs.append("--no-requeue is given, planned was a requeue after a failure")
    elif not plan.may_requeue:
        taken.append("--no-requeue")
    if options.value("open-mode").startswith("t"):
        differs.append(f"--open-mode={options.value('open-mode')} is given: each run of the job empties its output")
    return plan.may_requeue


def _nodes(plan: "PlannedSubmission", options: SbatchOptions, differs: list[str]) -> None:
    given = options.value("nodes", "N")
    if not given and plan.nodes > 1 and not options.has("nodelist", "w"):
        differs.append(f"no --nodes is given, it was planned for {plan.nodes}")
    elif given.isdigit() and int(given) != plan.nodes:
        differs.append(f"--nodes={given} is given, it was planned for {plan.nodes}")
