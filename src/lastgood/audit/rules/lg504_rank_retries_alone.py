"""LG504: each task of a step starts its program again by itself."""

from collections.abc import Iterator

from lastgood.audit.batch.ranks import are_coupled, task_count
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if script.uses_lastgood:
        return
    for command, launch in script.work:
        outer = command.around.outer
        if outer is None or command.around.within != "-c" or launch.wrapper("srun") is None:
            continue
        if not _retries(command, outer) or (task_count(script, launch) or 1) < 2:
            continue
        why = are_coupled(script, context, command, launch)
        if why:
            yield Hit(
                span=command.span,
                message=f"each task starts its program again by itself, but they work together ({why}): a task that comes back "
                "meets nobody, since the others still wait in the old group",
                remedy="put the loop around srun, with `--kill-on-bad-exit=1`, so that all of them start again",
            )
            return


def _retries(command: Command, outer: Command) -> bool:
    """It stands in a loop of the string that runs until it succeeds, or a fixed number of times."""
    inner = command.around.loops[len(outer.around.loops) :]
    return any(loop.kind in ("while", "until") for loop in inner) or (
        bool(inner) and (command.around.is_condition or "break" in command.around.rescued_by)
    )


RULE = Rule(
    code="LG504",
    name="rank-retries-alone",
    severity=Severity.WASTEFUL,
    what="A retry loop inside `srun bash -c`, around a program whose tasks work together.",
    why="The tasks of a group meet once, at the start. One that died and starts again finds nobody: the others wait for the old "
    "one, until a timeout or the time limit. Only all of them together can start again.",
    bad="""\
#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --kill-on-bad-exit=1 bash -c 'until python train.py --resume; do sleep 10; done'
""",
    good="""\
#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --kill-on-bad-exit=1 python train.py --resume
""",
    safe_to_ignore="The program forms its group anew by itself.",
    source="torch.distributed's documentation: a process group cannot be joined later; kubeflow trainer#2000, the same with pods",
    reads=BatchScript,
    check=check,
)
