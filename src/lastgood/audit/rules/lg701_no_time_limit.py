"""LG701: the script asks for no time limit."""

import math
import re
from collections.abc import Iterator

from lastgood.audit.batch.limits import partitions, time_limit_s
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity

_PBS_TIME = re.compile(rb"^#(PBS|BSUB)\b.*(walltime|-W)", re.MULTILINE)
_LATE = re.compile(r"#SBATCH\s+(-t\b|--time\b)")
_REMEDY = "add `#SBATCH --time=HH:MM:SS`, somewhat more than one attempt needs"


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    header = script.header
    if not header.directives or not script.work or _PBS_TIME.search(script.source.data):
        return
    asked = header.get("time")
    if asked is not None:
        if time_limit_s(script) == math.inf:
            yield Hit(
                span=asked.span,
                message=f"`{asked.value}` asks for no limit at all: where it is granted, a job that hangs is never ended",
                remedy=_REMEDY,
            )
        return
    if any(_LATE.match(script.source.line(span.line)) for span in header.too_late):
        # The rule about late directives says it.
        return
    yield Hit(
        span=header.directives[0].span,
        message=f"no time limit is asked for: {_what_counts(script, context)}",
        remedy=_REMEDY,
    )


def _what_counts(script: BatchScript, context: Context) -> str:
    policy = context.policy
    for name in partitions(script, policy) if policy is not None else ():
        assert policy is not None
        default = policy.partition(name, "DefaultTime") or ""
        if default and default.upper() != "NONE":
            return f"DefaultTime={default} of partition {name} ends the job, however far it is"
        most = policy.partition(name, "MaxTime")
        if most:
            return f"one that hangs holds its nodes for MaxTime={most} of partition {name}"
    return "the partition's default counts, which ends the job early, or lets one that hangs hold its nodes for days"


RULE = Rule(
    code="LG701",
    name="no-time-limit",
    severity=Severity.NOTE,
    what="A script without `--time`, or one that asks for no limit.",
    why="The partition's DefaultTime or MaxTime counts then. A short one ends the job in the middle; with a long one, a job "
    "that hangs after a fault holds its nodes until then, and the scheduler cannot fit the job into gaps.",
    bad="""\
#!/bin/bash
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --resume
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --resume
""",
    safe_to_ignore="The limit is given on the command line, or the partition's default is what you want.",
    source="sbatch(1), --time; slurm.conf(5), DefaultTime and MaxTime",
    reads=BatchScript,
    check=check,
)
