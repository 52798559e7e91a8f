"""What protection costs and what it saves, from runs of the same job: measured, beside what the formulas predict. Pure.

overhead      = median of protected runs / median of bare runs - 1, without failures
ETTR          = time of the undisturbed bare run / time of the run under faults: the share of it that was needed
predicted     = lost work per failure: half an interval and the lag of the write, as failures come at any moment alike;
                ETTR to first order: T / (T + n (lost + detection + restart)), with detection and restart as measured;
                and exactly, by `efficiency` of core/interval.py, for failures at random as often as the drill's
"""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Literal

import msgspec

from lastgood.core.accounting import Record
from lastgood.core.interval import efficiency
from lastgood.drill.course import Course
from lastgood.drill.measure import Measured
from lastgood.trial.target import Way


class Saving(msgspec.Struct, frozen=True):
    """How the undisturbed job saves, by its journals."""

    count: int
    interval_s: float | None
    """Median time between two commits."""
    interval_steps: int | None
    write_s: float | None
    """Median, from the start of a save to its commit."""


OtherWay = Literal["started again", "from nothing"]


class Other(msgspec.Struct, frozen=True):
    """The same faults, met in another way."""

    way: Way
    took_s: float | None
    """None: it had not finished."""
    limit_s: float
    """After so long it was ended."""
    starts: int
    faults: int
    """How many came before its end."""
    exit_code: int | None


class Predicted(msgspec.Struct, frozen=True):
    lost_per_failure_s: float
    """Half an interval and the lag: where failures come at any moment alike."""
    ettr_first_order: float
    ettr: float
    """For failures at random as often as these. Far below the other where they come faster than a restart takes."""
    interval_s: float
    mtti_s: float
    """The time under faults less what they cost, per fault."""


class Bill(msgspec.Struct, frozen=True):
    bare_s: tuple[float, ...]
    protected_s: tuple[float, ...]
    disturbed_s: float
    overhead: float | None
    """Share; None without runs of both kinds. The noise of one run is in `spread`."""
    spread: float | None
    """Largest difference between two runs of the same kind, as a share of their median."""
    ettr: float | None
    lost_per_failure_s: float | None
    """Mean over the faults after which it resumed."""
    delay_per_failure_s: float | None
    """Mean from the harm until it had caught up."""
    saving: Saving
    predicted: Predicted | None
    others: tuple[Other, ...] = ()


def saving_of(records: Sequence[Record]) -> Saving:
    """Of one undisturbed run."""
    events = [event for record in records for event in record.events if event.kind == "committed"]
    gaps = [later.at - earlier.at for earlier, later in pairwise(events)]
    steps = [step for event in events if isinstance(step := event.data.get("step"), int)]
    strides = [later - earlier for earlier, later in pairwise(steps) if later > earlier]
    writes = [float(write) for event in events if isinstance(write := event.data.get("write_s"), int | float)]
    return Saving(
        count=len(events),
        interval_s=median(gaps) if gaps else None,
        interval_steps=round(median(strides)) if strides else None,
        write_s=median(writes) if writes else None,
    )


def make_bill(
    *,
    bare_s: Sequence[float],
    protected_s: Sequence[float],
    course: Course,
    has_finished: bool,
    saving: Saving,
    others: Sequence[Other] = (),
) -> Bill:
    """`has_finished`: under faults it has done the same work; of one that has not, no time can be compared."""
    measured = [struck.measured for struck in course.struck if struck.measured is not None]
    lost = [m.lost_s for m in measured if m.lost_s is not None]
    delays = [m.caught_up_s for m in measured if m.caught_up_s is not None and m.restarted_s is not None]
    base_s = median(bare_s) if bare_s else median(protected_s) if protected_s else None
    return Bill(
        bare_s=tuple(bare_s),
        protected_s=tuple(protected_s),
        disturbed_s=course.took_s,
        overhead=median(protected_s) / median(bare_s) - 1 if bare_s and protected_s else None,
        spread=max((_spread(times) for times in (bare_s, protected_s) if len(times) > 1), default=None),
        ettr=base_s / course.took_s if base_s and course.took_s > 0 and has_finished else None,
        lost_per_failure_s=sum(lost) / len(lost) if lost else None,
        delay_per_failure_s=sum(delays) / len(delays) if delays else None,
        saving=saving,
        predicted=_predict(course, measured, saving, bare_s, protected_s) if has_finished else None,
        others=tuple(others),
    )


def _predict(
    course: Course,
    measured: Sequence[Measured],
    saving: Saving,
    bare_s: Sequence[float],
    protected_s: Sequence[float],
) -> Predicted | None:
    """What the plan's formulas say of a job that saves like this one and fails as often."""
    restarted = [m for m in measured if m.restarted_s is not None and m.first_step_s is not None]
    if saving.interval_s is None or not restarted or not protected_s:
        return None
    detection_s = _mean([min(m.detected_s or 0.0, m.first_step_s or 0.0) for m in restarted])
    restart_s = max(_mean([m.first_step_s or 0.0 for m in restarted]) - detection_s, 0.0)
    mtti_s = max(course.took_s - sum(m.first_step_s or 0.0 for m in restarted), 0.001) / len(restarted)
    stall_s = 0.0
    if bare_s and saving.count:
        stall_s = min(max(median(protected_s) - median(bare_s), 0.0) / saving.count, saving.interval_s / 2)
    interval_s = saving.interval_s - stall_s
    lag_s = min(saving.write_s or 0.0, interval_s + stall_s)
    lost_s = saving.interval_s / 2 + lag_s
    base_s = median(bare_s or protected_s)
    return Predicted(
        lost_per_failure_s=lost_s,
        ettr_first_order=base_s / (median(protected_s) + len(restarted) * (lost_s + detection_s + restart_s)),
        ettr=efficiency(interval_s, stall_s, mtti_s, lag_s=lag_s, detection_s=detection_s, restart_s=restart_s),
        interval_s=saving.interval_s,
        mtti_s=mtti_s,
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _spread(times: Sequence[float]) -> float:
    return (max(times) - min(times)) / median(times)
