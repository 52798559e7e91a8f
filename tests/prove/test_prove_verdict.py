"""What a proof answers, from what its runs have shown."""

import msgspec
import pytest

from lastgood.prove.difference import Comparison, Difference, not_comparable
from lastgood.prove.killing import Hit
from lastgood.prove.plan_of_kills import Kill, Phase
from lastgood.prove.resuming import Resumed
from lastgood.prove.verdict import Answer, Killed, Part, judge

HIT = Hit(Kill(Phase.BETWEEN, 1, step=15), True, 0.0, 15, 1, "SIGKILL to all its processes")
MISSED = Hit(Kill(Phase.BETWEEN, 1, step=15), False, 0.0, 20, 1, "it ended before step 15 was seen")
RESUMED = Resumed(killed_at=15, step=10, newest_step=10, newest="out/step_10.pt")
EQUAL = Part("logged values", Comparison(kind="identical", compared=20))


def differing(relative: float, step: int = 11) -> Part:
    difference = Difference(what="loss", left="1.0", right="1.5", step=step, absolute=0.5, relative=relative, ulp=9)
    comparison = Comparison(
        kind="differs",
        compared=20,
        differing=9,
        beyond=9,
        first=difference,
        first_beyond=difference,
        largest_relative=difference,
    )
    return Part("logged values", comparison, equal_to=step - 1)


def killed(
    *parts: Part,
    hit: Hit = HIT,
    resumed: Resumed | None = RESUMED,
    exit_code: int | None = 0,
    word: str = "",
) -> Killed:
    return Killed("killed-1", (hit,), (resumed,) if resumed else (), exit_code, 60.0, word, parts)


def test_equal_in_every_bit_is_identical():
    verdict = judge([EQUAL], [killed(EQUAL)])
    assert verdict.answer is Answer.IDENTICAL
    assert "20 logged values" in verdict.reason
    assert verdict.answer.exit_code == 0


def test_equal_within_a_tolerance_says_so():
    within = Part("logged values", Comparison(kind="within", compared=20, differing=3))
    assert judge([EQUAL], [killed(within)]).answer is Answer.WITHIN


def test_other_numbers_with_exit_code_0_are_a_silent_divergence_and_say_where():
    verdict = judge([EQUAL], [killed(differing(0.3))])
    assert verdict.answer is Answer.DIVERGED
    assert "exit code 0" in verdict.reason
    assert "step 11, loss" in verdict.reason
    assert verdict.answer.exit_code == 1


def test_a_run_that_ends_at_another_step_diverged_also_where_all_matched_steps_are_equal():
    short = Part("logged values", Comparison(kind="identical", compared=15), ends_at=15, should_end_at=20)
    verdict = judge([EQUAL], [killed(short)])
    assert verdict.answer is Answer.DIVERGED
    assert "ended at step 15, the undisturbed run at step 20" in verdict.reason


@pytest.mark.parametrize(("code", "told"), [(1, "exit code 1: ValueError: torn"), (-11, "SIGSEGV: ValueError: torn")])
def test_a_run_that_fails_after_the_kill_did_not_resume(code: int, told: str):
    verdict = judge([EQUAL], [killed(exit_code=code, word="ValueError: torn")])
    assert verdict.answer is Answer.DID_NOT_RESUME
    assert told in verdict.reason


def test_a_refused_start_did_not_resume():
    refused = Resumed(killed_at=15, step=None, newest_step=10, refused="earlier attempts saved, and nothing is there")
    verdict = judge([EQUAL], [killed(resumed=refused, exit_code=80)])
    assert verdict.answer is Answer.DID_NOT_RESUME
    assert "nothing is there" in verdict.reason


def test_beginning_at_zero_beside_a_checkpoint_did_not_resume_even_where_the_numbers_are_equal():
    verdict = judge([EQUAL], [killed(EQUAL, resumed=Resumed(15, 0, 10, "out/step_10.pt"))])
    assert verdict.answer is Answer.DID_NOT_RESUME
    assert "out/step_10.pt (step 10) was there" in verdict.reason


def test_beginning_at_zero_without_any_checkpoint_is_right_and_proves_nothing():
    at_zero = killed(EQUAL, resumed=Resumed(3, 0, None))
    verdict = judge([EQUAL], [at_zero])
    assert verdict.answer is Answer.UNKNOWN
    assert "before a first checkpoint" in verdict.reason
    assert judge([EQUAL], [at_zero, killed(EQUAL)]).answer is Answer.IDENTICAL


def test_where_the_step_that_it_went_on_after_was_not_seen_equal_numbers_prove_nothing():
    verdict = judge([EQUAL], [killed(EQUAL, resumed=Resumed(15, None, 10, "out/step_10.pt"))])
    assert verdict.answer is Answer.UNKNOWN
    assert "nothing shows that it resumed" in verdict.reason


