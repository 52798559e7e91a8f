"""How long before its end a job is told, and how many jobs of a limited length it takes. Pure."""

import math

import msgspec

from lastgood.core.errors import UsageError
from lastgood.core.schedule import stop_margin_s
from lastgood.core.segments import usable_s
from lastgood.plan.quantities import rounded
from lastgood.plan.situation import Situation
from lastgood.plan.solve import Solved

LEAST_GRACE_S = 30.0
"""As `lastgood run` has it by itself: a program takes time to end also where a save takes none."""

RESOLUTION_S = 60.0
"""Slurm looks every half minute and keeps limits to the minute: a signal may be up to a minute off (sbatch(1),
--signal)."""


class Window(msgspec.Struct, frozen=True):
    grace_s: float
    """From the request to stop until the save is safe: twice the write, one step, five seconds; at least half a minute."""
    lead_s: float
    """How long before the time limit Slurm is to signal: the grace time and its own resolution."""


class Segments(msgspec.Struct, frozen=True):
    count: int
    """Runs on average: each ends at the time limit, or with an interruption before it."""
    run_s: float
    """Time in which the job runs, repeated work included."""
    wall_s: float
    """With the queue, before each segment and after each interruption."""


def window_of(s: Situation, solved: Solved) -> Window:
    """Raises UsageError where the time limit leaves no work beside it."""
    # A stop always goes to the job's own directory: the write to shared storage counts, in whole seconds.
    grace_s = max(float(math.ceil(stop_margin_s([s.save.write_s], s.step_s or 0.0))), LEAST_GRACE_S)
    window = Window(grace_s, grace_s + RESOLUTION_S)
    if s.limit_s is not None and usable_s(s.limit_s, window.lead_s) <= 0:
        raise UsageError(
            f"a time limit of {rounded(s.limit_s)} leaves no time for work: the job has to be told {rounded(window.lead_s)} "
            "before its end",
            remedy="plan with a longer --time, or a faster write",
        )
    return window


def segments_of(s: Situation, solved: Solved, window: Window) -> Segments | None:
    """For the work that is stated; None if none is.

    Work takes longer than it is: by what saves and failures cost while the job runs.
    """
    if s.work_s is None:
        return None
    # The queue is no time in which the job runs.
    cycle_s = s.mtti_s + s.down_s
    running = solved.efficiency * cycle_s / (cycle_s - s.queue_s)
    run_s = s.work_s / running if running > 0 else math.inf
    if not math.isfinite(run_s):
        raise UsageError("the job never gets on: no interval keeps any work between two interruptions")
    mean_s = s.mtti_s
    if s.limit_s is not None:
        usable = usable_s(s.limit_s, window.lead_s)
        # Of a run that ends at the limit, or with an interruption before.
        mean_s = -s.mtti_s * math.expm1(-usable / s.mtti_s)
    count = max(math.ceil(run_s / mean_s - 1e-9), 1)
    return Segments(count, run_s, run_s + count * s.queue_s)
