"""LG915: nothing remembers how jobs ended."""

from collections.abc import Iterator

from lastgood.audit.policy import Policy, place_of
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(policy: Policy, context: Context) -> Iterator[Hit]:
    setting = policy.setting("AccountingStorageType")
    kind = policy.get("AccountingStorageType")
    if kind is None or kind.lower() not in ("", "accounting_storage/none") or not (setting or policy.is_whole_cluster):
        return
    log = (policy.get("JobCompType") or "").lower()
    has_log = log not in ("", "jobcomp/none")
    span, path = place_of(setting, policy)
    yield Hit(
        span=span,
        path=path,
        message="without accounting nothing says how often nodes fail and jobs are preempted, so no checkpoint interval can be founded on "
        "it" + ("; the job completion log has the last end of each job only" if has_log else ""),
        remedy="`AccountingStorageType=accounting_storage/slurmdbd`",
    )


RULE = Rule(
    code="LG915",
    name="no-accounting",
    severity=Severity.NOTE,
    what="No accounting storage.",
    why="`sacct --duplicates` is the record of every attempt: states such as NODE_FAIL and PREEMPTED, nodes, "
    "times. From it come the failure rate and with it how often to save. slurmctld forgets a job after "
    "MinJobAge, five minutes by default.",
    bad="""\
ClusterName=c1
SlurmctldHost=head
AccountingStorageType=accounting_storage/none
""",
    good="""\
ClusterName=c1
SlurmctldHost=head
AccountingStorageType=accounting_storage/slurmdbd
""",
    safe_to_ignore="The cluster is small, or for tests.",
    source="slurm.conf(5), AccountingStorageType, MinJobAge; sacct(1), --duplicates",
    reads=Policy,
    check=check,
)
