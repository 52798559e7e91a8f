"""LG106: a failure of the program is turned into success."""

from collections.abc import Iterator

from lastgood.audit.batch.exits import carrier, lost_code, main_work
from lastgood.audit.batch.readers import consequence, shown
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    found = main_work(script)
    costs = consequence(script, context.policy)
    if found is None or costs is None:
        return
    command = found[0]
    lost = lost_code(script, carrier(script, command))
    if lost is None:
        return
    then, severity = costs
    if lost.rescued is not None:
        program = "this program" if lost.rescued is command else shown(script, command)
        message = f"`|| {_short(lost.rescued.around.rescued_by)}` makes a success of each failure of {program}: {then}"
        span, remedy = lost.rescued.span, "take it away, or write `|| { rc=$?; echo failed; exit $rc; }`"
    elif lost.how == "exit" and lost.by is not None:
        message = f"`exit 0` ends the job with success also where {shown(script, command)} failed: {then}"
        span, remedy = lost.by.span, "put `rc=$?` on the line behind the program and `exit $rc` here"
    else:
        return
    yield Hit(span=span, message=message, remedy=remedy, severity=severity)


def _short(text: str) -> str:
    line = text.split("\n")[0]
    return line if len(line) <= 30 else f"{line[:26]} ..."


RULE = Rule(
    code="LG106",
    name="exit-code-thrown-away",
    severity=Severity.NOTE,
    what="A program in front of `|| true`, `|| echo ...`, or with `exit 0` at the end of the script.",
    why="Whatever happens, the job is COMPLETED: no requeue by its exit code, no mail, and jobs that wait with afterok "
    "start on what a crash left behind.",
    bad="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --resume
exit 0
""",
    good="""\
#!/bin/bash
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python train.py --resume
exit $?
""",
    safe_to_ignore="The program reports failures where somebody looks, and nothing depends on the job's state.",
    source="bash(1), Lists and EXIT STATUS; slurm.conf(5), RequeueExit",
    reads=BatchScript,
    check=check,
)
