"""What attempts did and lost, from journals."""

import pytest

from lastgood.core.accounting import RESTARTED_INSIDE, Record, account, joined, launches_after
from lastgood.core.events import Event


def event(kind: str, at: float, **data: object) -> Event:
    return Event(kind, at, data)


def started(at: float, step: int = 0, how: str = "fresh") -> Event:
    return event("started", at, step=step, how=how)


def ended(at: float, step: int | None, outcome: str = "killed") -> Event:
    return event("ended", at, step=step, outcome=outcome, reason="so it was", exit_code=137)


def record(number: int, *events: Event, launch: str = "L", began: float = 0.0, is_fresh: bool = False) -> Record:
    return Record(number, began, launch, is_fresh, [event("launched", began), *events])


def test_steps_after_the_last_checkpoint_are_lost_with_the_time_since_its_commit() -> None:
    first = record(1, started(1.0), event("committed", 11.0, step=10), ended(15.5, 14), began=0.0)
    second = record(
        2, started(20.0, 10, "resumed"), event("committed", 30.0, step=20), ended(31.0, 20, "finished"), began=16.0
    )
    one, two = account([first, second], 20)
    assert (one.lost_steps, one.lost_s, one.steps_done) == (4, 4.5, 14)
    assert (two.lost_steps, two.lost_s, two.steps_done, two.from_step) == (0, 0.0, 10, 10)


def test_an_attempt_that_never_saved_loses_all_of_its_time() -> None:
    (only,) = account([record(1, started(1.0), ended(9.0, 7), began=0.0)], None)
    assert (only.lost_steps, only.lost_s, only.saved_step) == (7, 9.0, None)
    assert only.has_progressed is False


def test_a_fallback_past_a_damaged_checkpoint_loses_what_the_next_attempt_does_again() -> None:
    first = record(
        1,
        started(0.0),
        event("committed", 10.0, step=10),
        event("committed", 20.0, step=20),
        ended(21.0, 21),
        began=0.0,
    )
    second = record(2, started(30.0, 10, "resumed"), began=29.0)
    one, _ = account([first, second], 20, is_running=True)
    assert (one.lost_steps, one.lost_s) == (11, 11.0)


def test_an_attempt_that_died_before_it_started_passes_the_question_on() -> None:
    first = record(1, started(0.0), event("committed", 10.0, step=10), ended(12.0, 11), began=0.0)
    second = record(2, ended(13.0, None), began=12.5)
    third = record(3, started(14.0, 10, "resumed"), began=13.5)
    one, two, _ = account([first, second, third], 10, is_running=True)
    assert one.lost_steps == 1
    assert (two.lost_steps, two.has_progressed) == (0, None)


def test_the_newest_attempt_is_judged_by_the_last_good_checkpoint() -> None:
    (only,) = account([record(1, started(0.0), event("committed", 5.0, step=5), ended(8.0, 7))], 5)
    assert (only.lost_steps, only.lost_s) == (2, 3.0)


@pytest.mark.parametrize("last_good", [None, 5, 8])
def test_a_finished_attempt_has_lost_nothing_whatever_became_of_its_checkpoints(last_good: int | None) -> None:
    end = ended(9.0, 8, "finished")
    (only,) = account([record(1, started(0.0), event("committed", 5.0, step=5), end)], last_good)
    assert (only.lost_steps, only.lost_s, only.reached_step, only.saved_step) == (0, 0.0, 8, 5)
    (alone,) = account([record(1, started(0.0), event("finished", 9.0, step=8))], None)
    assert (alone.lost_steps, alone.outcome) == (0, "finished")


def test_a_finished_attempt_that_another_did_over_has_lost_what_that_did_again() -> None:
    first = record(1, started(0.0), event("committed", 5.0, step=5), ended(9.0, 8, "finished"))
    one, _ = account([first, record(2, started(20.0, 5, "resumed"), began=19.0)], 5, is_running=True)
    assert (one.lost_steps, one.lost_s) == (3, 4.0)


