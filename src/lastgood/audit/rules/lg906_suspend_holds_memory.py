"""LG906: a suspended job keeps its memory and its GPUs."""

from collections.abc import Iterator

from lastgood.audit.policy import Policy, place_of
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(policy: Policy, context: Context) -> Iterator[Hit]:
    suspending = [preemption for preemption in policy.preemptions if preemption.mode == "SUSPEND"]
    selects = policy.setting("SelectTypeParameters")
    if not suspending:
        return
    span, path = place_of(suspending[0].mode_set, policy)
    # Without the setting the memory is counted by most versions, and not by all.
    is_counted = None if selects is None else "memory" in selects.value.lower()
    if is_counted is False:
        yield Hit(
            span=span,
            path=path,
            message="a suspended job keeps its memory, and memory is not counted here: the job that takes its place shares it, "
            "and the kernel may kill one of them",
            remedy="`SelectTypeParameters=CR_Core_Memory`, or `PreemptMode=REQUEUE`",
            severity=Severity.MAY_BE_LOST,
        )
    else:
        yield Hit(
            span=span,
            path=path,
            message="a suspended job keeps its memory and its GPUs: a job that needs them waits as if nothing had been preempted, and "
            "the suspended one gets no signal to save",
            remedy="`PreemptMode=REQUEUE` where jobs have checkpoints or use GPUs",
        )


RULE = Rule(
    code="LG906",
    name="suspend-holds-memory",
    severity=Severity.NOTE,
    what="PreemptMode=SUSPEND, and whether memory is counted (SelectTypeParameters).",
    why="SUSPEND stops processes and frees only processors. Memory stays in use, and GPUs and other GRES are not "
    "released. Where memory is not a consumable resource, two jobs' memory has to fit into one node's; where "
    "it is, a job that needs what the suspended one holds cannot start.",
    bad="""\
ClusterName=c1
SlurmctldHost=head
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=SUSPEND,GANG
PartitionName=low Nodes=n[1-4] PriorityTier=1
PartitionName=high Nodes=n[1-4] PriorityTier=10
""",
    good="""\
ClusterName=c1
SlurmctldHost=head
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=low Nodes=n[1-4] PriorityTier=1
PartitionName=high Nodes=n[1-4] PriorityTier=10
""",
    safe_to_ignore="Jobs use processors only, and little memory.",
    source='slurm.conf(5), PreemptMode: "suspended jobs will still use memory", "Suspended jobs will not release '
    'GRES"; SelectTypeParameters',
    reads=Policy,
    check=check,
)
