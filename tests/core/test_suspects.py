"""Nodes to stay away from: two deaths like hardware's, a limit, and nothing for what is the program's own."""

import pytest

from lastgood.core.accounting import Record
from lastgood.core.events import Event
from lastgood.core.outcome import Outcome
from lastgood.core.suspects import already_left, deaths, failed_node, limit_for, suspects


def attempt(number: int, node: str, *events: Event, is_fresh: bool = False) -> Record:
    """One that was launched on a node."""
    begun = [Event("allocation", 1.0, {"nodes": [node], "node": node}), Event("launched", 1.0)]
    return Record(number, 1.0, f"launch-{number}", is_fresh, [*begun, *events])


def died(node: str) -> Event:
    return Event("ended", 2.0, {"outcome": "hardware error", "node": node})


def ended(outcome: str) -> Event:
    return Event("ended", 2.0, {"outcome": outcome, "node": ""})


def test_two_deaths_make_a_suspect_and_one_does_not() -> None:
    records = [attempt(1, "n1", died("n1")), attempt(2, "n2", died("n2"))]
    assert suspects(records, 4) == []
    assert suspects([*records, attempt(3, "n2", died("n2"))], 4) == ["n2"]


def test_an_attempt_of_which_nobody_saw_the_end_counts_for_its_launchers_node() -> None:
    assert suspects([attempt(1, "n1"), attempt(2, "n1", died("n1"))], 4) == ["n1"]


@pytest.mark.parametrize("event", [Event("stopping", 2.0, {"cause": "SIGTERM"}), Event("finished", 2.0)])
def test_one_that_was_asked_to_stop_or_had_finished_does_not_count(event: Event) -> None:
    assert deaths([attempt(1, "n1", event), attempt(2, "n1", event)]) == []


def test_other_ends_do_not_count() -> None:
    assert deaths([attempt(1, "n1", ended("killed")), attempt(2, "n1", ended("program error"))]) == []


def test_an_attempt_that_never_came_to_a_launch_does_not_count() -> None:
    assert deaths([Record(1, 1.0, "launch-1", False, [Event("allocation", 1.0, {"node": "n1"})])]) == []


def test_a_new_start_forgets() -> None:
    records = [attempt(1, "n1", died("n1")), attempt(2, "n1", died("n1")), attempt(3, "n1", is_fresh=True)]
    assert suspects(records, 4) == []


def test_no_more_than_the_limit_and_the_worst_first() -> None:
    nodes = ["n1", "n1", "n2", "n2", "n2", "n3", "n3"]
    records = [attempt(i, node, died(node)) for i, node in enumerate(nodes, 1)]
    assert suspects(records, 2) == ["n2", "n1"]
    assert suspects(records, 0) == []


def test_what_was_left_before_is_known() -> None:
    left = Event("excluded", 2.0, {"nodes": ["n1"]})
    assert already_left([attempt(1, "n1", died("n1"), left)]) == {"n1"}
    assert already_left([attempt(1, "n1", left), attempt(2, "n2", is_fresh=True)]) == frozenset()


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("srun: error: n2: task 1: Bus error\nsrun: error: n1: task 0: Killed\n", "n2"),
        ("srun: error: n2: tasks 2-3: Bus error (core dumped)\n", "n2"),
        ("srun: error: Node failure on n1\n", "n1"),
        ("srun: error: n9: task 1: Bus error\n", ""),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered\n", ""),
    ],
)
def test_of_several_nodes_srun_tells_which(output: str, expected: str) -> None:
    assert failed_node(Outcome.HARDWARE_ERROR, output, ["n1", "n2"]) == expected


def test_a_job_of_one_node_died_there() -> None:
    assert failed_node(Outcome.HARDWARE_ERROR, "", ["n3"]) == "n3"
    assert failed_node(Outcome.NODE_FAILURE, "", ["n3"]) == "n3"
    assert failed_node(Outcome.KILLED, "", ["n3"]) == ""
    assert failed_node(Outcome.HARDWARE_ERROR, "", []) == ""


def test_enough_nodes_are_left() -> None:
    assert limit_for(1, 1) == 0
    assert limit_for(8, 8) == 0
    assert limit_for(40, 4) == 10