def test_where_the_clock_was_set_back_time_is_lost_since_the_commit_of_the_newest_step_that_counts() -> None:
    saves = (event("committed", 1000.0, step=10), event("committed", 600.0, step=20))
    (only,) = account([record(1, started(900.0), *saves, ended(700.0, 25), began=890.0)], 20)
    assert (only.lost_steps, only.lost_s) == (5, 100.0)


def test_a_running_attempt_has_lost_nothing_yet() -> None:
    (only,) = account([record(1, started(0.0), event("committed", 5.0, step=5))], 3, is_running=True)
    assert (only.ended, only.lost_steps) == (None, 0)


def test_without_an_end_the_last_event_is_the_end() -> None:
    (only,) = account([record(1, started(1.0), event("committed", 5.0, step=5))], 5)
    assert (only.ended, only.outcome) == (5.0, "")


def test_restarts_inside_an_attempt_get_its_end() -> None:
    outer = record(1, started(1.0), event("committed", 5.0, step=5), ended(20.0, 9, "finished"), began=0.0)
    inner = Record(2, 8.0, "L", False, [started(9.0, 5, "resumed"), event("committed", 18.0, step=9)])
    one, two = account([outer, inner], 9)
    assert (one.outcome, one.ended, one.is_inner) == (RESTARTED_INSIDE, 8.0, False)
    assert (two.outcome, two.ended, two.is_inner, two.reached_step) == ("finished", 20.0, True, 9)
    (whole,) = joined([outer, inner])
    assert whole.number == 1
    assert [e.kind for e in whole.events] == ["launched", "started", "committed", "started", "committed", "ended"]


def test_another_launchers_attempt_is_never_inside() -> None:
    outer = record(1, started(1.0), ended(2.0, 1))
    other = Record(2, 3.0, "M", False, [started(4.0)])
    alone = Record(3, 5.0, "", False, [started(6.0)])
    assert [r.number for r in joined([outer, other, alone])] == [1, 2, 3]


def test_decisions_look_back_to_the_last_new_start_or_the_last_giving_up() -> None:
    gave_up = event("decided", 9.0, action="give up")
    again = event("decided", 9.0, action="restart")
    records = [record(1, again), record(2, gave_up), record(3, again), record(4, again)]
    assert [r.number for r in launches_after(records)] == [3, 4]
    records[3] = record(4, again, is_fresh=True)
    assert [r.number for r in launches_after(records)] == [4]


def test_torn_or_foreign_data_in_events_is_no_number() -> None:
    odd = record(1, event("started", 1.0, step="7"), event("committed", 2.0, step=True), event("ended", 3.0, step=None))
    (only,) = account([odd], None)
    assert (only.from_step, only.saved_step, only.reached_step) == (None, None, None)


class TestWhatNobodySaw:
    def known(self, *events: Event, launched: bool = True, last_good: int | None = 10) -> bool:
        one = record(1, *events)
        if not launched:
            one = Record(1, 0.0, "", False, list(events))
        return account([one], last_good)[0].is_loss_known

    def test_a_program_without_a_launcher_that_vanished_may_have_lost_more_than_its_journal_says(self) -> None:
        events = (started(1.0), event("committed", 5.0, step=10))
        assert not self.known(*events, launched=False)
        (only,) = account([Record(1, 0.0, "", False, list(events))], 5)
        assert (only.lost_steps, only.is_loss_known) == (5, False)

    def test_a_program_that_wrote_its_end_down_is_known(self) -> None:
        for end in ("exception", "stopping", "left", "finished"):
            assert self.known(started(1.0), event(end, 6.0, step=12), launched=False)
        assert not self.known(started(1.0), event("stopping", 6.0, cause="SIGTERM"))

    def test_a_heartbeat_is_known_and_a_command_without_one_is_not(self) -> None:
        assert self.known(started(1.0), ended(6.0, 12))
        assert not self.known(ended(6.0, None))

    def test_who_finished_was_refused_or_never_began_lost_nothing(self) -> None:
        assert self.known(ended(6.0, None, "finished"))
        assert self.known(ended(6.0, None, "refused"))
        assert self.known(launched=False)
