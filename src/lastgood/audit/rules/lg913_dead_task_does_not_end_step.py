"""LG913: a step goes on when one of its tasks has died."""

from collections.abc import Iterator

from lastgood.audit.policy import Policy, place_of
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(policy: Policy, context: Context) -> Iterator[Hit]:
    setting = policy.setting("KillOnBadExit")
    if policy.is_true("KillOnBadExit") is not False or not (setting or policy.is_whole_cluster):
        return
    span, path = place_of(setting, policy)
    yield Hit(
        span=span,
        path=path,
        message="KillOnBadExit is 0: when one rank fails, the others wait for it, often until the time limit, unless each `srun` says "
        "`--kill-on-bad-exit`",
        remedy="`KillOnBadExit=1`; a step whose tasks are independent says `--kill-on-bad-exit=0`",
    )


RULE = Rule(
    code="LG913",
    name="dead-task-does-not-end-step",
    severity=Severity.NOTE,
    what="KillOnBadExit is 0, its default.",
    why="Ranks of a parallel program cannot go on without each other. With 0 srun lets the others run when one "
    "ends with an error: they hang in their next collective, and the nodes are paid for until the time limit.",
    bad="""\
ClusterName=c1
SlurmctldHost=head
KillOnBadExit=0
""",
    good="""\
ClusterName=c1
SlurmctldHost=head
KillOnBadExit=1
""",
    safe_to_ignore="Many jobs here start independent tasks with one srun.",
    source="slurm.conf(5), KillOnBadExit; srun(1), --kill-on-bad-exit",
    reads=Policy,
    check=check,
)
