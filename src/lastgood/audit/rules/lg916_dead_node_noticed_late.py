"""LG916: a dead node is noticed late."""

from collections.abc import Iterator

from lastgood.audit.policy import Policy
from lastgood.audit.rule import Context, Hit, Rule, Severity
from lastgood.core.units import duration

_LONG_S = 600.0
_VERY_LONG_S = 3600.0


def check(policy: Policy, context: Context) -> Iterator[Hit]:
    setting = policy.setting("SlurmdTimeout")
    seconds = policy.seconds("SlurmdTimeout")
    if setting is None or seconds is None or 0 < seconds <= _LONG_S:
        return
    what = (
        f"for {duration(seconds)} after a node's death"
        if seconds
        else "for ever when a node dies, unless something else sets it DOWN,"
    )
    yield Hit(
        span=setting.span,
        path=setting.path,
        message=f"{what} its jobs are not requeued: all their other nodes wait, and are paid for",
        remedy="`SlurmdTimeout=300`, the default",
        severity=Severity.WASTEFUL if not seconds or seconds > _VERY_LONG_S else None,
    )


RULE = Rule(
    code="LG916",
    name="dead-node-noticed-late",
    severity=Severity.NOTE,
    what="SlurmdTimeout above 10 minutes, or 0.",
    why="slurmctld calls a node dead when its slurmd has not answered for SlurmdTimeout, and requeues the node's "
    "jobs then. The time counts for every failure, with all nodes of the job.",
    bad="""\
ClusterName=c1
SlurmctldHost=head
SlurmdTimeout=3600
""",
    good="""\
ClusterName=c1
SlurmctldHost=head
SlurmdTimeout=300
""",
    safe_to_ignore="Nodes are away for minutes without being dead (network booting, maintenance), or another watcher sets "
    "them DOWN.",
    source="slurm.conf(5), SlurmdTimeout; observed with Slurm 22.05: requeued SlurmdTimeout plus up to half a minute "
    "after the death",
    reads=Policy,
    check=check,
)
