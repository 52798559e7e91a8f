"""LG103: the job is requeued, and its program begins anew each time."""

from collections.abc import Iterator

from lastgood.audit.batch.exits import main_work
from lastgood.audit.batch.limits import in_words, is_short, time_limit_s
from lastgood.audit.batch.programs import Launch
from lastgood.audit.batch.restarts import may_resume, needs_no_resume
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    requeue, found = script.header.get("requeue"), main_work(script)
    if requeue is None or found is None or script.uses_lastgood or is_short(script) or may_resume(script):
        return
    launch = found[1]
    if needs_no_resume(launch):
        return
    begins_anew = _begins_anew(script, context, launch)
    limit = time_limit_s(script)
    lost = f"up to {in_words(limit)} of work" if limit is not None and limit < 1e9 else "all that was computed"
    if begins_anew:
        yield Hit(
            span=requeue.span,
            message=f"after each requeue {launch.python_script} begins anew, because it loads nothing that it saved: a dead node "
            f"or a preemption costs {lost}",
            remedy="let it save and load its state: `lastgood run --job DIR -- ...`, or `lastgood.Run` in its loop",
            severity=Severity.LOST,
        )
    elif begins_anew is None:
        yield Hit(
            span=requeue.span,
            message=f"the job is requeued, but nothing in the script hints at a resume: if the program begins anew, a dead node "
            f"or a preemption costs {lost}",
            remedy="give the program its option to resume, or run it as `lastgood run --job DIR -- ...`",
        )


def _begins_anew(script: BatchScript, context: Context, launch: Launch) -> bool | None:
    """By the program's own text; None if that is not at hand or does not tell."""
    path = launch.python_script
    program = context.find_program(script.path, path) if path else None
    if program is None:
        return None
    if program.loads_anything:
        return False
    return True if program.is_job else None


RULE = Rule(
    code="LG103",
    name="requeue-without-resume",
    severity=Severity.NOTE,
    what="A job with `--requeue` whose program loads no checkpoint, or in which nothing hints that it does.",
    why="Requeueing starts the script again from its first line. A program that does not load what it saved computes "
    "everything once more, at each dead node and each preemption; a job that is preempted often never ends.",
    bad="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --epochs 100
""",
    good="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --epochs 100 --resume auto
""",
    safe_to_ignore="The program resumes without being told, or it is short enough to begin anew.",
    source='sbatch(1), --requeue: "the batch script is initiated from its beginning"',
    reads=BatchScript,
    check=check,
)
