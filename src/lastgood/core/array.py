"""Which job a task of a Slurm array works on: stated, never guessed. Pure.

A throttle of one (`--array=1-5%1`) does not tell: it can be a chain of segments, or many jobs of which one may run at
a time. Taken for each other, one would lose work and the other would skip it.
"""

from collections.abc import Mapping

from lastgood.core.errors import UsageError

TASK = "%a"
ARRAY = "%A"


def job_of_task(pattern: str, environment: Mapping[str, str], *, is_chained: bool) -> str:
    """The job's directory, from --job: `%a` is the number of the task, `%A` that of the array.

    Raises UsageError where it is not stated what the tasks are, or stated twice.

    >>> job_of_task("runs/x-%a", {"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_JOB_ID": "70"}, is_chained=False)
    'runs/x-3'
    """
    task, array = environment.get("SLURM_ARRAY_TASK_ID", ""), environment.get("SLURM_ARRAY_JOB_ID", "")
    is_by_task = TASK in pattern
    if not task:
        if is_by_task or ARRAY in pattern:
            raise UsageError(f"--job {pattern}: {TASK} and {ARRAY} are of an array, and this is none")
        return pattern
    if is_chained and is_by_task:
        raise UsageError(
            f"--job {pattern} is another job for each task of the array, and --chained says that they share one",
            remedy=f"leave out {TASK}, or --chained",
        )
    if not is_chained and not is_by_task:
        raise UsageError(
            f"--job {pattern}: is it one job for all tasks of the array, or one for each?",
            safe="nothing was started",
            remedy=f"for one each, put {TASK} into it: --job {pattern}-{TASK}; for segments of one job, add --chained",
        )
    return pattern.replace(TASK, task).replace(ARRAY, array)
