"""The bill: overheads by medians, and what the plan's formulas say of a job that saves and fails like this one."""

from typing import Any

import pytest

from lastgood.core.accounting import Record
from lastgood.core.events import Event
from lastgood.core.interval import efficiency
from lastgood.drill.bill import make_bill, saving_of
from lastgood.drill.course import Course, Struck
from lastgood.drill.fault import Consequence
from lastgood.drill.measure import Measured
from lastgood.drill.spec import parse_spec
from lastgood.drill.whole import in_other_way
from lastgood.trial.target import Target, Way

NOTHING: dict[str, Any] = dict.fromkeys(Measured.__struct_fields__)


def committed(*moments: float) -> Record:
    events = [Event("committed", at, {"step": 10 * i, "write_s": 0.2}) for i, at in enumerate(moments, 1)]
    return Record(1, 0.0, "launch", False, events)


def course(took_s: float, *measured: Measured) -> Course:
    struck = tuple(
        Struck(number=i, spec=parse_spec("kill-rank"), consequence=Consequence.RESTART, measured=one)
        for i, one in enumerate(measured, 1)
    )
    return Course(began_at=0.0, took_s=took_s, exit_code=0, starts=1, final_step=100, struck=struck)


def resumed(lost_s: float, *, detected_s: float = 1.0, first_step_s: float = 5.0, caught_up_s: float = 7.0) -> Measured:
    times = {"detected_s": detected_s, "restarted_s": 2.0, "first_step_s": first_step_s, "caught_up_s": caught_up_s}
    return Measured(
        **{**NOTHING, "lost_s": lost_s, "blur_steps": 0, "resumed_from": "storage", "ended_as": "", **times}
    )


def test_how_a_job_saves_is_read_from_its_journal() -> None:
    saving = saving_of([committed(10, 20, 31, 41)])
    assert (saving.count, saving.interval_s, saving.interval_steps, saving.write_s) == (4, 10, 10, 0.2)
    assert saving_of([committed(10)]).interval_s is None


def test_overhead_is_the_ratio_of_medians_and_its_noise_is_told() -> None:
    bill = make_bill(
        bare_s=[100, 101, 140],
        protected_s=[104, 103, 105],
        course=course(200),
        has_finished=True,
        saving=saving_of([]),
    )
    assert bill.overhead == pytest.approx(104 / 101 - 1)
    assert bill.spread == pytest.approx(40 / 101)
    assert bill.ettr == pytest.approx(101 / 200)


def test_losses_are_means_over_the_faults_after_which_it_resumed() -> None:
    went_on = Measured(**{**NOTHING, "blur_steps": 0, "resumed_from": "", "ended_as": "", "caught_up_s": 50.0})
    bill = make_bill(
        bare_s=[],
        protected_s=[100],
        course=course(120, resumed(2.0), resumed(4.0), went_on),
        has_finished=True,
        saving=saving_of([]),
    )
    assert (bill.lost_per_failure_s, bill.delay_per_failure_s) == (3.0, 7.0)
    assert (bill.overhead, bill.predicted) == (None, None)


def test_the_prediction_is_what_the_plans_formulas_say() -> None:
    saving = saving_of([committed(10, 20, 30, 40)])
    disturbed = course(120, resumed(2.0), resumed(4.0))
    bill = make_bill(bare_s=[96], protected_s=[100], course=disturbed, has_finished=True, saving=saving)
    predicted = bill.predicted
    assert predicted is not None
    # Four saves cost four seconds; a failure loses half an interval and the write, and 5 s until the next step.
    assert predicted.lost_per_failure_s == pytest.approx(5.2)
    assert predicted.mtti_s == pytest.approx((120 - 10) / 2)
    assert predicted.ettr == pytest.approx(efficiency(9, 1, 55, lag_s=0.2, detection_s=1, restart_s=4))
    assert predicted.ettr_first_order == pytest.approx(96 / (100 + 2 * (5.2 + 5)))


def test_of_a_job_that_did_not_finish_no_time_is_compared() -> None:
    saving = saving_of([committed(10, 20, 30, 40)])
    bill = make_bill(bare_s=[96], protected_s=[100], course=course(50, resumed(2.0)), has_finished=False, saving=saving)
    assert (bill.ettr, bill.predicted) == (None, None)
    assert bill.lost_per_failure_s == 2.0


def test_the_same_fault_in_another_way_hits_what_is_there() -> None:
    bare, with_files = Target(("x",), directory=None), Target(("x",), directory=None, checkpoints="out/*")  # type: ignore[arg-type]
    launcher, keeper, flip = (parse_spec(f"{name}@step=5") for name in ("kill-launcher", "kill-keeper", "flip-bit"))
    assert in_other_way(launcher, Way.LASTGOOD, bare) == launcher
    assert in_other_way(launcher, Way.AGAIN, bare) == parse_spec("kill-group@step=5")
    assert in_other_way(keeper, Way.AGAIN, bare) is None
    assert in_other_way(flip, Way.AGAIN, with_files) == flip
    assert in_other_way(flip, Way.FROM_NOTHING, with_files) == parse_spec("kill-group@step=5")
