"""LG204: checkpoints have a relative path, and the script goes to another directory each time."""

from collections.abc import Iterator

from lastgood.audit.batch.applications import keeps_where_it_runs
from lastgood.audit.batch.attempts import is_chain_of_jobs
from lastgood.audit.batch.changes import is_absolute, local_storage, new_at_each_start, new_in_each_job
from lastgood.audit.batch.limits import is_short
from lastgood.audit.batch.places import MOST_WORK, directory_of, is_training, places_of, saves
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command
from lastgood.audit.batch.words import Word
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if not script.header.directives or script.uses_lastgood or is_short(script):
        return
    seen = set()
    for command, at, what in _relative(script):
        here = directory_of(script, command)
        if here is None or local_storage(here) is not None or here in seen:
            continue
        name = new_at_each_start(here)
        if not name and is_chain_of_jobs(script):
            name = new_in_each_job(here)
        if name:
            seen.add(here)
            yield Hit(
                span=at.span,
                message=f"{what} in the working directory, and the script goes to a new one at each start (its name is made of "
                f"{name}): a job that is started again does not find what it saved",
                remedy="give an absolute path that stays the same, such as `$SLURM_SUBMIT_DIR/runs/$SLURM_JOB_ID`",
            )


def _relative(script: BatchScript) -> Iterator[tuple[Command, Word, str]]:
    for place in places_of(script):
        knows = place.is_for_checkpoints or saves(place.launch) or is_training(place.launch)
        if knows and not any(is_absolute(choice) for choice in place.choices):
            yield place.command, place.written, f"`{place.option}` is"
    for command, launch in script.work[:MOST_WORK]:
        if keeps_where_it_runs(launch):
            yield command, launch.words[0], f"`{launch.program}` saves"


RULE = Rule(
    code="LG204",
    name="working-directory-new-each-time",
    severity=Severity.MAY_BE_LOST,
    what="Checkpoints with a relative path, or a program that saves where it runs, behind a `cd` to a directory that is made of the "
    "date, a process id, a random number or `mktemp`; in a chain of jobs also of the job's id.",
    why="A job that is requeued runs the script from its first line: it goes to a new, empty directory, and starts from zero.",
    bad="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
WORK=$(mktemp -d /scratch/$USER/run-XXXXXX)
cp topol.tpr "$WORK" && cd "$WORK"
gmx mdrun -s topol.tpr -cpi state.cpt -maxh 23.5
""",
    good="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
WORK=/scratch/$USER/run-$SLURM_JOB_ID
mkdir -p "$WORK" && cp topol.tpr "$WORK" && cd "$WORK"
gmx mdrun -s topol.tpr -cpi state.cpt -maxh 23.5
""",
    safe_to_ignore="The work is over in minutes, or what it saves is looked for with an absolute path.",
    source="sbatch(1), --requeue: the script is started from its beginning",
    reads=BatchScript,
    check=check,
)
