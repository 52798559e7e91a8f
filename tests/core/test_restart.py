"""Who starts a job again, and when nobody does."""

import pytest

from lastgood.core.outcome import Ending, Outcome
from lastgood.core.restart import Action, Past, Policy, decide_restart, restarts_left


def past(
    outcome: Outcome,
    made_progress: bool | None = True,
    *,
    step: int | None = None,
    code: int | None = None,
    was_stop_asked: bool = False,
) -> Past:
    return Past(Ending(outcome, f"because of {outcome.value}", code), made_progress, step, was_stop_asked)


KILLED = past(Outcome.KILLED, code=137)


@pytest.mark.parametrize(
    "outcome",
    [Outcome.KILLED, Outcome.HANG, Outcome.COMMUNICATION, Outcome.STORAGE_ERROR, Outcome.OUT_OF_MEMORY],
)
def test_what_may_pass_is_restarted_at_once_after_progress(outcome: Outcome) -> None:
    decision = decide_restart([past(outcome)], Policy())
    assert (decision.action, decision.delay_s) == (Action.RESTART, 0.0)
    assert outcome.value in decision.reason


@pytest.mark.parametrize(("outcome", "code"), [(Outcome.PROGRAM_ERROR, 3), (Outcome.REFUSED, 80)])
def test_what_would_happen_again_is_not_restarted_and_keeps_its_code(outcome: Outcome, code: int) -> None:
    decision = decide_restart([past(outcome, code=code)], Policy())
    assert (decision.action, decision.exit_code) == (Action.GIVE_UP, code)


def test_a_listed_exit_code_is_restarted_although_it_is_a_program_error() -> None:
    assert decide_restart([past(Outcome.PROGRAM_ERROR, code=3)], Policy(restart_on=(3,))).action is Action.RESTART
    assert decide_restart([past(Outcome.PROGRAM_ERROR, code=4)], Policy(restart_on=(3,))).action is Action.GIVE_UP


def test_finished_is_done_even_if_a_stop_was_asked() -> None:
    decision = decide_restart([past(Outcome.FINISHED, was_stop_asked=True)], Policy())
    assert (decision.action, decision.exit_code) == (Action.DONE, 0)


def test_ctrl_c_ends_it_with_130_and_does_not_give_it_up() -> None:
    decision = decide_restart([past(Outcome.CANCELLED, was_stop_asked=True)], Policy())
    assert (decision.action, decision.exit_code) == (Action.HAND_BACK, 130)


@pytest.mark.parametrize("outcome", [Outcome.PREEMPTED, Outcome.TIME_LIMIT])
def test_a_stop_from_outside_is_handed_back_with_75(outcome: Outcome) -> None:
    decision = decide_restart([past(outcome, was_stop_asked=True)], Policy())
    assert (decision.action, decision.exit_code) == (Action.HAND_BACK, 75)


def test_a_program_that_asks_to_be_run_again_is() -> None:
    assert decide_restart([past(Outcome.PREEMPTED)], Policy()).action is Action.RESTART


class TestNoProgress:
    def test_two_attempts_in_a_row_without_progress_end_the_job(self) -> None:
        idle = past(Outcome.KILLED, made_progress=False)
        assert decide_restart([KILLED, idle], Policy()).action is Action.RESTART
        decision = decide_restart([KILLED, idle, idle], Policy())
        assert (decision.action, decision.exit_code) == (Action.GIVE_UP, 82)
        assert "2 attempts in a row" in decision.reason

    def test_progress_in_between_starts_the_count_anew(self) -> None:
        idle = past(Outcome.KILLED, made_progress=False)
        assert decide_restart([idle, KILLED, idle], Policy()).action is Action.RESTART

    def test_it_holds_for_a_program_that_keeps_asking_to_be_run_again(self) -> None:
        idle = past(Outcome.PREEMPTED, made_progress=False)
        assert decide_restart([idle, idle], Policy()).exit_code == 82

    def test_it_holds_for_time_limits_too_short_to_save_anything(self) -> None:
        idle = past(Outcome.TIME_LIMIT, made_progress=False, was_stop_asked=True)
        assert decide_restart([idle], Policy()).action is Action.HAND_BACK
        assert decide_restart([idle, idle], Policy()).exit_code == 82

    def test_preemptions_before_the_first_save_do_not_count_until_there_are_many(self) -> None:
        preempted = past(Outcome.PREEMPTED, made_progress=False, was_stop_asked=True)
        assert decide_restart([preempted] * 5, Policy()).action is Action.HAND_BACK
        assert decide_restart([preempted] * 6, Policy()).exit_code == 82

    def test_preemptions_do_not_hide_the_failures_between_them(self) -> None:
        preempted = past(Outcome.PREEMPTED, made_progress=False, was_stop_asked=True)
        idle = past(Outcome.KILLED, made_progress=False)
        assert decide_restart([idle, preempted, idle], Policy()).exit_code == 82

    def test_ctrl_c_before_the_first_save_never_counts(self) -> None:
        cancelled = past(Outcome.CANCELLED, made_progress=False, was_stop_asked=True)
        preempted = past(Outcome.PREEMPTED, made_progress=False, was_stop_asked=True)
        assert decide_restart([cancelled] * 10 + [preempted], Policy()).action is Action.HAND_BACK

    def test_where_progress_cannot_be_seen_the_rule_does_not_apply(self) -> None:
        unseen = past(Outcome.KILLED, made_progress=None)
        assert decide_restart([unseen] * 5, Policy()).action is Action.RESTART


