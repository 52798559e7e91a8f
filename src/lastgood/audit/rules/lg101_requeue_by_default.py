"""LG101: whether the job is requeued is left to the cluster's default."""

from collections.abc import Iterator

from lastgood.audit.batch.limits import is_long, is_short
from lastgood.audit.batch.restarts import seems_to_resume
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity
from lastgood.audit.source import Edit


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    header = script.header
    if not header.directives or script.uses_lastgood or not script.work or is_short(script):
        return
    if header.get("requeue") is not None or header.get("no-requeue") is not None:
        return
    default = context.policy.is_true("JobRequeue") if context.policy is not None else None
    resumes = seems_to_resume(script)
    if default or not (resumes or is_long(script)):
        return
    known = "this cluster does not requeue by itself (JobRequeue=0)" if default is False else "clusters differ in it"
    severity = Severity.MAY_BE_LOST if default is False else Severity.NOTE
    yield Hit(
        span=header.directives[0].span,
        message=f"nothing says whether the job is requeued, and {known}: where it is not, a dead node or a preemption "
        "ends it",
        remedy="add `#SBATCH --requeue`",
        severity=severity,
        # A program that begins anew must not be run twice without its owner's word.
        edits=(Edit(header.end, header.end, "#SBATCH --requeue\n"),) if resumes else (),
    )


RULE = Rule(
    code="LG101",
    name="requeue-by-default",
    severity=Severity.NOTE,
    what="A long batch script, or one whose program resumes, that says neither `--requeue` nor `--no-requeue`.",
    why="When a node dies or a job is preempted, Slurm starts it again only if the job may be requeued. Where the script "
    "says nothing, JobRequeue in slurm.conf decides, and with JobRequeue=0 `scontrol requeue` is refused, too.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
srun --kill-on-bad-exit=1 python train.py --resume
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --resume
""",
    safe_to_ignore="The job is over in minutes, or it must not run twice; then say so with `--no-requeue`.",
    source="sbatch(1), --requeue; slurm.conf(5), JobRequeue",
    reads=BatchScript,
    check=check,
)
