"""How often a job is interrupted: from a stated figure, from the number of nodes, or from a preset. Pure.

The preset says of a job about which nobody has said anything: it is interrupted once a day (preemption, a
full memory, maintenance, a mistake), and each of its nodes fails at the rate that Meta published for its
larger research cluster, 6.50 per 1,000 node-days (A. Kokolis et al., "Revisiting Reliability in Large-Scale
Machine Learning Research Clusters", HPCA 2025, arXiv 2410.21680). The once a day is ours, and is cautious
on purpose: for a job that is interrupted more rarely, saving too often costs a fraction of a percent.
"""

from collections.abc import Sequence
from typing import Annotated, Self

import msgspec

from lastgood.core.poisson import count_interval
from lastgood.core.units import duration

DAY_S = 86400.0


def _says(description: str) -> msgspec.Meta:
    return msgspec.Meta(description=description)


NODE_FAILURES_PER_1000_NODE_DAYS = 6.50
"""RSC-1 in Kokolis et al.; their second cluster had 2.34, and a job of 2,048 nodes elsewhere 3.79 (Llama 3)."""

OTHER_INTERRUPTIONS_PER_DAY = 1.0


class Mtti(msgspec.Struct, frozen=True):
    """Mean time to interruption of a whole job, and where the figure is from."""

    seconds: float
    source: str

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise ValueError(f"a mean time to interruption of {self.seconds} s")

    def __str__(self) -> str:
        return f"{duration(self.seconds)} ({self.source})"


class FailureRate(msgspec.Struct, frozen=True):
    """How often a node is the end of its job, with the interval that holds the true rate in 95 of 100 cases.

    `failures` were seen in `node_days` (a job on eight nodes for three hours is one node-day); `source` says where.
    """

    per_1000_node_days: Annotated[float, _says("failures per 1,000 node-days")]
    low: Annotated[float, _says("from here")]
    high: Annotated[float, _says("to here the true rate lies, in 95 of 100 cases")]
    failures: Annotated[int, _says("that were seen")]
    node_days: Annotated[float, _says("in which they were seen")]
    source: Annotated[str, _says("where")]

    def __post_init__(self) -> None:
        if not (0 <= self.low <= self.per_1000_node_days <= self.high and self.failures >= 0 and self.node_days > 0):
            raise ValueError(
                f"a failure rate of {self.per_1000_node_days} ({self.low} to {self.high}) in {self.node_days}"
            )

    @classmethod
    def counted(cls, sizes: Sequence[tuple[int, int]], node_days: float, source: str) -> Self:
        """From events: (failures in one event, number of such events).

        >>> str(FailureRate.counted([(1, 13)], 2000, "2,000 node-days"))
        '6.5 (3.46 to 11.1) failures per 1,000 node-days (2,000 node-days)'
        """
        if not node_days > 0:
            raise ValueError(f"no rate can be seen in {node_days} node-days")
        failures = sum(size * number for size, number in sizes)
        low, high = count_interval(sizes)
        each = 1000 / node_days
        return cls(failures * each, low * each, high * each, failures, node_days, source)

    def __str__(self) -> str:
        figures = f"{self.per_1000_node_days:.3g} ({self.low:.3g} to {self.high:.3g})"
        return f"{figures} failures per 1,000 node-days ({self.source})"


def mtti_of_nodes_s(nodes: int, failures_per_1000_node_days: float) -> float:
    """Mean seconds between failures of a job on `nodes` nodes, each failing at this rate on its own.

    Limits: the job needs every node, and failures are independent; a shared switch or power supply is not.

    >>> round(mtti_of_nodes_s(2048, 6.50) / 3600, 2), round(mtti_of_nodes_s(2048, 3.79) / 3600, 2)
    (1.8, 3.09)
    """
    if nodes < 1 or not failures_per_1000_node_days > 0:
        raise ValueError(f"{nodes} nodes at {failures_per_1000_node_days} failures per 1,000 node-days")
    return 1000 * DAY_S / (nodes * failures_per_1000_node_days)


def preset_mtti(nodes: int = 1) -> Mtti:
    """What to assume where nobody has stated a rate: interruptions of any job plus those of its nodes.

    >>> str(preset_mtti(1)), str(preset_mtti(2048))
    ('23 h 50 min (preset for 1 node)', '1 h 40 min (preset for 2048 nodes)')
    """
    of_nodes = DAY_S / mtti_of_nodes_s(nodes, NODE_FAILURES_PER_1000_NODE_DAYS)
    source = f"preset for {nodes} node{'s' if nodes > 1 else ''}"
    return Mtti(DAY_S / (OTHER_INTERRUPTIONS_PER_DAY + of_nodes), source)
