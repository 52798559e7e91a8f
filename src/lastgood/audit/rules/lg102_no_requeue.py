"""LG102: the job may not be requeued, and nothing else brings it back."""

from collections.abc import Iterator

from lastgood.audit.batch.limits import is_long, is_short
from lastgood.audit.batch.restarts import comes_back_by_itself, seems_to_resume
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    refused = script.header.get("no-requeue")
    if refused is None or script.uses_lastgood or not script.work or is_short(script) or comes_back_by_itself(script):
        return
    if seems_to_resume(script):
        yield Hit(
            span=refused.span,
            message="the program seems to resume, but with `--no-requeue` a dead node or a preemption ends the job until "
            "somebody submits it again",
            remedy="write `#SBATCH --requeue`",
            severity=Severity.MAY_BE_LOST,
        )
    elif is_long(script):
        yield Hit(
            span=refused.span,
            message="with `--no-requeue` a dead node or a preemption ends the job until somebody submits it again",
            remedy="let the program resume from a checkpoint, then write `#SBATCH --requeue`",
        )


RULE = Rule(
    code="LG102",
    name="no-requeue",
    severity=Severity.NOTE,
    what="A long job with `--no-requeue` that nothing else starts again.",
    why="A dead node, a preemption or a failed launch ends the job. Not even an administrator can requeue it. A chain of "
    "jobs or a launcher that submits the next one is another matter, and is not reported.",
    bad="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --no-requeue
srun --kill-on-bad-exit=1 python train.py --resume
""",
    good="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --no-requeue
#SBATCH --array=0-9%1
srun --kill-on-bad-exit=1 python train.py --resume
""",
    safe_to_ignore="Something outside of the script submits it again, or it must not run twice.",
    source="sbatch(1), --no-requeue",
    reads=BatchScript,
    check=check,
)
