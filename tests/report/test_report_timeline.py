"""Where the time of a job went: every moment in one span, and in the right one."""

import math
from itertools import pairwise

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lastgood.core.accounting import Account, Record, with_ends_moved_inside
from lastgood.core.events import Event
from lastgood.report.collect import accounts_of
from lastgood.report.figures import ettr, shares
from lastgood.report.layers import Stretch, in_order, laid_over, sequence
from lastgood.report.timeline import Timeline, gaps, timeline

from .built import BEGAN, event, record, told_attempt


def told(
    *records: Record, last_good: int | None = None, is_running: bool = False, now: float = 1e6
) -> tuple[Timeline, list[Account]]:
    moved = with_ends_moved_inside(list(records))
    accounts = accounts_of(moved, last_good, is_running=is_running)
    return timeline(moved, accounts, BEGAN + now, is_running=is_running), accounts


def pieces(found: Timeline) -> list[tuple[str, float, int | None]]:
    return [(span.kind, round(span.seconds, 6), span.attempt) for span in found.spans]


def test_an_attempt_that_is_killed_and_one_that_goes_on_from_its_save() -> None:
    found, _ = told(
        told_attempt(1, 0, commits=((100, 50),), reached=80, ended=160),
        told_attempt(2, 165, from_step=50, commits=((300, 200),), reached=200, ended=310, outcome="finished"),
        last_good=200,
    )
    assert pieces(found) == [
        ("restarting", 13.0, 1),
        ("useful", 85.0, 1),
        ("saving", 0.5, 1),
        ("useful", 1.5, 1),
        ("lost", 60.0, 1),
        ("restarting", 5.0, None),
        ("restarting", 13.0, 2),
        ("useful", 120.0, 2),
        ("saving", 0.5, 2),
        ("useful", 11.5, 2),
    ]


def test_the_final_save_is_waited_for() -> None:
    last = (event("finished", 200.25, step=90),)
    found, _ = told(
        told_attempt(1, 0, commits=((200, 90),), reached=90, ended=201, outcome="finished", more=last), last_good=90
    )
    assert pieces(found)[2:] == [("saving", 2.25, 1), ("stopping", 0.75, 1)]


def test_time_between_two_allocations_is_queued() -> None:
    first = event("allocation", 0, scheduler="slurm", cluster="c", job_id="7", restart_count=0)
    second = event("allocation", 500, scheduler="slurm", cluster="c", job_id="7", restart_count=1)
    found, _ = told(
        told_attempt(1, 0, commits=((100, 50),), reached=50, ended=101, outcome="preempted", more=(first,), launch="a"),
        told_attempt(2, 500, from_step=50, reached=60, ended=600, outcome="finished", more=(second,), launch="b"),
        last_good=60,
    )
    assert ("queued", 399.0, None) in pieces(found)


@pytest.mark.parametrize("allocation", [True, False])
def test_time_between_two_launches_in_no_other_allocation_is_down(allocation: bool) -> None:
    more = (event("allocation", 0, scheduler="slurm", cluster="c", job_id="7", restart_count=0),) if allocation else ()
    found, _ = told(
        told_attempt(1, 0, reached=0, ended=101, more=more, launch="a"),
        told_attempt(2, 500, reached=60, ended=600, outcome="finished", more=more, launch="b"),
        last_good=60,
    )
    assert ("down", 399.0, None) in pieces(found)


def test_what_follows_an_attempt_whose_end_nobody_saw_is_unseen() -> None:
    found, accounts = told(
        told_attempt(1, 0, commits=((100, 50),), launch="a"),
        told_attempt(2, 500, from_step=50, reached=60, ended=600, outcome="finished", launch="b"),
        last_good=60,
    )
    assert accounts[0].outcome == "launcher lost"
    assert not found.courses[0].is_end_seen
    assert ("unseen", 400.0, None) in pieces(found)
    assert not any(kind in ("down", "queued") for kind, _, _ in pieces(found))


