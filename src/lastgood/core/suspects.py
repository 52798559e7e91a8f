"""Which nodes a job should not be started on again, because attempts died there for reasons like hardware's. Pure.

A node counts a death where an attempt ended with a hardware error or a node failure there, or where its launcher died
with the node: nobody was there to write down how it ended, and nobody had asked it to stop. Twice is once too often.
Deaths count since the last new start, and since the job was last given up.
"""

import re
from collections import Counter
from collections.abc import Sequence

from lastgood.core.accounting import Record, launches_after
from lastgood.core.chain import allocation_of
from lastgood.core.outcome import Outcome

DEATHS = 2
"""One can be chance."""

_LIKE_HARDWARE = (Outcome.HARDWARE_ERROR.value, Outcome.NODE_FAILURE.value)
_OF_SRUN = re.compile(r"^srun: error: (\S+): tasks? [\d,-]+: Bus error", re.MULTILINE)
_NODE_FAILURE = re.compile(r"Node failure on (\S+)")


def failed_node(outcome: Outcome, output: str, nodes: Sequence[str]) -> str:
    """The node on which an attempt died for a reason like hardware's; empty if it did not, or if that is not known.

    >>> failed_node(Outcome.HARDWARE_ERROR, "srun: error: n2: task 1: Bus error", ["n1", "n2"])
    'n2'
    >>> failed_node(Outcome.KILLED, "", ["n1"])
    ''
    """
    if outcome.value not in _LIKE_HARDWARE:
        return ""
    # What srun reports last may be a rank's reaction to another's end.
    said = [match[1] for pattern in (_NODE_FAILURE, _OF_SRUN) for match in pattern.finditer(output)]
    found = next((name for name in said if name in nodes), "")
    return found or (nodes[0] if len(nodes) == 1 else "")


def deaths(records: Sequence[Record]) -> list[str]:
    """The node of each death that counts, oldest first."""
    found = [_death(record) for record in launches_after(list(records))]
    return [node for node in found if node]


def _death(record: Record) -> str:
    ended = record.last("ended")
    if ended is not None:
        return str(ended.data.get("node") or "")
    if not record.is_launched or record.first("stopping") is not None or record.last("finished") is not None:
        return ""
    return str(allocation_of(record).get("node") or "")


def suspects(records: Sequence[Record], at_most: int) -> list[str]:
    """Nodes with so many deaths, those with most of them first; no more than `at_most`.

    `records` are those of ended attempts.
    """
    return [node for node, count in Counter(deaths(records)).most_common(max(at_most, 0)) if count >= DEATHS]


def already_left(records: Sequence[Record]) -> frozenset[str]:
    """The nodes that the job was to be kept away from before: asking again would not help."""
    events = [event for record in launches_after(list(records)) for event in record.events if event.kind == "excluded"]
    return frozenset(str(node) for event in events for node in event.data.get("nodes", []))


def times_left(records: Sequence[Record], node: str) -> int:
    """How often the job was sent away from a node, whatever the reason."""
    events = [event for record in launches_after(list(records)) for event in record.events if event.kind == "excluded"]
    return sum(node in event.data.get("nodes", []) for event in events)


def limit_for(nodes_in_partition: int, nodes_needed: int) -> int:
    """How many nodes a job may stay away from: a quarter of its partition, at least one, and enough are left.

    >>> limit_for(4, 2), limit_for(2, 2), limit_for(100, 4), limit_for(2, 1)
    (1, 0, 25, 1)
    """
    return max(min(max(nodes_in_partition // 4, 1), nodes_in_partition - nodes_needed), 0)
