"""Exactly one owner of a restart under Slurm, for every cluster, job and interruption."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.core.handback import (
    Interruption,
    JobState,
    Means,
    Owner,
    Rules,
    interruption_of,
    introduction,
    owner,
    plan,
    unlisted,
    window_warning,
)

CODES = st.frozensets(st.integers(0, 255), max_size=6) | st.just(frozenset({75}))
RULES = st.builds(
    Rules,
    is_batch=st.booleans(),
    may_requeue=st.booleans(),
    requeue_codes=CODES,
    hold_codes=CODES,
    has_next_segment=st.booleans(),
    may_submit=st.booleans(),
)


def requeues(code: int, rules: Rules) -> bool:
    """What Slurm does when a batch job ends with this code: the job's own flag does not matter (seen with 22.05)."""
    return rules.is_batch and code in rules.requeue_codes


def holds(code: int, rules: Rules) -> bool:
    return rules.is_batch and code in rules.hold_codes


@given(RULES)
def test_with_work_left_exactly_one_starts_the_job_again(rules: Rules) -> None:
    chosen = plan(rules)
    owners = [
        requeues(chosen.exit_code, rules),
        chosen.means is Means.REQUEUE,
        chosen.means is Means.OWN_SEGMENT,
        rules.is_batch and rules.has_next_segment,
        chosen.means is Means.PERSON,
    ]
    assert owners.count(True) == 1
    assert not holds(chosen.exit_code, rules)
    assert chosen.exit_code != 0
    assert introduction(rules)


@given(RULES)
def test_a_job_with_no_requeue_is_never_requeued_by_us(rules: Rules) -> None:
    chosen = plan(rules)
    if not rules.may_requeue:
        assert chosen.means not in (Means.EXIT_CODE, Means.REQUEUE)
        assert rules.may_submit or chosen.means is not Means.OWN_SEGMENT
        assert not requeues(chosen.exit_code, rules)


@given(RULES, st.integers(0, 255))
def test_an_end_for_good_is_no_success_and_is_not_requeued(rules: Rules, code: int) -> None:
    given_back = unlisted(code, rules)
    assert (given_back == 0) == (code == 0)
    if code == 0:
        return
    assert not requeues(given_back, rules) and not holds(given_back, rules)
    if code not in rules.requeue_codes | rules.hold_codes:
        assert given_back == code


def test_where_every_code_is_listed_the_code_stays() -> None:
    assert unlisted(3, Rules(requeue_codes=frozenset(range(256)))) == 3


def test_a_code_that_requeues_and_holds_is_not_used() -> None:
    both = Rules(may_requeue=True, requeue_codes=frozenset({75}), hold_codes=frozenset({75}))
    assert (plan(both).means, plan(both).exit_code) == (Means.REQUEUE, 1)
    other = Rules(may_requeue=True, requeue_codes=frozenset({75, 90}), hold_codes=frozenset({75}))
    assert (plan(other).means, plan(other).exit_code) == (Means.EXIT_CODE, 90)


@pytest.mark.parametrize("interruption", Interruption)
def test_who_owns_the_restart_after_each_interruption(interruption: Interruption) -> None:
    found = owner(interruption)
    if interruption is Interruption.CANCELLED:
        assert found is Owner.NOBODY
    elif interruption is Interruption.REQUEUED:
        assert found is Owner.SLURM
    else:
        assert found is Owner.MEANS


# What `scontrol show job` of 22.05 showed while the job's processes were still there.
SEEN = [
    ("nothing", JobState(state="RUNNING"), Interruption.NONE),
    ("nothing, started by the main scheduler", JobState(state="RUNNING", has_end=False), Interruption.NONE),
    ("scancel", JobState(state="COMPLETING"), Interruption.CANCELLED),
    ("scancel, after KillWait", JobState(state="CANCELLED"), Interruption.CANCELLED),
    ("requeue", JobState(state="COMPLETING", has_end=False, was_requeued=True), Interruption.REQUEUED),
    ("requeue, with a time limit", JobState(state="COMPLETING", was_requeued=True), Interruption.REQUEUED),
    ("requeue, gone", JobState(state="PENDING", reason="BeginTime", was_requeued=True), Interruption.REQUEUED),
    ("grace time", JobState(state="RUNNING", is_preempted=True), Interruption.PREEMPTION),
    ("preempted, not requeued", JobState(state="COMPLETING", is_preempted=True), Interruption.PREEMPTION),
    ("time limit", JobState(state="COMPLETING", reason="TimeLimit"), Interruption.TIME_LIMIT),
    ("time limit, after KillWait", JobState(state="TIMEOUT", reason="TimeLimit"), Interruption.TIME_LIMIT),
    ("node failure, not requeued", JobState(state="COMPLETING", reason="NodeDown"), Interruption.NODE_FAILURE),
    ("completed", JobState(state="COMPLETED"), Interruption.NONE),
]


@pytest.mark.parametrize(("job", "expected"), [row[1:] for row in SEEN], ids=[row[0] for row in SEEN])
def test_why_slurm_ends_a_job_is_told_by_what_it_shows(job: JobState, expected: Interruption) -> None:
    assert interruption_of(job) is expected


def test_what_fits_into_the_time_after_a_signal_is_not_warned_of() -> None:
    rules = Rules(kill_wait_s=30.0)
    assert window_warning(rules, None) == ""
    assert window_warning(rules, 30.0) == ""
    assert "KillWait" in window_warning(rules, 31.0)
    assert window_warning(Rules(kill_wait_s=30.0, grace_s=120.0), 100.0) == ""
    assert "GraceTime" in window_warning(Rules(kill_wait_s=30.0, grace_s=120.0), 130.0)
