"""LG703: a long job in which nothing hints at a checkpoint."""

import math
from collections.abc import Iterator

from lastgood.audit.batch.exits import main_work
from lastgood.audit.batch.limits import in_words, time_limit_s
from lastgood.audit.batch.programs import Launch
from lastgood.audit.batch.restarts import may_resume, needs_no_resume
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity

LEAST_S = 24 * 3600.0
_LEADS_A_TEAM = ("srun", "mpirun", "torchrun", "accelerate", "deepspeed")


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    limit, asked, found = time_limit_s(script), script.header.get("time"), main_work(script)
    if limit is None or asked is None or found is None or not LEAST_S <= limit < math.inf:
        return
    if script.uses_lastgood or script.header.get("requeue") is not None or may_resume(script):
        return
    if needs_no_resume(found[1]) or not _is_one_long_program(script, found[1]):
        return
    path = found[1].python_script
    program = context.find_program(script.path, path) if path else None
    if program is not None and (program.saves or program.loads_anything or not program.is_job):
        return
    what = "nothing in this script hints at a checkpoint" if program is None else f"{path} saves nothing while it works"
    yield Hit(
        span=asked.span,
        message=f"{what}: a failure near the end may lose up to {in_words(limit)} of work",
        remedy="save regularly and resume: `lastgood run --job DIR -- ...`, or the program's own options for it",
        severity=None if program is None else Severity.MAY_BE_LOST,
    )


def _is_one_long_program(script: BatchScript, launch: Launch) -> bool:
    """A program over tasks or on a GPU; a row of small ones is something else."""
    header = script.header
    asks = " ".join(header.value(name) for name in ("gres", "gpus", "gpus-per-node", "gpus-per-task"))
    nodes = header.value("nodes").partition("-")[0]
    is_team = any(wrapper.name in _LEADS_A_TEAM for wrapper in launch.wrappers)
    has_gpu = "gpu" in asks or any(c.isdigit() for c in asks)
    is_one = len(script.work) == 1 and not script.work[0][0].around.loops
    return is_one and ((nodes.isdigit() and int(nodes) > 1) or (has_gpu and (is_team or launch.program == "python")))


RULE = Rule(
    code="LG703",
    name="long-without-checkpoint",
    severity=Severity.NOTE,
    what="A job of a day or more, on several nodes or with GPUs, in which nothing looks like a checkpoint or a resume.",
    why="All that was computed since the last state that can be resumed is lost when a node dies, the job is preempted or "
    "the time limit comes. Without any, that is all of it.",
    bad="""\
#!/bin/bash
#SBATCH --time=72:00:00
#SBATCH --nodes=4
srun --kill-on-bad-exit=1 python train.py --epochs 100
""",
    good="""\
#!/bin/bash
#SBATCH --time=72:00:00
#SBATCH --nodes=4
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --epochs 100 --checkpoint-every 1h --resume auto
""",
    safe_to_ignore="The program saves and resumes without being told.",
    source="A. Kokolis et al., Revisiting reliability in large-scale machine learning research clusters (2024): 6.5 failures in "
    "1,000 node-days",
    reads=BatchScript,
    check=check,
)
