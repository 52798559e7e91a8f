"""Whether the next segment of a chain has anything to do."""

from typing import Any

import pytest

from lastgood.core.accounting import Record
from lastgood.core.chain import chain_end, is_before_in_chain, is_cause_unknown, is_earlier_start
from lastgood.core.events import Event

HERE = {"chain": "7", "job_id": "9"}


def record(job_id: str = "7", chain: str = "7", **events: dict[str, Any]) -> Record:
    said = {"allocation": {"chain": chain, "job_id": job_id}, **events}
    return Record(4, 0.0, "l", False, [Event(kind, 1.0, data) for kind, data in said.items()])


CANCELLED = record(ended={"outcome": "cancelled"}, decided={"action": "hand back", "exit_code": 130})
GAVE_UP = record(
    ended={"outcome": "program error"}, decided={"action": "give up", "reason": "program error: x", "exit_code": 3}
)
DONE = record(ended={"outcome": "finished"}, decided={"action": "done", "exit_code": 0})
STOPPED = record(
    ended={"outcome": "time limit", "stop_cause": "time limit"}, decided={"action": "hand back", "exit_code": 75}
)


def test_a_chain_ends_with_the_attempt_that_was_cancelled() -> None:
    end = chain_end([STOPPED, CANCELLED], HERE)
    assert end is not None and (end.exit_code, end.reason) == (130, "attempt 4 was cancelled")


def test_a_chain_ends_with_the_attempt_that_gave_up() -> None:
    end = chain_end([GAVE_UP], HERE)
    assert end is not None and end.exit_code == 3 and "program error: x" in end.reason


def test_a_command_that_was_done_is_asked_itself_whether_it_is() -> None:
    # What it made may be gone: a first step of a script that copies to the node's own disk runs on each node.
    assert chain_end([STOPPED, DONE], HERE) is None


def test_what_was_restarted_inside_an_attempt_does_not_hide_its_end() -> None:
    inner = Record(5, 0.5, "l", False, [Event("started", 0.6, {"step": 7})])
    outer = record(launched={}, **{event.kind: event.data for event in CANCELLED.events})
    assert inner.launch == outer.launch and outer.is_launched and not inner.is_launched
    end = chain_end([outer, inner], HERE)
    assert end is not None and end.reason == "attempt 4 was cancelled"


@pytest.mark.parametrize("records", [[], [STOPPED], [CANCELLED, STOPPED], [record()]])
def test_a_chain_goes_on_where_nobody_ended_it(records: list[Record]) -> None:
    assert chain_end(records, HERE) is None


@pytest.mark.parametrize("ended", [CANCELLED, GAVE_UP])
def test_what_is_submitted_anew_or_requeued_is_not_bound_by_an_earlier_end(ended: Record) -> None:
    assert chain_end([ended], {"chain": "12", "job_id": "12"}) is None
    assert chain_end([ended], {"chain": "7", "job_id": "7"}) is None
    assert chain_end([ended], {}) is None


def test_an_end_without_a_code_is_no_success() -> None:
    end = chain_end([record(ended={"outcome": "cancelled"})], HERE)
    assert end is not None and end.exit_code == 1


def test_an_attempt_without_an_allocation_is_in_no_chain() -> None:
    assert not is_before_in_chain(Record(1, 0.0, "l", False, []), HERE)
    assert not is_before_in_chain(Record(1, 0.0, "l", False, []), {})


@pytest.mark.parametrize(
    ("attempt", "is_unknown"),
    [
        (record(), True),
        (record(ended={"outcome": "preempted", "stop_cause": "SIGTERM"}), True),
        (record(ended={"outcome": "preempted", "stop_cause": "requeued by Slurm"}), False),
        (STOPPED, False),
        (GAVE_UP, False),
    ],
)
def test_slurm_is_asked_only_where_the_launcher_did_not_know(attempt: Record, is_unknown: bool) -> None:
    assert is_cause_unknown(attempt) is is_unknown


@pytest.mark.parametrize(
    ("there", "is_earlier"),
    [
        ({"cluster": "c", "job_id": "7", "restart_count": 0}, True),
        ({"cluster": "c", "job_id": "7", "restart_count": 1}, False),
        ({"cluster": "c", "job_id": "8", "restart_count": 0}, False),
        ({"cluster": "d", "job_id": "7", "restart_count": 0}, False),
        ({}, False),
    ],
)
def test_only_an_earlier_start_of_the_very_job_is_known_to_be_given_up(there: dict[str, Any], is_earlier: bool) -> None:
    one = Record(1, 0.0, "l", False, [Event("allocation", 1.0, there)])
    assert is_earlier_start(one, {"cluster": "c", "job_id": "7", "restart_count": 1}) is is_earlier
