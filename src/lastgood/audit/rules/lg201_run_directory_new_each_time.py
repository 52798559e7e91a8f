"""LG201: the directory for checkpoints has another name each time the job starts."""

import re
from collections.abc import Iterator

from lastgood.audit.batch.attempts import asks_for_requeue, is_chain
from lastgood.audit.batch.changes import local_storage, new_at_each_start
from lastgood.audit.batch.limits import is_short
from lastgood.audit.batch.places import Place, is_training, places_of, resumes_by_itself, resumes_from_elsewhere, saves
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity

_ESCAPED = re.compile(rb"\$\$[A-Za-z_{(]")


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if not script.header.directives or script.uses_lastgood or is_short(script):
        return
    comes_back = asks_for_requeue(script) or is_chain(script)
    if script.header.get("no-requeue") is not None and not comes_back:
        return
    seen = set()
    for place in places_of(script):
        names = {new_at_each_start(choice) for choice in place.choices}
        if "" in names or place.choices in seen or resumes_from_elsewhere(place):
            continue
        if any(name.startswith("the process id") for name in names) and _ESCAPED.search(script.source.data):
            # `$$name` is how templates write `$name`.
            continue
        if any(local_storage(choice) is not None for choice in place.choices):
            # Worse things can be said of it.
            continue
        severity = _severity(place, comes_back)
        if severity is not None:
            seen.add(place.choices)
            yield Hit(
                span=place.written.span,
                message=f"`{place.option}` is a new directory at each start: its name is made of {sorted(names)[0]}, so a job "
                "that is started again does not find what it saved",
                remedy="name it after the job, which stays the same when it is requeued: `runs/$SLURM_JOB_NAME-$SLURM_JOB_ID`",
                severity=severity,
            )


def _severity(place: Place, comes_back: bool) -> Severity | None:
    if resumes_by_itself(place):
        return Severity.LOST if comes_back else Severity.MAY_BE_LOST
    if place.is_for_checkpoints:
        return Severity.MAY_BE_LOST if comes_back else Severity.NOTE
    return Severity.NOTE if comes_back and is_training(place.launch) and saves(place.launch) else None


RULE = Rule(
    code="LG201",
    name="run-directory-new-each-time",
    severity=Severity.MAY_BE_LOST,
    what="A directory for checkpoints or results whose name is made of the date, a process id, a random number, `mktemp` or the "
    "count of restarts.",
    why="A job that is requeued runs the script from its first line. The name is made anew, the directory is empty, and a "
    "program that looks there for its newest checkpoint starts from zero, without any error.",
    bad="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
OUT=/scratch/$USER/runs/$(date +%Y%m%d-%H%M%S)
mkdir -p "$OUT"
srun --kill-on-bad-exit=1 python train.py --output_dir "$OUT" --resume auto
""",
    good="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
OUT=/scratch/$USER/runs/$SLURM_JOB_NAME-$SLURM_JOB_ID
mkdir -p "$OUT"
srun --kill-on-bad-exit=1 python train.py --output_dir "$OUT" --resume auto
""",
    safe_to_ignore="The program is told elsewhere where its last checkpoint is, or the directory holds only logs.",
    source="sbatch(1), --requeue: the script is started from its beginning, with the same job id",
    reads=BatchScript,
    check=check,
)
