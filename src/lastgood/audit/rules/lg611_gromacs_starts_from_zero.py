"""LG611: GROMACS writes a checkpoint every 15 minutes, and the script never reads it."""

import re
from collections.abc import Iterator

from lastgood.audit.batch.applications import mdruns
from lastgood.audit.batch.attempts import runs_again
from lastgood.audit.batch.limits import time_limit_s
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity

_BENCHMARK = re.compile(r"bench|perform|scaling", re.IGNORECASE)

_SMALL_S = 2 * 3600.0
"""What fits into so much time is computed again and forgotten."""


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    limit_s = time_limit_s(script)
    if not script.header.directives or script.uses_lastgood or b"-cpi" in script.source.data:
        return
    if limit_s is not None and limit_s <= _SMALL_S:
        return
    if _BENCHMARK.search(f"{script.path} {script.header.value('job-name')}"):
        return
    runs = [run for run in mdruns(script) if run.is_production and run.is_plain]
    if not runs:
        return
    run = runs[-1]
    # Several runs that all write `state.cpt` must not read each other's.
    is_shared = run.stem == "state" and len(list(mdruns(script))) > 1
    options = (
        "-cpo NAME.cpt -cpi NAME.cpt` with a name of its own for each run" if is_shared else f"-cpi {run.stem}.cpt`"
    )
    is_again = runs_again(script, context)
    yield Hit(
        span=run.launch.words[0].span if run.launch.words[0].span.line else run.command.span,
        message="`mdrun` without `-cpi`: "
        + ("each start of this job begins" if is_again else "a job that is requeued or submitted again begins")
        + f" at step 0, though `{run.stem}.cpt` is there",
        remedy=f"add `{options}: where there is no such file yet, GROMACS begins at step 0 with the same command",
        severity=Severity.LOST if is_again else None,
    )


RULE = Rule(
    code="LG611",
    name="gromacs-starts-from-zero",
    severity=Severity.MAY_BE_LOST,
    what="`gmx mdrun` without `-cpi`, in a job that may take more than two hours. Minimisations, equilibrations and benchmarks are left out.",
    why="GROMACS saves its state every 15 minutes, and when it is told to stop. Without `-cpi` the next start does not look at it: it renames "
    "the old files to `#md.cpt.1#` and the like, and computes everything again.",
    bad="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun gmx_mpi mdrun -deffnm md -maxh 23.5
""",
    good="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun gmx_mpi mdrun -deffnm md -cpi md.cpt -maxh 23.5
""",
    safe_to_ignore="The simulation fits into one job many times over, and starting again costs less than thinking about it.",
    source="gmx mdrun's manual, -cpi; tried with GROMACS 2022.5",
    reads=BatchScript,
    check=check,
)
