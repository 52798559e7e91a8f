"""LG613: an OpenFOAM case begins at its start time at each start."""

from collections.abc import Iterator

from lastgood.audit.batch.applications import openfoam
from lastgood.audit.batch.attempts import runs_again
from lastgood.audit.batch.inputs import foam_entry, text_of
from lastgood.audit.batch.limits import is_short
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity

_CONTROL = "system/controlDict"


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if not script.header.directives or is_short(script) or script.uses_lastgood:
        return
    solvers = list(openfoam(script))
    if not solvers:
        return
    text = text_of(script, context, _CONTROL)
    if text is None or foam_entry(text, "startFrom") not in ("startTime", "firstTime") or _is_set_elsewhere(script):
        return
    is_again = runs_again(script, context)
    _, launch = solvers[-1]
    yield Hit(
        span=launch.words[0].span,
        message=f"`{_CONTROL}` says `startFrom {foam_entry(text, 'startFrom')};`: "
        + ("each start of this job" if is_again else "a job that is requeued or submitted again")
        + " computes from the first time on and overwrites what was written",
        remedy=f"write `startFrom latestTime;` in {_CONTROL}",
        severity=Severity.LOST if is_again else None,
    )


def _is_set_elsewhere(script: BatchScript) -> bool:
    """True if a command of the script changes the entry."""
    return any(
        command.name in ("sed", "foamDictionary", "perl", "awk", "cp", "ln", "mv")
        and any("startFrom" in word.text or "controlDict" in word.text for word in script.words(command))
        for command in script.commands
    )


RULE = Rule(
    code="LG613",
    name="openfoam-starts-from-zero",
    severity=Severity.MAY_BE_LOST,
    what="An OpenFOAM solver whose `system/controlDict` (beside the script, or written by it) has `startFrom startTime` or `firstTime`.",
    why="OpenFOAM writes a directory for each time, and only `startFrom latestTime` makes it go on from the newest one.",
    bad="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
cat > system/controlDict <<'END'
application   icoFoam;
startFrom     startTime;
startTime     0;
stopAt        endTime;
endTime       3;
deltaT        0.0005;
writeInterval 200;
END
srun --kill-on-bad-exit=1 icoFoam -parallel
""",
    good="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
cat > system/controlDict <<'END'
application   icoFoam;
startFrom     latestTime;
startTime     0;
stopAt        endTime;
endTime       3;
deltaT        0.0005;
writeInterval 200;
END
srun --kill-on-bad-exit=1 icoFoam -parallel
""",
    safe_to_ignore="The case is small, or the script looks after times itself.",
    source="OpenFOAM user guide, time control; tried with OpenFOAM 1912",
    reads=BatchScript,
    check=check,
)