def test_what_an_older_checkpoint_and_a_new_start_throw_away_is_lost() -> None:
    """The second attempt went on from step 100; the third could not, and went on from step 50; the fourth was a new start."""
    ended, how = 160.0, []
    first = told_attempt(1, 0, commits=((60, 50), (120, 100)), stall_s=0, reached=100, ended=ended)
    second = told_attempt(2, 165, from_step=100, commits=((300, 150),), stall_s=0, reached=160, ended=310)
    third = told_attempt(3, 315, from_step=50, commits=((400, 90),), stall_s=0, reached=95, ended=410)
    fourth = told_attempt(4, 415, commits=((500, 10),), stall_s=0, reached=10, ended=510, outcome="finished")
    useful = {}
    for last in (second, third, fourth):
        how = [one for one in (first, second, third, fourth) if one.number <= last.number]
        found, _ = told(*how, last_good={2: 150, 3: 90, 4: 10}[last.number])
        useful[last.number] = {
            one.number: sum(s.seconds for s in found.spans if (s.kind, s.attempt) == ("useful", one.number))
            for one in how
        }
    assert useful[2] == {1: 147.0, 2: 122.0}
    assert useful[3] == {1: 47.0, 2: 0.0, 3: 72.0}
    assert any("a later attempt was a new start" in doubt for doubt in found.courses[0].doubts)
    assert useful[4] == {1: 0.0, 2: 0.0, 3: 0.0, 4: 82.0}


def test_a_hang_is_hung_from_the_last_sign_of_life() -> None:
    hang = event("hang", 400, what="rank 0 has stood still", ranks=[0], silent_s=250.0)
    found, accounts = told(
        told_attempt(1, 0, commits=((100, 50),), reached=60, ended=406, outcome="hang", more=(hang,)), last_good=50
    )
    assert pieces(found)[-3:] == [("lost", 50.0, 1), ("hung", 250.0, 1), ("stopping", 6.0, 1)]
    # Of what accounting calls lost, this is the part in which it worked.
    assert accounts[0].lost_s == 306.0


def test_a_program_that_moves_again_after_a_hang_works_until_it_is_ended() -> None:
    hang = event("hang", 400, what="no heartbeat, and no output", ranks=[], silent_s=250.0)
    found, _ = told(
        told_attempt(
            1, 0, commits=((402, 50), (404, 60)), stall_s=0, reached=65, ended=406, outcome="hang", more=(hang,)
        ),
        last_good=60,
    )
    assert pieces(found)[2:] == [("hung", 250.0, 1), ("useful", 4.0, 1), ("lost", 2.0, 1)]


def test_a_hang_of_unknown_length_is_not_guessed() -> None:
    hang = event("hang", 400, what="rank 0 has stood still for 4 min 10 s", ranks=[0])
    found, _ = told(told_attempt(1, 0, reached=60, ended=406, outcome="hang", more=(hang,)), last_good=None)
    assert not any(kind == "hung" for kind, _, _ in pieces(found))
    assert any("how long it hung" in doubt for doubt in found.courses[0].doubts)


def test_an_attempt_that_never_had_its_state_only_restarted() -> None:
    launched = event("launched", 1, command=["x"], pid=1)
    ended = event("ended", 9, outcome="program error", reason="exit code 1", exit_code=1, step=None)
    found, _ = told(
        record(1, 0, launched, ended), told_attempt(2, 10, reached=9, ended=50, outcome="finished"), last_good=9
    )
    assert pieces(found)[:2] == [("restarting", 9.0, 1), ("restarting", 1.0, None)]


