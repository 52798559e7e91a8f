"""Which nodes fail more often than luck explains. A node is not blamed for two failures among a thousand nodes."""

import polars as pl

from lastgood.core.poisson import chance_of_any
from lastgood.core.reliability import FailureRate
from lastgood.plan.history.answer import NodeFigures
from lastgood.plan.history.endings import ENDINGS
from lastgood.schedulers.slurm_text import expand_hosts

BY_LUCK = 0.01
"""Below this chance a node that failed twice is suspected."""
MOST_SHOWN = 50

_OF_MACHINE = [ending.code for ending in ENDINGS if ending.is_of_machine]
_FEWEST = 2
_HOUR_S = 3600
_DAY_S = 86400


def worst_nodes(table: pl.DataFrame, failures: pl.DataFrame) -> tuple[list[NodeFigures], str]:
    """(the nodes with failures of the machine, the least likely first; what is not known, in words).

    `table` as `with_exposure` makes it, `failures` as `with_events` does. Jobs that a node ends within one minute are
    one failure of it.
    """
    of_machine = failures.filter(pl.col("ending").is_in(_OF_MACHINE) & ~pl.col("is_repeat"))
    if not table.height or table["node_list"].null_count() == table.height:
        return [], ""
    is_told = of_machine["failed_node"].null_count() < of_machine.height
    is_sure = pl.col("failed_node").is_not_null() | (pl.col("nodes") == 1)
    sure = of_machine.filter(is_sure)
    unsure = of_machine.height - sure.height
    # Where only failures of single nodes are clear, only the time of such jobs may be set against them.
    exposed = table if is_told else table.filter(pl.col("nodes") == 1)
    seconds = _seconds(exposed)
    events: set[tuple[str, int]] = set()
    named = sure.select(pl.coalesce("failed_node", "node_list").cast(pl.String).alias("place"), "minute")
    for place, minute in named.iter_rows():
        events.update((node, minute) for node in _hosts(place or ""))
    counts: dict[str, int] = {}
    for node, _ in events:
        counts[node] = counts.get(node, 0) + 1
    total_s, total = sum(seconds.values()), sum(counts.values())
    # A node that fails as soon as it gets a job has hardly any time; as if it were an hour.
    each_s = {node: max(seconds.get(node, 0), _HOUR_S) for node in counts}
    places = max(len(seconds), 1)
    found = []
    for node, count in counts.items():
        expected = total * each_s[node] / max(total_s, 1)
        found.append((chance_of_any(count, expected, places), -count, node, expected))
    figures = [
        _figures(node, -count, seconds.get(node, 0) / _DAY_S, expected, chance)
        for chance, count, node, expected in sorted(found)[:MOST_SHOWN]
    ]
    note = ""
    if unsure:
        note = f"by node, {unsure:,} of {of_machine.height:,} failures are not counted, of jobs on several nodes: "
        note += "nothing tells which node failed" if is_told else "without FailedNode nothing tells which one failed"
    return figures, note


def _figures(node: str, count: int, node_days: float, expected: float, chance: float) -> NodeFigures:
    return NodeFigures(
        name=node,
        failures=count,
        node_days=node_days,
        rate=FailureRate.counted([(1, count)], node_days, node) if node_days > 0 else None,
        expected=expected,
        chance=chance,
        is_suspect=count >= _FEWEST and chance < BY_LUCK,
    )


def _seconds(table: pl.DataFrame) -> dict[str, int]:
    """How long jobs ran on each node."""
    found: dict[str, int] = {}
    each = pl.col("node_s") / pl.col("nodes").clip(1)
    for place, seconds in table.group_by("node_list").agg(each.sum().alias("s")).iter_rows():
        for node in _hosts(place or ""):
            found[node] = found.get(node, 0) + int(seconds)
    return found


def _hosts(text: str) -> tuple[str, ...]:
    try:
        return tuple(expand_hosts(text))
    except ValueError:
        return ()
