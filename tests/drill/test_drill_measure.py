"""What a fault did, in numbers: from looks and journals to steps, seconds and moments."""

import pytest

from lastgood.core.accounting import Record
from lastgood.core.events import Event
from lastgood.drill.fault import Consequence
from lastgood.drill.measure import StepLog, Watch, measure
from lastgood.trial.trial import Sight


def sight(at: float, step: int | None, *, attempt: int = 1, **other: object) -> Sight:
    told: dict[str, object] = {"start": attempt, "saved_step": None, "phase": "step", "is_running": True, **other}
    return Sight(at=at, attempt=attempt, step=step, **told)  # type: ignore[arg-type]


def record(number: int, began: float, *events: Event) -> Record:
    return Record(number, began, "launch", False, list(events))


def watched(*sights: Sight, harm_at: float, consequence: Consequence = Consequence.RESTART) -> tuple[Watch, StepLog]:
    watch, steps = Watch(sights[0], consequence), StepLog()
    for one in sights:
        steps.note(one)
    for one in sights[1:]:
        if watch._pending is not None and one.at > harm_at:
            watch.struck(harm_at)
        watch.note(one)
    if watch._pending is not None:
        watch.struck(harm_at)
    return watch, steps


RUN = [sight(10 + i, 10 * i) for i in range(11)]
"""A step every 0.1 s, seen each second; step 100 at 20 s."""
KILLED = [
    *RUN,
    sight(20.5, None, is_running=False, start=1),
    sight(22.0, None, attempt=2),
    sight(23.0, 80, attempt=2, from_step=80),
    sight(24.0, 90, attempt=2, from_step=80),
    sight(25.0, 100, attempt=2, from_step=80),
]
JOURNALS = [
    record(1, 9.0, Event("launched", 9.1), Event("ended", 20.4, {"outcome": "killed"})),
    record(
        2, 21.4, Event("launched", 21.5), Event("started", 22.9, {"how": "resumed", "step": 80, "is_from_memory": True})
    ),
]


def test_a_kill_is_measured_from_the_harm_to_the_step_that_had_been_reached() -> None:
    watch, steps = watched(*KILLED, harm_at=20.2)
    measured = measure(watch, JOURNALS, steps, checkpoint_step=70)
    assert (measured.reached_step, measured.resumed_step, measured.lost_steps) == (100, 80, 20)
    assert (measured.resumed_from, measured.ended_as, measured.checkpoint_step) == ("memory", "killed", 70)
    # The journals' moments before those of looks; seconds lost since step 80 was done, at 18 s.
    assert measured.detected_s == pytest.approx(0.2)
    assert measured.restarted_s == pytest.approx(1.3)
    assert measured.lost_s == pytest.approx(2.2)
    assert (measured.first_step_s, measured.caught_up_s) == (pytest.approx(3.8), pytest.approx(4.8))
    assert watch.has_come_through


def test_without_journals_the_looks_tell() -> None:
    watch, steps = watched(*KILLED, harm_at=20.2)
    measured = measure(watch, [], steps, None)
    assert (measured.detected_s, measured.restarted_s) == (pytest.approx(0.3), pytest.approx(1.8))
    assert (measured.resumed_from, measured.ended_as) == ("storage", "")


def test_of_a_restart_inside_an_attempt_the_launchers_last_word_is_not_taken() -> None:
    watch, steps = watched(*KILLED, harm_at=20.2)
    whole = record(1, 9.0, Event("launched", 9.1), Event("ended", 99.0, {"outcome": "finished"}))
    inner = record(2, 21.4, Event("started", 22.9, {"how": "resumed", "step": 80}))
    measured = measure(watch, [whole, inner], steps, 70)
    assert (measured.detected_s, measured.ended_as, measured.resumed_step) == (None, "", 80)
    assert measured.restarted_s == pytest.approx(1.8)