def test_a_command_that_tells_nothing_is_unseen_unless_it_finished() -> None:
    def attempt(number: int, at: float, outcome: str) -> Record:
        return record(
            number,
            at,
            event("launched", at + 1, command=["x"], pid=1),
            event("ended", at + 50, outcome=outcome, reason="", exit_code=1, step=None),
        )

    found, _ = told(attempt(1, 0, "killed"), attempt(2, 60, "finished"))
    assert pieces(found) == [
        ("restarting", 1.0, 1),
        ("unseen", 49.0, 1),
        ("restarting", 10.0, None),
        ("restarting", 1.0, 2),
        ("useful", 49.0, 2),
    ]


def test_a_loss_of_unknown_size_is_lost_time() -> None:
    """An application tells no steps: of it is known what it saved, and that it began again there."""

    def attempt(number: int, at: float, step: int, *commits: tuple[float, int]) -> Record:
        return record(
            number,
            at,
            event("started", at + 1, how="resumed" if step else "fresh", step=step, name="", is_wrapped=True),
            event("launched", at + 2, command=["x"], pid=1),
            *(event("committed", when, step=to, name=f"out/{to}.cpt", bytes=5) for when, to in commits),
            event("ended", at + 100, outcome="killed", reason="", exit_code=-9, step=None),
        )

    found, accounts = told(attempt(1, 0, 0, (40, 100)), attempt(2, 101, 100))
    assert (accounts[0].lost_steps, accounts[0].is_loss_known) == (0, False)
    assert pieces(found)[:3] == [("restarting", 2.0, 1), ("useful", 38.0, 1), ("lost", 60.0, 1)]
    assert any("nobody saw its last step" in doubt for doubt in found.courses[0].doubts)


def test_a_job_that_runs_counts_up_to_now_and_has_lost_nothing_yet() -> None:
    found, _ = told(told_attempt(1, 0, commits=((100, 50),)), last_good=50, is_running=True, now=130)
    assert pieces(found)[-1] == ("useful", 31.5, 1)
    assert found.spans[-1].end == BEGAN + 130


def test_the_wait_for_a_restart_counts_up_to_now() -> None:
    last = told_attempt(1, 0, commits=((100, 50),), reached=80, ended=160)
    found, _ = told(last, last_good=50, is_running=True, now=200)
    assert pieces(found)[-2:] == [("lost", 60.0, 1), ("restarting", 40.0, None)]
    over, _ = told(last, last_good=50, now=200)
    assert pieces(over) == pieces(found)[:-1]


def test_time_after_the_last_word_of_a_launcher_is_no_wait_for_a_restart() -> None:
    """Another launcher has the job, and no attempt yet: what the time was, the next attempt tells."""
    last = told_attempt(1, 0, reached=80, ended=160)
    gave_up = event("decided", 160, action="give up", reason="", exit_code=1)
    last = msgspec.structs.replace(last, events=[*last.events, gave_up])
    found, _ = told(last, is_running=True, now=90_000)
    assert found.spans[-1].end == BEGAN + 160


def test_a_restart_inside_an_attempt_begins_where_the_one_before_ended() -> None:
    outer = told_attempt(1, 0, commits=((100, 50),), reached=80, ended=300, outcome="finished")
    inner = record(
        2,
        160,
        event("started", 170, how="resumed", step=50, rejected=[]),
        event("snapshots", 171, rank=0, slots=2, slot_bytes=64),
        event("committed", 290, step=90, name="000000000090-0002", bytes=1, write_s=1.0),
    )
    found, accounts = told(outer, inner, last_good=90)
    assert (accounts[0].outcome, accounts[1].is_inner) == ("restarted inside", True)
    assert not any(attempt is None for _, _, attempt in pieces(found))
    assert ("restarting", 11.0, 2) in pieces(found)
    assert found.spans[-1].end == BEGAN + 300


def test_attempts_that_seem_to_overlap_are_cut_and_it_is_said() -> None:
    found, _ = told(
        told_attempt(1, 0, reached=5, ended=200, launch="a"),
        told_attempt(2, 150, reached=9, ended=300, outcome="finished", launch="b"),
        last_good=9,
    )
    assert not gaps(found.spans)
    assert found.courses[0].end == BEGAN + 150
    assert "50 s after attempt 2 had begun" in found.remarks[0]