def test_resuming_from_an_older_checkpoint_lost_work_though_the_numbers_are_equal():
    verdict = judge([EQUAL], [killed(EQUAL, resumed=Resumed(15, 4, 10, "out/step_10.pt", slack=2))])
    assert verdict.answer is Answer.LOST_WORK
    assert "6 steps lost" in verdict.reason


def test_what_the_way_of_seeing_leaves_open_is_no_lost_work():
    assert (
        judge([EQUAL], [killed(EQUAL, resumed=Resumed(15, 8, 10, "out/step_10.pt", slack=2))]).answer
        is Answer.IDENTICAL
    )


def test_both_lost_work_and_other_numbers_are_told():
    run = killed(differing(0.3, step=5), resumed=Resumed(15, 4, 10, "out/step_10.pt"))
    judged = judge([EQUAL], [run]).runs[0]
    assert judged.answer is Answer.DIVERGED
    assert [answer for answer, _ in judged.also] == [Answer.LOST_WORK]


def test_a_kill_that_missed_is_unknown_even_where_all_is_equal():
    verdict = judge([EQUAL], [killed(EQUAL, hit=MISSED, resumed=None)])
    assert verdict.answer is Answer.UNKNOWN
    assert "it ended before step 15 was seen" in verdict.reason
    assert verdict.answer.exit_code == 3


def test_the_limit_is_unknown():
    verdict = judge([EQUAL], [killed(exit_code=None)])
    assert verdict.answer is Answer.UNKNOWN
    assert "limit of 60 s" in verdict.reason


def test_nothing_compared_is_unknown():
    verdict = judge([], [killed(Part("logged values", not_comparable("no step is in both")))])
    assert verdict.answer is Answer.UNKNOWN
    assert "no step is in both" in verdict.reason


def test_a_job_that_differs_from_itself_is_told_apart_from_a_bad_resume():
    verdict = judge([differing(0.3)], [killed(differing(0.4))])
    assert verdict.answer is Answer.NOT_DETERMINISTIC
    assert "0.4 against relative 0.3" in verdict.reason
    assert verdict.answer.exit_code == 1


def test_a_resumed_run_that_differs_far_more_than_two_undisturbed_ones_diverged():
    verdict = judge([differing(1e-7)], [killed(differing(0.4))])
    assert verdict.answer is Answer.DIVERGED
    assert "two undisturbed runs differ already" in verdict.reason


def test_an_equal_resume_of_a_job_that_differs_from_itself_proves_nothing():
    assert judge([differing(0.3)], [killed(EQUAL)]).answer is Answer.NOT_DETERMINISTIC


def test_the_worst_run_decides():
    runs = [killed(EQUAL), killed(exit_code=1), killed(differing(0.1)), killed(EQUAL, hit=MISSED, resumed=None)]
    verdict = judge([EQUAL], runs)
    assert verdict.answer is Answer.DID_NOT_RESUME
    assert [run.answer for run in verdict.runs] == [
        Answer.IDENTICAL,
        Answer.DID_NOT_RESUME,
        Answer.DIVERGED,
        Answer.UNKNOWN,
    ]


def test_one_missed_kill_among_equal_runs_leaves_the_answer_unknown():
    assert judge([EQUAL], [killed(EQUAL), killed(EQUAL, hit=MISSED, resumed=None)]).answer is Answer.UNKNOWN


def test_no_kill_at_all_is_unknown():
    assert judge([EQUAL], []).answer is Answer.UNKNOWN


def by_time(after_s: float, saved_s: float | None, killed_s: float = 5.0) -> Killed:
    """Of 10 s of work, without a step that can be seen."""
    hit = Hit(Kill(Phase.BETWEEN, 1, after_s=0.5), True, 100.0 + killed_s, None, 1, "SIGKILL")
    resumed = Resumed(None, None, None, newest_at=None if saved_s is None else 100.0 + saved_s)
    return Killed("killed-1", (hit,), (resumed,), 0, 60.0, "", (EQUAL,), 100.0, killed_s + after_s, 10.0)


@pytest.mark.parametrize(
    ("after_s", "saved_s", "killed_s", "answer"),
    [
        (10.0, 4.0, 5.0, Answer.UNKNOWN),
        (8.1, 4.0, 5.0, Answer.UNKNOWN),
        (7.9, 4.0, 5.0, Answer.IDENTICAL),
        (6.0, 4.0, 5.0, Answer.IDENTICAL),
        (9.5, 2.0, 2.5, Answer.UNKNOWN),
        (8.0, 2.0, 2.5, Answer.IDENTICAL),
        (9.4, 0.6, 1.0, Answer.UNKNOWN),
        (5.0, 0.6, 1.0, Answer.UNKNOWN),
        (5.0, None, 5.0, Answer.UNKNOWN),
    ],
)
def test_where_no_step_can_be_seen_a_run_that_may_have_begun_at_zero_is_unknown(
    after_s: float, saved_s: float | None, killed_s: float, answer: Answer
):
    verdict = judge([EQUAL], [by_time(after_s, saved_s, killed_s)])
    assert verdict.answer is answer
    assert ("--step-pattern" in verdict.reason) == (answer is Answer.UNKNOWN)