def test_a_start_from_zero_lost_all_that_the_attempt_had_done() -> None:
    after = [sight(22.0, None, attempt=2, from_step=0), sight(23.0, 5, attempt=2, from_step=0)]
    watch, steps = watched(*RUN, *after, harm_at=20.0)
    measured = measure(watch, JOURNALS[:1], steps, None)
    assert (measured.resumed_from, measured.lost_steps, measured.caught_up_s) == ("zero", 100, None)
    assert measured.lost_s == pytest.approx(11.0)


def test_what_the_job_still_does_after_the_harm_counts_as_reached() -> None:
    after = [sight(21.0, 105), sight(23.0, None, attempt=2, from_step=105), sight(24.0, 106, attempt=2, from_step=105)]
    watch, steps = watched(*RUN, *after, harm_at=20.5)
    measured = measure(watch, [], steps, 70)
    assert (measured.reached_step, measured.lost_steps, measured.lost_s) == (105, 0, 0.0)


def test_a_job_that_goes_on_has_come_through_with_its_next_checkpoint() -> None:
    run = [sight(10, 10, saved_step=5), sight(11, 20, saved_step=5), sight(12, 30, saved_step=25)]
    before_save, _ = watched(*run[:2], harm_at=10.5, consequence=Consequence.GO_ON)
    assert not before_save.has_come_through
    later = sight(20, 1, attempt=2, from_step=0)
    watch, steps = watched(*run, later, harm_at=10.5, consequence=Consequence.GO_ON)
    measured = measure(watch, [], steps, 5)
    assert watch.has_come_through
    assert measured.saved_since == 25
    # A later restart is another fault's doing.
    assert (measured.resumed_step, measured.detected_s, measured.restarted_s) == (None, None, None)


def test_a_fault_before_the_first_step_of_a_start_loses_nothing() -> None:
    first = [sight(20.0, None, attempt=2), sight(21.0, None, attempt=3), sight(22.0, 81, attempt=3, from_step=80)]
    watch, steps = watched(*first, harm_at=20.5)
    records = [record(2, 19.5, Event("launched", 19.6)), record(3, 20.9, Event("launched", 20.95))]
    measured = measure(watch, records, steps, 80)
    assert (measured.reached_step, measured.lost_steps, measured.lost_s) == (None, 0, 0.0)


def test_where_nothing_tells_steps_a_newer_checkpoint_shows_that_it_gets_on() -> None:
    run = [sight(10, None, saved_step=5), sight(12, None, attempt=2), sight(13, None, attempt=2, saved_step=9)]
    watch, _ = watched(*run[:2], harm_at=11)
    assert not watch.has_come_through
    watch, _ = watched(*run, harm_at=11)
    assert watch.has_come_through


def test_the_second_line_of_an_output_corrects_what_the_first_one_told() -> None:
    lines = [
        sight(22, 60, attempt=2, from_step=59, blur_steps=1),
        sight(23, 70, attempt=2, from_step=50, blur_steps=10),
    ]
    watch, _ = watched(*RUN, *lines, harm_at=20)
    assert (watch.from_step, watch.blur_steps) == (50, 10)


def test_a_step_between_two_looks_is_taken_to_have_been_done_evenly() -> None:
    steps = StepLog()
    for one in RUN:
        steps.note(one)
    assert steps.time_of(75, before=30.0) == pytest.approx(17.5)
    assert steps.time_of(80, before=30.0) == pytest.approx(18.0)
    assert steps.time_of(80, before=17.9) is not None
    assert StepLog().time_of(80, before=30.0) is None


def test_the_longest_silence_is_between_two_steps_of_one_attempt() -> None:
    steps = StepLog()
    for one in (
        sight(1, 1),
        sight(2, 2),
        sight(6, 3),
        sight(7, None),
        sight(100, 3, attempt=2),
        sight(101, 4, attempt=2),
    ):
        steps.note(one)
    assert steps.longest_silence_s == 4.0
    assert (steps.first_step_at, steps.last_step) == (1, 4)
