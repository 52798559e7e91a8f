"""LG910: jobs are safe from preemption only for their first minutes."""

from collections.abc import Iterator

from lastgood.audit.policy import Policy
from lastgood.audit.rule import Context, Hit, Rule, Severity
from lastgood.core.units import duration


def check(policy: Policy, context: Context) -> Iterator[Hit]:
    setting = policy.setting("PreemptExemptTime")
    exempt_s = policy.exempt_s
    modes = {preemption.mode for preemption in policy.preemptions}
    if setting is None or not exempt_s or not modes:
        return
    if modes == {"SUSPEND"}:
        yield Hit(
            span=setting.span,
            path=setting.path,
            message="PreemptExemptTime protects only jobs that are requeued or cancelled; here they are suspended, at any time",
            remedy="leave it out, or `PreemptMode=REQUEUE`",
        )
        return
    yield Hit(
        span=setting.span,
        path=setting.path,
        message=f"a job is sure of its first {duration(exempt_s)} only, after each start: one that needs longer between two "
        "checkpoints may never get on",
        remedy=f"tell users to save within {duration(exempt_s)} of the start, restart and loading included",
    )


RULE = Rule(
    code="LG910",
    name="exempt-time-is-the-window",
    severity=Severity.NOTE,
    what="PreemptExemptTime, as the window that a job can rely on.",
    why="A job may be preempted as soon as it has run for PreemptExemptTime, and the time begins anew when it is "
    "requeued. A job that saves at least once in that time always makes progress; one that does not may be "
    "preempted again and again and start from the same place.",
    bad="""\
ClusterName=c1
SlurmctldHost=head
PreemptType=preempt/qos
PreemptMode=REQUEUE
PreemptExemptTime=00:30:00
""",
    good="""\
ClusterName=c1
SlurmctldHost=head
PreemptType=preempt/qos
PreemptMode=REQUEUE
""",
    safe_to_ignore="Users know of it; it is a protection that is good to have.",
    source="slurm.conf(5), PreemptExemptTime",
    reads=Policy,
    check=check,
)
