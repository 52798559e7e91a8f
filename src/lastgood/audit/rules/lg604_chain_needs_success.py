"""LG604: the next segment of a chain starts only if the one before ended well."""

from collections.abc import Iterator

from lastgood.audit.batch.chains import links_that_need_success, stops_before_its_limit
from lastgood.audit.batch.restarts import submits_itself
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if stops_before_its_limit(script):
        return
    last = max((command.begin for command, _ in script.work if command.name != "sbatch"), default=None)
    for command in links_that_need_success(script):
        if last is not None and command.begin > last and submits_itself(script, command):
            # The work has ended by itself when this is reached.
            continue
        yield Hit(
            span=command.span,
            message="the next segment of the same work waits for success (`afterok`): after a time limit, a dead node or a preemption it "
            "never starts, and these are what the chain is there for",
            remedy="use `--dependency=afterany:...`, or `--dependency=singleton` with one job name, and let the work end at once if it is done",
        )


RULE = Rule(
    code="LG604",
    name="chain-needs-success",
    severity=Severity.WASTEFUL,
    what="A script that submits the same work again with `--dependency=afterok`.",
    why="A segment that reaches its time limit ends as TIMEOUT, one whose node dies as NODE_FAIL. Neither is ok, so the next segment stays "
    "in the queue for ever (DependencyNeverSatisfied) or is cancelled, and nobody notices before somebody looks.",
    bad="""\
#!/bin/bash
#SBATCH --job-name=pretrain
#SBATCH --time=24:00:00
#SBATCH --no-requeue
[ -f done ] && exit 0
sbatch --dependency=afterok:$SLURM_JOB_ID "$0"
srun --kill-on-bad-exit=1 python pretrain.py --save runs/a --load runs/a && touch done
""",
    good="""\
#!/bin/bash
#SBATCH --job-name=pretrain
#SBATCH --time=24:00:00
#SBATCH --no-requeue
[ -f done ] && exit 0
sbatch --dependency=afterany:$SLURM_JOB_ID "$0"
srun --kill-on-bad-exit=1 python pretrain.py --save runs/a --load runs/a && touch done
""",
    safe_to_ignore="Each segment ends by itself well before its time limit, and a failed one should stop the chain.",
    source="sbatch(1), --dependency",
    reads=BatchScript,
    check=check,
)
