"""Jobs as strangers bring them to a drill: what they make of a fault is not taken for more than it shows."""

import pytest

from lastgood.drill.fault import Answer
from lastgood.drill.measure import Measured
from lastgood.drill.quiet import QUIET_S, Quiet

from .test_drill_verdict import course, judged, measured, struck


@pytest.mark.parametrize(("resumed", "answer"), [(101, Answer.PASS), (102, Answer.UNKNOWN), (131, Answer.UNKNOWN)])
def test_a_job_that_goes_on_after_a_step_that_it_never_did_is_not_said_to_have_come_through(
    resumed: int, answer: Answer
) -> None:
    told = judged(struck(measured=measured(resumed_step=resumed, lost_steps=0, blur_steps=1)))
    assert told.answer is answer
    assert ("skips" in told.reason) == (answer is Answer.UNKNOWN)


def test_where_steps_can_be_read_nobody_is_told_to_say_how() -> None:
    nothing_left: Measured = measured(reached_step=200, checkpoint_step=200, resumed_step=None)
    told = judged(struck("terminate@step=100", measured=nothing_left), course(exit_code=0))
    assert told.answer is Answer.UNKNOWN
    assert "--step-pattern" not in told.remedy
    assert "earlier moment" in told.remedy


def test_a_job_that_does_nothing_for_long_is_said_once_each_time_and_how_long_it_is_waited_for() -> None:
    quiet = Quiet(limit_s=3600.0)
    assert quiet.told(0.0, (1, 1), 0.0) == ""
    assert quiet.told(QUIET_S - 1, (1, 1), QUIET_S - 1) == ""
    assert "at most 59 min" in quiet.told(QUIET_S + 1, (1, 1), 60.0)
    assert quiet.told(QUIET_S + 2, (1, 1), 61.0) == ""
    assert quiet.told(100.0, (2, 1), 100.0) == ""
    assert quiet.told(100.0 + QUIET_S, (2, 1), 100.0 + QUIET_S) != ""
