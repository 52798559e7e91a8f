"""LG105: the program's exit code is lost in a pipe."""

from collections.abc import Iterator

from lastgood.audit.batch.exits import has_errexit, lost_code, main_work
from lastgood.audit.batch.readers import consequence, shown
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity

_REMEDY = "put `set -o pipefail` above it, or `exit ${PIPESTATUS[0]}` behind it"


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    found = main_work(script)
    costs = consequence(script, context.policy)
    if found is None or costs is None:
        return
    command = found[0]
    lost = lost_code(script, command)
    if lost is None or lost.how != "pipe":
        return
    then, severity = costs
    also = ", although `set -e` is set" if has_errexit(script, command.begin) else ""
    yield Hit(
        span=command.span,
        message=f"the exit code of {shown(script, command)} is lost in the pipe{also}: when it fails, {then}",
        # A plain sh has no such option.
        remedy=f"begin the script with `#!/bin/bash`, and {_REMEDY}" if _is_sh(script) else _REMEDY,
        severity=severity,
    )


def _is_sh(script: BatchScript) -> bool:
    return script.source.line(1).strip().endswith(("/sh", " sh"))


RULE = Rule(
    code="LG105",
    name="exit-code-lost-in-a-pipe",
    severity=Severity.NOTE,
    what="A program that writes into a pipe, as in `srun ... | tee log`, without `pipefail`.",
    why="The exit code of a pipe is that of its last command, and `tee` always succeeds. A program that crashed counts as "
    "a success, for `set -e`, for RequeueExit and for jobs that wait with afterok.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
set -e
srun --kill-on-bad-exit=1 python train.py --resume 2>&1 | tee -a train.log
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
set -eo pipefail
srun --kill-on-bad-exit=1 python train.py --resume 2>&1 | tee -a train.log
""",
    safe_to_ignore="What reads the pipe finds a failure by itself and ends with a code of its own.",
    source="bash(1), Pipelines; seen with bash 5.2: `set -e; false | tee x; echo on` goes on and ends with 0",
    reads=BatchScript,
    check=check,
)
