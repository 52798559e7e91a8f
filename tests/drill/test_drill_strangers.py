"""Jobs as strangers bring them to a drill: what they make of a fault is not taken for more than it shows."""

import pytest

from lastgood.drill.fault import Answer
from lastgood.drill.measure import Measured

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
