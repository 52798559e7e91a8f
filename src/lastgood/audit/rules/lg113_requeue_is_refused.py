"""LG113: the script requeues itself, and Slurm refuses it."""

from collections.abc import Iterator

from lastgood.audit.batch.restarts import requeues_itself
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity
from lastgood.audit.source import Edit


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    header = script.header
    if not header.directives or header.get("requeue") is not None:
        return
    own = header.get("no-requeue")
    default = context.policy.is_true("JobRequeue") if context.policy is not None else None
    if own is None and default is not False:
        return
    command = next((command for command in script.commands if requeues_itself(script, command)), None)
    if command is None:
        return
    why = "`--no-requeue` above" if own is not None else "JobRequeue=0 on this cluster, and no `--requeue` above"
    yield Hit(
        span=command.span,
        message=f"`scontrol requeue` is refused for this job ({why}): where the script counts on it, the job ends",
        remedy="write `#SBATCH --requeue`",
        edits=() if own is not None else (Edit(header.end, header.end, "#SBATCH --requeue\n"),),
    )


RULE = Rule(
    code="LG113",
    name="requeue-is-refused",
    severity=Severity.LOST,
    what="`scontrol requeue` in a job that may not be requeued: `--no-requeue`, or JobRequeue=0 without `--requeue`.",
    why="Slurm refuses to requeue a job whose requeue flag is off, also when the job asks for it itself. The trap that was "
    "meant to continue it does nothing, and the time limit ends the job for good.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --no-requeue
#SBATCH --signal=B:USR1@300
srun --kill-on-bad-exit=1 python train.py --resume &
pid=$!
trap 'kill -USR1 "$pid"; wait "$pid"; scontrol requeue "$SLURM_JOB_ID"' USR1
wait "$pid"
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@300
srun --kill-on-bad-exit=1 python train.py --resume &
pid=$!
trap 'kill -USR1 "$pid"; wait "$pid"; scontrol requeue "$SLURM_JOB_ID"' USR1
wait "$pid"
""",
    safe_to_ignore="The job is submitted with `sbatch --requeue`, which wins over the script.",
    source="sbatch(1), --no-requeue; scontrol(1), requeue; slurm.conf(5), JobRequeue; seen with Slurm 22.05: "
    "`Requested operation is presently disabled`, exit code 1",
    reads=BatchScript,
    check=check,
)
