"""LG702: the time limit is longer than any of the job's partitions allows."""

from collections.abc import Iterator

from lastgood.audit.batch.limits import in_words, partitions, time_limit_s
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.policy import Policy
from lastgood.audit.rule import Context, Hit, Rule, Severity
from lastgood.audit.source import Span
from lastgood.schedulers.slurm_text import parse_slurm_duration


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    asked, limit, policy = script.header.get("time"), time_limit_s(script), context.policy
    if asked is None or limit is None or policy is None:
        return
    names = partitions(script, policy)
    allowed = [_most(policy, name) for name in names]
    known = [seconds for seconds in allowed if seconds is not None]
    if known and len(known) == len(names) and limit > max(known):
        where = f"partition {names[0]} allows" if len(names) == 1 else f"partitions {', '.join(names)} allow"
        yield _hit(asked.span, where, max(known), "PartitionTimeLimit", "partition")
        return
    qos = script.header.value("qos")
    wall = policy.qos.get(qos, {}).get("maxwall")
    most = parse_slurm_duration(wall.value) if wall is not None else None
    if most is not None and limit > most:
        yield _hit(asked.span, f"QOS {qos} allows", most, "QOSMaxWallDurationPerJobLimit", "QOS")


def _hit(span: Span, where: str, most_s: float, reason: str, other: str) -> Hit:
    return Hit(
        span=span,
        message=f"{where} {in_words(most_s)} at most: Slurm refuses the job, or lets it wait for ever ({reason})",
        remedy=f"ask for at most {in_words(most_s)}, in segments that resume, or for another {other}",
    )


def _most(policy: Policy, name: str) -> float | None:
    """A partition's MaxTime in seconds; None where it is not known or there is none."""
    return parse_slurm_duration(policy.partition(name, "MaxTime") or "")


RULE = Rule(
    code="LG702",
    name="longer-than-the-partition-allows",
    severity=Severity.WASTEFUL,
    what="With the cluster's settings: a `--time` above MaxTime of each partition that the job names, or above its QOS's MaxWall.",
    why="By EnforcePartLimits sbatch refuses such a job, or it stays in the queue with the reason PartitionTimeLimit.",
    bad="""\
#!/bin/bash
#SBATCH --partition=short
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --resume
""",
    good="""\
#!/bin/bash
#SBATCH --partition=short
#SBATCH --time=04:00:00
#SBATCH --array=0-5%1
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --resume
""",
    safe_to_ignore="The job's QOS has the flag PartitionTimeLimit, or the limit is given on the command line.",
    source="slurm.conf(5), MaxTime and EnforcePartLimits; squeue(1), PartitionTimeLimit",
    reads=BatchScript,
    check=check,
    policy="ClusterName=x\nPartitionName=short Nodes=ALL MaxTime=04:00:00 Default=YES\n",
)
