"""LG104: the job ends with the exit code of a command behind the program."""

import re
from collections.abc import Iterator

from lastgood.audit.batch.exits import carrier, lost_code, main_work
from lastgood.audit.batch.readers import consequence, shown
from lastgood.audit.batch.restarts import requeues_itself, submits_itself
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity

_TALKS = re.compile(r"(\w+_)?(print|log|echo|msg|message|info|warn)(_\w+)?")
"""Functions of a file that is read in, by their names: no programs."""


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    found = main_work(script)
    costs = consequence(script, context.policy)
    if found is None or costs is None:
        return
    command = found[0]
    if _TALKS.fullmatch(command.name):
        return
    lost = lost_code(script, carrier(script, command))
    if lost is None or lost.how != "later" or lost.by is None:
        return
    if any(requeues_itself(script, other) or submits_itself(script, other) for other in script.commands):
        # Its code does not decide whether it comes back.
        return
    then, severity = costs
    yield Hit(
        span=command.span,
        message=f"the job's exit code is that of {shown(script, lost.by)}, not of {shown(script, command)}: when that "
        f"fails, {then}",
        remedy="put `rc=$?` on the line behind it and `exit $rc` at the end, or `set -e` above it",
        severity=severity,
    )


RULE = Rule(
    code="LG104",
    name="exit-code-of-a-later-command",
    severity=Severity.NOTE,
    what="A program with other commands behind it, so that their exit code is the job's.",
    why="A batch script ends with the code of its last command. An `echo` behind a program that crashed makes the job "
    "COMPLETED: it is not requeued by its code (RequeueExit), jobs that wait with afterok start, and nobody is told. "
    "With a grace period before preemption the same code decides whether the job comes back.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --resume
echo "finished at $(date)"
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --resume
rc=$?
echo "finished at $(date)"
exit $rc
""",
    safe_to_ignore="Nobody looks at the job's state, or the commands behind the program find out by themselves whether "
    "it did its work.",
    source="bash(1), EXIT STATUS; slurm.conf(5), RequeueExit; seen with bash 5.2: `false; echo x; exit $?` ends with 0, and "
    "so does a closing `if` whose test is false",
    reads=BatchScript,
    check=check,
)
