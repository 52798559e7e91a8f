"""The verdict: what passes, what fails, and what cannot tell and is therefore never a pass."""

from typing import Any

import msgspec
import pytest

from lastgood.drill.course import NEVER_CAME, Course, Struck
from lastgood.drill.fault import Answer, Consequence, Injected
from lastgood.drill.measure import Measured
from lastgood.drill.spec import parse_spec
from lastgood.drill.verdict import Judged, judge, judge_calm, judge_end, judge_fault

PASS, FAIL, UNKNOWN = Answer.PASS, Answer.FAIL, Answer.UNKNOWN
NOTHING: dict[str, Any] = dict.fromkeys(Measured.__struct_fields__)


def measured(**told: Any) -> Measured:
    usual = {"reached_step": 100, "checkpoint_step": 90, "resumed_step": 90, "blur_steps": 0, "resumed_from": "storage"}
    return Measured(**{**NOTHING, **usual, "lost_steps": 10, "restarted_s": 1.0, "ended_as": "", **told})


def struck(text: str = "kill-rank@step=100", **told: Any) -> Struck:
    usual: dict[str, Any] = {
        "consequence": Consequence.RESTART,
        "injected": Injected(1.0, "SIGKILL"),
        "has_effect": True,
    }
    return Struck(number=1, spec=parse_spec(text), **{**usual, "measured": measured(), "has_begun_again": True, **told})


def course(**told: Any) -> Course:
    usual: dict[str, Any] = {"took_s": 10.0, "exit_code": 0, "starts": 1, "final_step": 200, "has_checkpoints": True}
    return Course(began_at=0.0, **{**usual, "has_steps": True, **told})


def judged(one: Struck, of: Course | None = None) -> Judged:
    return judge_fault(one, of or course(), is_last=True)


def test_a_job_that_goes_on_from_the_checkpoint_before_the_fault_passes() -> None:
    assert judged(struck()) == Judged(
        PASS, "went on after step 90, from the checkpoint before the fault: 10 steps lost", shows_resume=True
    )
    assert "memory" in judged(struck(measured=measured(resumed_step=98, resumed_from="memory", lost_steps=2))).reason
    assert "nothing lost" in judged(struck(measured=measured(resumed_step=100, lost_steps=0))).reason


def test_work_that_is_lost_beyond_the_checkpoint_before_the_fault_fails() -> None:
    answer = judged(struck(measured=measured(resumed_step=80)))
    assert answer.answer is FAIL
    assert "10 steps lost beyond it" in answer.reason
    assert judged(struck(measured=measured(resumed_step=0, resumed_from="zero"))).reason.startswith("began from zero")


def test_output_that_tells_every_tenth_step_is_not_taken_at_its_word() -> None:
    assert judged(struck(measured=measured(resumed_step=80, blur_steps=10))).answer is PASS
    assert judged(struck(measured=measured(resumed_step=79, blur_steps=10))).answer is FAIL


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"injected": None, "measured": None, "why_not": "no keeper was running"}, "no keeper was running"),
        ({"has_effect": False}, "did not take effect"),
        ({"has_effect": None}, "cannot be told"),
        ({"healing_problem": "the disk is still full"}, "could not be undone"),
        ({"measured": measured(resumed_step=None)}, "nothing tells"),
    ],
)
def test_a_fault_that_did_not_test_the_job_is_unknown(told: dict[str, Any], said: str) -> None:
    answer = judged(struck(**told))
    assert (answer.answer, said in answer.reason) == (UNKNOWN, True)


def test_a_fault_that_came_too_late_says_what_to_change() -> None:
    answer = judged(struck(injected=None, measured=None, why_not=NEVER_CAME))
    assert (answer.answer, "earlier moment than step=100" in answer.remedy) == (UNKNOWN, True)
    in_save = judged(struck("kill-rank@phase=save", injected=None, measured=None, why_not="never caught"))
    assert "kill-at-every-operation" in in_save.remedy


def test_a_job_that_does_not_come_back_fails() -> None:
    gone = struck(measured=measured(resumed_step=None, resumed_from="", restarted_s=None), has_begun_again=False)
    answer = judged(gone, course(exit_code=82, ended_as="no progress"))
    assert (answer.answer, answer.reason) == (FAIL, "it did not come back: it ended with exit code 82 (no progress)")
    assert judged(gone, course(exit_code=None, is_over_limit=True)).answer is FAIL
    # It was hit, and nothing followed from it.
    assert judged(gone).answer is UNKNOWN


def test_a_start_that_refuses_after_a_kill_fails() -> None:
    assert judged(struck(refused="a checkpoint was expected")).answer is FAIL


def test_a_fault_before_the_first_checkpoint_is_no_loss_and_no_proof() -> None:
    early = judged(struck(measured=measured(checkpoint_step=None, resumed_step=0, resumed_from="zero", lost_steps=3)))
    assert (early.answer, early.shows_resume) == (PASS, False)
    assert judge([early], Judged(PASS, "it finished")).answer is UNKNOWN
    assert judge([early, judged(struck())], Judged(PASS, "it finished")).answer is PASS