@pytest.mark.parametrize("reached", [25, None], ids=["known", "unknown"])
def test_a_clock_that_was_set_back_hides_no_lost_work(reached: int | None) -> None:
    set_back = told_attempt(1, 0, commits=((400, 10), (100, 20)), stall_s=0, reached=reached, ended=160)
    found, _ = told(set_back, last_good=20)
    assert pieces(found)[1:] == [("useful", 87.0, 1), ("lost", 60.0, 1)]


def test_a_clock_that_was_set_back_hides_no_work_that_a_later_attempt_did_again() -> None:
    found, _ = told(
        told_attempt(1, 0, commits=((400, 10), (100, 20), (130, 30)), stall_s=0, reached=30, ended=160),
        told_attempt(2, 165, from_step=30, reached=31, ended=190),
        told_attempt(3, 200, from_step=20, reached=50, ended=300, outcome="finished"),
        last_good=50,
    )
    assert pieces(found)[1:3] == [("useful", 87.0, 1), ("lost", 60.0, 1)]


# What holds of any journal ---------------------------------------------------------------------------------------

MOMENT = st.floats(0, 1000, allow_nan=False).map(lambda s: round(s, 3))
STEP = st.integers(0, 40)


def events_at(begin: float) -> st.SearchStrategy[list[Event]]:
    at = MOMENT.map(lambda s: begin + s)
    return st.lists(
        st.one_of(
            st.builds(lambda t: event("launched", t, command=["x"], pid=1), at),
            st.builds(lambda t, s, h: event("started", t, how=h, step=s), at, STEP, st.sampled_from(["fresh", "resumed"])),
            st.builds(lambda t, s: event("started", t, how="resumed", step=s, is_wrapped=True), at, STEP),
            st.builds(lambda t, s: event("stepped", t, step=s), at, STEP),
            st.builds(lambda t: event("snapshots", t, rank=0, slots=1, slot_bytes=1), at),
            st.builds(lambda t, s, w: event("committed", t, step=s, name="n", write_s=w), at, STEP, MOMENT),
            st.builds(lambda t, s, w: event("stalled", t, step=s, stall_s=w), at, STEP, MOMENT),
            st.builds(lambda t, w: event("paced", t, interval_s=w, stall_s=w), at, MOMENT),
            st.builds(lambda t, w: event("hang", t, what="still", silent_s=w), at, MOMENT),
            st.builds(lambda t, k, s: event(k, t, step=s), at, st.sampled_from(["finished", "left", "exception", "stopping"]), STEP),
            st.builds(
                lambda t, o, s: event("ended", t, outcome=o, reason="", step=s),
                at,
                st.sampled_from(["finished", "killed", "hang", "refused"]),
                st.none() | STEP,
            ),
        ),
        max_size=9,
    ).map(lambda found: sorted(found, key=lambda one: one.at))  # fmt: skip


@st.composite
def journals(draw: st.DrawFn) -> list[Record]:
    records, begin = [], 0.0
    for number in range(1, draw(st.integers(1, 5)) + 1):
        # Clocks may go backwards, too.
        begin = max(begin + draw(st.floats(-50, 1500)), 0.0)
        launch = draw(st.sampled_from(["a", "b", ""]))
        records.append(record(number, begin, *draw(events_at(begin)), launch=launch, is_fresh=draw(st.booleans())))
    return records