class TestRestartLimit:
    def test_the_failure_after_the_last_allowed_restart_ends_the_job(self) -> None:
        assert decide_restart([KILLED] * 3, Policy(max_restarts=3)).action is Action.RESTART
        decision = decide_restart([KILLED] * 4, Policy(max_restarts=3))
        assert (decision.action, decision.exit_code) == (Action.GIVE_UP, 83)

    def test_preemptions_and_segments_do_not_count(self) -> None:
        preempted = past(Outcome.PREEMPTED, was_stop_asked=True)
        segment = past(Outcome.PREEMPTED)
        assert decide_restart([preempted, segment] * 10 + [KILLED], Policy(max_restarts=1)).action is Action.RESTART

    def test_endless_requests_to_be_run_again_count_where_no_progress_can_be_seen(self) -> None:
        again = past(Outcome.PREEMPTED, made_progress=None)
        assert decide_restart([again] * 4, Policy(max_restarts=3)).exit_code == 83

    def test_without_restarts_the_commands_own_code_is_passed_on(self) -> None:
        decision = decide_restart([KILLED], Policy(max_restarts=0))
        assert (decision.action, decision.exit_code) == (Action.GIVE_UP, 137)

    def test_without_restarts_a_saved_job_is_handed_back(self) -> None:
        assert decide_restart([past(Outcome.PREEMPTED)], Policy(max_restarts=0)).exit_code == 75

    def test_restarts_left_are_counted_by_cause(self) -> None:
        preempted = past(Outcome.PREEMPTED, was_stop_asked=True)
        finished = past(Outcome.FINISHED)
        assert restarts_left([KILLED, preempted, KILLED, finished], Policy(max_restarts=3)) == 1


class TestOutOfMemory:
    def test_once_is_restarted_twice_at_the_same_step_is_final(self) -> None:
        oom = past(Outcome.OUT_OF_MEMORY, step=7)
        assert decide_restart([oom], Policy()).action is Action.RESTART
        decision = decide_restart([oom, oom], Policy())
        assert (decision.action, decision.exit_code) == (Action.GIVE_UP, 84)
        assert "step 7" in decision.reason

    def test_at_another_step_it_is_restarted(self) -> None:
        both = [past(Outcome.OUT_OF_MEMORY, step=7), past(Outcome.OUT_OF_MEMORY, step=9)]
        assert decide_restart(both, Policy()).action is Action.RESTART

    def test_without_known_steps_twice_is_the_same_place_unless_there_was_progress(self) -> None:
        assert decide_restart([past(Outcome.OUT_OF_MEMORY, None)] * 2, Policy()).exit_code == 84
        assert decide_restart([past(Outcome.OUT_OF_MEMORY, True)] * 2, Policy()).action is Action.RESTART

    def test_a_preemption_in_between_changes_nothing(self) -> None:
        oom = past(Outcome.OUT_OF_MEMORY, step=7)
        preempted = past(Outcome.PREEMPTED, was_stop_asked=True)
        assert decide_restart([oom, preempted, oom], Policy()).exit_code == 84


def test_the_delay_doubles_without_progress_up_to_its_limit() -> None:
    unseen = past(Outcome.KILLED, made_progress=None)
    policy = Policy(first_delay_s=1.0, longest_delay_s=5.0)
    assert [decide_restart([unseen] * n, policy).delay_s for n in (1, 2, 3, 4, 5)] == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_a_program_that_asks_to_be_run_again_at_once_for_ever_is_slowed_down() -> None:
    again = past(Outcome.PREEMPTED, made_progress=None)
    assert decide_restart([again] * 20, Policy()).delay_s == 60.0