def test_a_command_of_which_nothing_is_known_must_not_begin_from_zero() -> None:
    unseen = measured(checkpoint_step=None, resumed_step=0, resumed_from="zero")
    answer = judged(struck(measured=unseen), course(has_checkpoints=None))
    assert (answer.answer, "--checkpoints" in answer.remedy) == (FAIL, True)


def test_a_keeper_may_die_without_a_restart() -> None:
    alone = measured(resumed_step=None, resumed_from="", restarted_s=None, caught_up_s=1.0, saved_since=110)
    answer = judged(struck(consequence=Consequence.GO_ON, measured=alone, has_begun_again=False))
    assert (answer.answer, answer.reason) == (PASS, "it went on without a restart, and has saved step 110 since")


DAMAGED = Injected(1.0, "cut", damaged=("ckpt-90",), evidence={"checkpoint_step": 90})


def fall_back(**told: Any) -> Judged:
    of = told.pop("course", None)
    numbers = told.pop("measured", measured(checkpoint_step=80, resumed_step=80))
    usual = {"consequence": Consequence.FALL_BACK, "injected": DAMAGED, "measured": numbers}
    return judged(struck("truncate@step=95", **{**usual, **told}), of)


def test_a_damaged_checkpoint_may_be_passed_over_or_refused() -> None:
    assert fall_back() == Judged(PASS, "passed ckpt-90 over, went on after step 80", shows_resume=True)
    assert fall_back(refused="damaged", has_begun_again=False).answer is PASS
    alone = measured(checkpoint_step=None, resumed_step=None, resumed_from="")
    crashed = fall_back(measured=alone, has_begun_again=False, course=course(exit_code=1))
    assert (crashed.answer, crashed.remedy) == (PASS, "keep more than one checkpoint")


def test_a_damaged_checkpoint_must_not_be_taken() -> None:
    assert fall_back(measured=measured(checkpoint_step=80, resumed_step=90)).answer is FAIL
    assert fall_back(resumed_name="ckpt-90").answer is FAIL
    alone = measured(checkpoint_step=None, resumed_step=90)
    assert fall_back(measured=alone).answer is FAIL


def about(resumed: int, blur: int, expected: int | None) -> Measured:
    return measured(checkpoint_step=expected, resumed_step=resumed, blur_steps=blur)


def damaged_at(step: int) -> Injected:
    return msgspec.structs.replace(DAMAGED, evidence={"checkpoint_step": step})


def test_a_damaged_checkpoint_that_was_taken_is_seen_through_output_that_does_not_tell_every_step() -> None:
    # It prints every tenth step and saves every 25: after 125 the first that it prints is 130.
    assert fall_back(measured=about(120, 10, 100), injected=damaged_at(125)).answer is FAIL
    assert fall_back(measured=about(100, 10, 100), injected=damaged_at(125)).answer is PASS
    # It prints "resuming from step 100" first.
    assert fall_back(measured=about(99, 1, 75), injected=damaged_at(100)).answer is FAIL


def test_whether_the_damaged_one_or_the_one_before_was_taken_is_unknown_where_output_does_not_tell() -> None:
    both = fall_back(measured=about(80, 20, 90), injected=damaged_at(100))
    assert (both.answer, "print each step" in both.remedy) == (UNKNOWN, True)
    assert fall_back(measured=about(0, 10, 5), injected=damaged_at(8)).answer is UNKNOWN


def killed(newest: int, resumed: int) -> Struck:
    """With the newest checkpoint that its next start could take."""
    injected = Injected(1.0, "SIGKILL", evidence={"newest_step": newest})
    return struck("kill-group@step=20", injected=injected, measured=about(resumed, 1, newest))


@pytest.mark.parametrize("stride", [1, 10])
def test_a_job_that_saves_as_often_as_it_prints_passes_where_another_restart_shows_how_to_read_its_output(
    stride: int,
) -> None:
    # The checkpoint of step 400 is damaged, and after the one before it the first line is of step 400.
    passed_over = {"measured": about(400 - stride, stride, 400 - stride), "injected": damaged_at(400)}
    assert fall_back(**passed_over, course=course(struck=(killed(200, 200),))).answer is PASS
    # It prints "resuming from step 200" first, so that it may do that here, too.
    for others in [(), (killed(200, 199),), (struck(),)]:
        told = fall_back(**passed_over, course=course(struck=others))
        assert (told.answer, "kill-group" in told.remedy) == (UNKNOWN, True)
        assert "print each step" not in told.remedy


