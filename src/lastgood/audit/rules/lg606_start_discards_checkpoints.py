"""LG606: each start of the script deletes or passes over what the attempt before saved."""

from collections.abc import Iterator

from lastgood.audit.batch.applications import openfoam
from lastgood.audit.batch.attempts import runs_again
from lastgood.audit.batch.places import is_told_to_resume, places_of, saves
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.batch.shell import Command
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if script.uses_lastgood or not runs_again(script, context):
        return
    yield from _removals(script)
    yield from _overwritten(script)
    yield from _decomposed(script)


def _removals(script: BatchScript) -> Iterator[Hit]:
    seen = set()
    for place in places_of(script):
        if not (place.is_for_checkpoints or saves(place.launch)):
            continue
        kept = {choice.text.rstrip("/") for choice in place.choices}
        for command in script.commands:
            if (
                command.begin > place.command.begin
                or not _always_runs(command)
                or command.name != "rm"
                or command.begin in seen
            ):
                continue
            removed = {
                word.text.rstrip("*").rstrip("/") for word in script.words(command)[1:] if not word.text.startswith("-")
            }
            if kept and kept <= removed and all(len(path) > 1 for path in kept):
                seen.add(command.begin)
                yield Hit(
                    span=command.span,
                    message=f"each start of the job removes what `{place.option}` holds, and the job is started again by itself: an attempt "
                    "deletes the checkpoints of the one before",
                    remedy='only at the first start: `[ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] || rm ...`',
                )


def _overwritten(script: BatchScript) -> Iterator[Hit]:
    for _, launch in script.work:
        word = next((w for w in launch.words[1:] if w.text.replace("-", "_") == "__overwrite_output_dir"), None)
        if word is not None and not is_told_to_resume(launch):
            yield Hit(
                span=word.span,
                message="`--overwrite_output_dir` makes the program pass over the checkpoints that are there, and the job is started again by "
                "itself: each attempt starts from zero",
                remedy="leave it out: the program then resumes from the newest checkpoint in its output directory, if there is one",
                severity=Severity.MAY_BE_LOST,
            )


def _decomposed(script: BatchScript) -> Iterator[Hit]:
    if not any(launch.has_argument("-parallel") for _, launch in openfoam(script)):
        return
    for command, launch in script.launches:
        if launch.program == "decomposePar" and launch.has_argument("-force") and _always_runs(command):
            yield Hit(
                span=command.span,
                message="`decomposePar -force` removes the processor directories at each start, with all times that the attempt before has "
                "written there",
                remedy="only at the first start: `[ -d processor0 ] || decomposePar`",
            )


def _always_runs(command: Command) -> bool:
    around = command.around
    return not (
        around.is_conditional or around.is_condition or around.function or around.within or around.in_substitution
    )


RULE = Rule(
    code="LG606",
    name="start-discards-checkpoints",
    severity=Severity.LOST,
    what="A job that is started again by itself, and whose script first clears the directory of its checkpoints, gives "
    "`--overwrite_output_dir`, or decomposes an OpenFOAM case anew.",
    why="A requeued job runs the script from its first line, so what is meant for a fresh start is done at each restart: the checkpoints of "
    "the attempt before are deleted or passed over.",
    bad="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
OUT=/scratch/$USER/runs/a
rm -rf "$OUT"
mkdir -p "$OUT"
srun --kill-on-bad-exit=1 python train.py --checkpoint-dir "$OUT" --resume auto
""",
    good="""\
#!/bin/bash
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
OUT=/scratch/$USER/runs/a
[ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] || rm -rf "$OUT"
mkdir -p "$OUT"
srun --kill-on-bad-exit=1 python train.py --checkpoint-dir "$OUT" --resume auto
""",
    safe_to_ignore="The work must start from zero each time.",
    source="sbatch(1), --requeue: the script is started from its beginning; decomposePar -help; the Transformers example scripts",
    reads=BatchScript,
    check=check,
)
