"""LG615: RELION begins at the first iteration at each start."""

from collections.abc import Iterator

from lastgood.audit.batch.applications import relion
from lastgood.audit.batch.attempts import runs_again
from lastgood.audit.batch.limits import is_short
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if not script.header.directives or is_short(script) or script.uses_lastgood or b"--continue" in script.source.data:
        return
    found = [launch for _, launch in relion(script) if not any(word.text.startswith("$") for word in launch.words[1:])]
    if not found:
        return
    launch = found[-1]
    is_again = runs_again(script, context)
    yield Hit(
        span=launch.words[0].span,
        message=f"`{launch.program}` without `--continue`: "
        + ("each start of this job" if is_again else "a job that is requeued or submitted again")
        + " begins at iteration 0 and overwrites the iterations that are there",
        remedy="if there is one, add the newest whole iteration: `--continue OUT/run_itNNN_optimiser.star`, with the same `--o`",
        severity=Severity.LOST if is_again else None,
    )


RULE = Rule(
    code="LG615",
    name="relion-without-continue",
    severity=Severity.MAY_BE_LOST,
    what="`relion_refine` or `relion_refine_mpi` in a script that knows no `--continue`.",
    why="RELION writes its state after every iteration, but goes on from it only with `--continue` and the file of that iteration. Without it "
    "a restart writes over `run_it000_*` and the next ones, without a question.",
    bad="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 relion_refine_mpi --o Class3D/job012/run --i particles.star --ref map.mrc --iter 25 --K 4
""",
    good="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
# The last file of an iteration is its sampling: without it the iteration is not whole.
LAST=$(ls -v Class3D/job012/run_it*_sampling.star | tail -n 1)
if [ -n "$LAST" ]; then
  srun --kill-on-bad-exit=1 relion_refine_mpi --o Class3D/job012/run --continue "${LAST%_sampling.star}_optimiser.star"
else
  srun --kill-on-bad-exit=1 relion_refine_mpi --o Class3D/job012/run --i particles.star --ref map.mrc --iter 25 --K 4
fi
""",
    safe_to_ignore="The refinement is done within the hour.",
    source="relion_refine --help; tried with RELION 3.1.3",
    reads=BatchScript,
    check=check,
)