def test_a_damaged_checkpoint_that_was_taken_is_no_pass_whatever_other_restarts_have_shown() -> None:
    others = course(struck=(killed(20, 20),))
    assert fall_back(measured=about(40, 1, 39), injected=damaged_at(40), course=others).answer is FAIL
    # It prints every tenth step and saves every fifth: after 100 and after 105 the first that it prints is 110.
    assert fall_back(measured=about(100, 10, 100), injected=damaged_at(105), course=others).answer is UNKNOWN


def test_going_on_from_a_checkpoint_before_the_first_line_of_output_is_no_start_from_zero() -> None:
    assert fall_back(measured=about(0, 10, 5), injected=damaged_at(15)).answer is PASS


def test_a_checkpoint_that_is_lost_because_it_was_being_overwritten_fails() -> None:
    zero = measured(checkpoint_step=None, resumed_step=0, resumed_from="zero")
    lost = judged(struck("kill-group@phase=save", measured=zero, overwritten_step=90))
    assert (lost.answer, "a checkpoint of step 90 was being overwritten" in lost.reason) == (FAIL, True)
    assert judged(struck(measured=measured(checkpoint_step=None, resumed_step=95), overwritten_step=90)).answer is PASS
    assert judged(struck(measured=about(0, 10, None), overwritten_step=5)).answer is UNKNOWN


def test_a_name_that_was_handed_on_tells_more_than_a_step_that_was_seen_late() -> None:
    late = measured(checkpoint_step=None, resumed_step=90)
    assert fall_back(resumed_name="ckpt-90-before", measured=late).answer is PASS
    assert fall_back(resumed_name="ckpt-90", measured=late).answer is FAIL


def test_what_the_program_says_itself_outweighs_what_it_was_handed() -> None:
    own_words = measured(checkpoint_step=80, resumed_step=80, blur_steps=1)
    assert fall_back(resumed_name="ckpt-90", measured=own_words).answer is PASS


def test_falling_back_further_than_needed_fails() -> None:
    assert fall_back(measured=measured(checkpoint_step=80, resumed_step=70)).answer is FAIL
    zero = measured(checkpoint_step=None, resumed_step=0, resumed_from="zero")
    assert "without a word" in fall_back(measured=zero).reason
    crashed = fall_back(has_begun_again=False, measured=measured(checkpoint_step=80), course=course(exit_code=1))
    assert crashed.answer is FAIL


def test_the_end_is_held_against_the_undisturbed_run() -> None:
    assert judge_end(course(), course()).answer is PASS
    assert judge_end(course(final_step=190), course()).reason == "it ended at step 190; undisturbed it ends at step 200"
    assert judge_end(course(exit_code=1), course()).answer is FAIL
    assert judge_end(course(exit_code=-9), course()).reason == "it ended with SIGKILL"
    assert judge_end(course(is_over_limit=True, exit_code=None), course()).answer is FAIL
    assert judge_end(course(is_ended_early=True, exit_code=None), course()).answer is PASS


def test_a_refusal_of_the_only_checkpoint_is_no_failed_end() -> None:
    one = struck(
        consequence=Consequence.FALL_BACK,
        has_begun_again=False,
        measured=measured(checkpoint_step=None, resumed_step=None),
    )
    assert judge_end(course(exit_code=80, struck=(one,)), course()).answer is PASS
    with_other = msgspec.structs.replace(one, measured=measured(checkpoint_step=80, resumed_step=None))
    assert judge_end(course(exit_code=80, struck=(with_other,)), course()).answer is FAIL


@pytest.mark.parametrize(
    ("told", "is_handed_on", "answer"),
    [
        ({}, False, None),
        ({"exit_code": 3}, True, UNKNOWN),
        ({"is_over_limit": True, "exit_code": None}, True, UNKNOWN),
        ({"has_checkpoints": False}, True, FAIL),
        ({"has_checkpoints": None, "has_steps": False}, True, UNKNOWN),
        ({"has_checkpoints": True, "has_steps": False}, False, UNKNOWN),
        ({"has_checkpoints": True, "has_steps": False}, True, None),
        ({"has_checkpoints": None}, True, None),
    ],
)
def test_what_the_undisturbed_run_says_is_said_at_once(told: dict[str, Any], is_handed_on: bool, answer: Any) -> None:
    said = judge_calm(course(**told), is_handed_on=is_handed_on)
    assert (said.answer if said else None) is answer


def test_a_fail_outweighs_what_is_unknown_and_that_what_passed() -> None:
    one, two, three = Judged(PASS, "a", shows_resume=True), Judged(UNKNOWN, "b", "do c"), Judged(FAIL, "d")
    end = Judged(PASS, "it finished")
    assert judge([one, two, three], end).answer is FAIL
    assert judge([one, two], end) == Judged(UNKNOWN, "fault 2: b", "do c")
    assert judge([one], end) == Judged(PASS, "it came through the fault, and finished")
    assert judge([one, two], Judged(FAIL, "it hung")).answer is FAIL
    assert judge([one], Judged(UNKNOWN, "who knows")).answer is UNKNOWN
