"""LG202: segments of one chain have directories of their own, so that none finds what the one before saved."""

from collections.abc import Iterator

from lastgood.audit.batch.attempts import is_chain, is_chain_of_jobs, resubmissions, uses_task_number
from lastgood.audit.batch.changes import new_in_each_job, new_in_each_task
from lastgood.audit.batch.places import is_training, places_of, resumes_by_itself, resumes_from_elsewhere
from lastgood.audit.batch.script import BatchScript
from lastgood.audit.rule import Context, Hit, Rule, Severity


def check(script: BatchScript, context: Context) -> Iterator[Hit]:
    if not is_chain(script) or script.uses_lastgood or _hands_on(script):
        return
    if script.is_chained_array and not is_chain_of_jobs(script) and _tasks_differ(script):
        return
    seen = set()
    for place in places_of(script):
        changing = new_in_each_job if is_chain_of_jobs(script) else new_in_each_task
        names = {changing(choice) for choice in place.choices}
        knows = place.is_for_checkpoints or resumes_by_itself(place) or is_training(place.launch)
        if "" in names or not knows or place.choices in seen or resumes_from_elsewhere(place):
            continue
        seen.add(place.choices)
        other, stable = ("task", "$SLURM_ARRAY_JOB_ID") if script.is_chained_array else ("job", "$SLURM_JOB_NAME")
        yield Hit(
            span=place.written.span,
            message=f"`{place.option}` is made of {sorted(names)[0]}, and each segment of this chain is a {other} with another "
            "one: it does not find what the segment before saved",
            remedy=f"use what all segments have in common, such as {stable}",
            severity=Severity.LOST if resumes_by_itself(place) else None,
        )


def _hands_on(script: BatchScript) -> bool:
    """True if a segment tells the next one something: it may be the directory."""
    for command in resubmissions(script):
        words = [word.text for word in script.words(command)]
        behind = [i for i, text in enumerate(words[1:], 1) if not text.startswith("-")]
        has_arguments = bool(behind) and behind[-1] < len(words) - 1
        gives = [text for text in words if text.startswith("--export") and "=" in text.partition("=")[2]]
        if command.assignments or gives or has_arguments or len(behind) > 1:
            return True
    return False


def _tasks_differ(script: BatchScript) -> bool:
    places = frozenset(place.written.text for place in places_of(script))
    return uses_task_number(script, except_in=places) or _is_only_talked_of(script)


def _is_only_talked_of(script: BatchScript) -> bool:
    """The number stands in the script, and in no directory: who knows what for."""
    in_paths = any("SLURM_ARRAY_TASK_ID" in choice.variables for place in places_of(script) for choice in place.choices)
    return b"SLURM_ARRAY_TASK_ID" in script.source.data and not in_paths


RULE = Rule(
    code="LG202",
    name="run-directory-of-one-segment",
    severity=Severity.MAY_BE_LOST,
    what="A directory for checkpoints that is made of `$SLURM_JOB_ID` or the array's task id, in a chain of jobs or in an array "
    "whose tasks run one after the other (`%1`).",
    why="A requeue keeps the job's id, but each job of a chain and each task of an array has another one. Every segment gets an "
    "empty directory, and starts from zero.",
    bad="""\
#!/bin/bash
#SBATCH --job-name=pretrain
#SBATCH --time=24:00:00
#SBATCH --array=1-10%1
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python pretrain.py --save ckpt/$SLURM_JOB_ID --resume
""",
    good="""\
#!/bin/bash
#SBATCH --job-name=pretrain
#SBATCH --time=24:00:00
#SBATCH --array=1-10%1
#SBATCH --requeue
#SBATCH --open-mode=append
srun --kill-on-bad-exit=1 python pretrain.py --save ckpt/$SLURM_ARRAY_JOB_ID --resume
""",
    safe_to_ignore="The tasks are independent of each other, and `%1` only keeps them from running at once.",
    source="sbatch(1), output environment variables and --array",
    reads=BatchScript,
    check=check,
)