def test_what_an_earlier_resume_had_saved_counts_for_the_time_that_a_later_one_may_take():
    first = by_time(0.0, 4.0)
    # Saved after 3 s of the second start, which went on from 4 s: after 7 s of the work.
    second = Hit(first.hits[0].kill, True, 109.0, None, 2, "SIGKILL")
    resumed = (*first.resumed, Resumed(None, None, None, newest_at=108.0))

    def ended(after_s: float) -> Killed:
        return msgspec.structs.replace(first, hits=(*first.hits, second), resumed=resumed, took_s=9.0 + after_s)

    assert judge([EQUAL], [ended(4.0)]).answer is Answer.IDENTICAL
    assert judge([EQUAL], [ended(8.0)]).answer is Answer.UNKNOWN


@pytest.mark.parametrize(("after_s", "answer"), [(22.0, Answer.IDENTICAL), (28.0, Answer.UNKNOWN)])
def test_a_start_up_is_done_again_and_is_not_taken_for_work_that_was_saved(after_s: float, answer: Answer):
    # 8 s to start, 20 s of work, of which 6 s were saved.
    run = msgspec.structs.replace(by_time(after_s, 14.0, 15.0), undisturbed_s=28.0, startup_s=8.0)
    assert judge([EQUAL], [run]).answer is answer


def test_a_part_that_cannot_be_compared_after_the_resume_leaves_the_answer_unknown_however_equal_the_rest_is():
    unread = Part("values in final files", not_comparable("energies: gmx is not in PATH"))
    equal = Part("values in final files", Comparison(kind="identical", compared=9))
    verdict = judge([EQUAL, equal], [killed(EQUAL, unread)])
    assert verdict.answer is Answer.UNKNOWN
    assert verdict.reason == "values in final files cannot be compared: energies: gmx is not in PATH"
    assert judge([EQUAL, equal], [killed(differing(0.3), unread)]).answer is Answer.DIVERGED


def test_parts_that_hold_nothing_are_no_proof_and_no_hindrance():
    empty = Part("values in final files", Comparison(kind="identical", compared=0, notes=("w is empty in both",)))
    verdict = judge([empty], [killed(empty)])
    assert verdict.answer is Answer.UNKNOWN
    assert verdict.reason == "nothing could be compared: w is empty in both"
    assert judge([EQUAL, empty], [killed(EQUAL, empty)]).reason == "20 logged values equal bit for bit"


def test_what_undisturbed_runs_have_equal_and_the_resumed_one_has_not_diverged_whatever_else_they_differ_in():
    files = msgspec.structs.replace(differing(0.2), name="values in final files", equal_to=None)
    verdict = judge([EQUAL, files], [killed(differing(0.1), files)])
    assert verdict.answer is Answer.DIVERGED
    assert "where two undisturbed runs are equal; first: step 11, loss" in verdict.reason
    assert [answer for answer, _ in verdict.runs[0].also] == [Answer.NOT_DETERMINISTIC]


LAST = "values in the end of its output"


@pytest.mark.parametrize(
    ("relative", "answer"),
    [(0.011, Answer.NOT_DETERMINISTIC), (0.4, Answer.DIVERGED), (float("inf"), Answer.DIVERGED)],
)
def test_a_coarse_number_in_the_end_that_was_equal_by_chance_may_differ_as_much_as_the_values_on_the_way_do(
    relative: float, answer: Answer
):
    last = msgspec.structs.replace(differing(relative), name=LAST, equal_to=None)
    values = differing(0.05)
    assert judge([values], [killed(values, last)]).answer is answer
    files = msgspec.structs.replace(values, name="values in final files")
    assert judge([files], [killed(files, last)]).answer is Answer.DIVERGED


def test_a_number_in_the_end_that_differs_is_not_excused_by_runs_that_end_elsewhere_or_differ_in_words():
    last = msgspec.structs.replace(differing(0.011), name=LAST, equal_to=None)
    elsewhere = Part("logged values", Comparison(kind="identical", compared=15), ends_at=15, should_end_at=20)
    for pair in (elsewhere, differing(float("inf"))):
        assert judge([pair], [killed(last)]).answer is Answer.DIVERGED


def test_where_two_undisturbed_runs_end_at_different_steps_a_resumed_one_may_too():
    ended = [
        Part("logged values", Comparison(kind="identical", compared=9), ends_at=end, should_end_at=20)
        for end in (15, 17)
    ]
    assert judge(ended[:1], [killed(ended[1])]).answer is Answer.NOT_DETERMINISTIC
    assert judge([EQUAL], [killed(ended[1])]).answer is Answer.DIVERGED