@given(journals(), st.none() | STEP, st.booleans())
@example(
    [Record(1, BEGAN, "a", False, [Event("finished", BEGAN, {"step": 0}), Event("launched", BEGAN + 1)])], None, False
)
@settings(max_examples=100, deadline=None)
def test_the_spans_of_any_journal_cover_its_whole_time_once(
    records: list[Record], last_good: int | None, is_running: bool
) -> None:
    found, accounts = told(*records, last_good=last_good, is_running=is_running, now=9000)
    courses = found.courses
    assert [course.number for course in courses] == [one.number for one in records]
    assert courses[0].begin == records[0].began
    for before, after in pairwise(courses):
        assert before.begin <= before.end <= after.begin
    for span in found.spans:
        assert span.begin < span.end
    if found.spans:
        assert not gaps(found.spans)
        assert (found.spans[0].begin, found.spans[-1].end) == (courses[0].begin, courses[-1].end)
        sums = shares(found.spans)
        whole = courses[-1].end - courses[0].begin
        assert math.fsum(share.seconds for share in sums) == pytest.approx(whole, abs=1e-4)
        assert math.fsum(share.share for share in sums) == pytest.approx(1)
        told_ettr = ettr(sums, [])
        assert told_ettr is not None and 0 <= told_ettr.share <= 1
    if is_running and accounts[-1].ended is None:
        assert courses[-1].end == max(BEGAN + 9000, courses[-1].begin)


@given(journals(), st.none() | STEP)
@settings(max_examples=100, deadline=None)
def test_no_work_after_the_commit_that_counts_is_useful(records: list[Record], last_good: int | None) -> None:
    """Recomputed from the accounts: what the accounting calls lost holds no second that is called useful."""
    found, accounts = told(*records, last_good=last_good)
    for account in accounts:
        if not account.lost_steps or account.ended is None:
            continue
        lost_from = account.ended - account.lost_s
        for span in found.spans:
            if span.attempt == account.number and span.kind == "useful":
                assert span.end <= max(lost_from, span.begin) + 1e-6


@given(journals(), st.none() | STEP)
@settings(max_examples=100, deadline=None)
def test_no_work_that_a_later_attempt_did_again_is_useful(records: list[Record], last_good: int | None) -> None:
    """Recomputed from the journals: each later start says from which step on all was done again."""
    found, accounts = told(*records, last_good=last_good)
    starts = {one.number: next((e for e in one.events if e.kind == "started"), None) for one in records}
    for account, one in zip(accounts, records, strict=True):
        for later in records:
            started = starts[later.number]
            if later.number <= one.number or started is None or account.reached_step is None:
                continue
            again_from = -1 if started.data["how"] == "fresh" else started.data["step"]
            if account.reached_step <= again_from:
                continue
            kept = [e.at for e in one.events if e.kind == "committed" and e.data["step"] <= again_from]
            for span in found.spans:
                if span.attempt == one.number and span.kind == "useful":
                    assert kept and span.end <= max(kept) + 1e-6


STRETCHES = st.lists(st.tuples(MOMENT, MOMENT), max_size=8).map(
    lambda pairs: in_order([Stretch("saving", min(p), max(p)) for p in pairs])
)


@given(st.lists(st.tuples(st.sampled_from(["useful", "lost", "restarting"]), MOMENT), max_size=6), STRETCHES)
def test_what_is_laid_over_covers_just_what_it_may(ends: list[tuple[str, float]], top: list[Stretch]) -> None:
    base = sequence(0.0, *sorted(ends, key=lambda pair: pair[1]))  # type: ignore[arg-type]
    found = laid_over(base, top, ("useful", "lost"))
    assert [(a.end, b.begin) for a, b in pairwise(found) if a.end != b.begin] == []
    if base:
        assert (found[0].begin, found[-1].end) == (base[0].begin, base[-1].end)

    def kind_at(stretches: list[Stretch], moment: float) -> str | None:
        return next((one.kind for one in stretches if one.begin <= moment < one.end), None)

    moments = sorted({edge for one in [*base, *top] for edge in (one.begin, one.end)})
    for a, b in pairwise(moments):
        middle = (a + b) / 2
        below, above = kind_at(base, middle), kind_at(top, middle)
        expected = above if above is not None and below in ("useful", "lost") else below
        assert kind_at(found, middle) == expected
