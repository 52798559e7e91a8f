"""Which job a task of a Slurm array works on: stated, never guessed. Pure.

A throttle of one (`--array=1-5%1`) does not tell: it can be a chain of segments, or many jobs of which one may run at
a time. Taken for each other, one would lose work and the other would skip it.
"""

import re
from collections.abc import Mapping

from lastgood.core.errors import UsageError
from lastgood.core.layout import Env

TASK = "%a"
ARRAY = "%A"

_CHAIN = re.compile(r"(\d{1,10})(?:_\d+)?")
"""As `chain_of` makes it."""


def full_id(environment: Mapping[str, str]) -> str:
    """What Slurm's commands take for this job and nothing else.

    The last task of an array has the array's own number, so that `scontrol requeue` with it takes all of the tasks.

    >>> full_id({"SLURM_JOB_ID": "70", "SLURM_ARRAY_JOB_ID": "70", "SLURM_ARRAY_TASK_ID": "3"}), full_id({"SLURM_JOB_ID": "7"})
    ('70_3', '7')
    """
    array = environment.get("SLURM_ARRAY_JOB_ID", "")
    return f"{array}_{environment.get('SLURM_ARRAY_TASK_ID', '')}" if array else environment["SLURM_JOB_ID"]


def chain_of(environment: Mapping[str, str], *, is_chained: bool) -> str:
    """What ties this Slurm job and those that go on with its work together.

    >>> chain_of({"SLURM_JOB_ID": "71", "SLURM_ARRAY_JOB_ID": "70", "SLURM_ARRAY_TASK_ID": "3"}, is_chained=False)
    '70_3'
    """
    array = environment.get("SLURM_ARRAY_JOB_ID", "") if is_chained else ""
    return environment.get(Env.CHAIN) or array or full_id(environment)


def of_task(pattern: str, environment: Mapping[str, str]) -> str:
    """A name with the numbers of this task and its array in the place of `%a` and `%A`; outside of an array, as it is.

    >>> of_task("x-%a.prom", {"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_JOB_ID": "70"}), of_task("x-%a.prom", {})
    ('x-3.prom', 'x-%a.prom')
    """
    task, array = environment.get("SLURM_ARRAY_TASK_ID", ""), environment.get("SLURM_ARRAY_JOB_ID", "")
    return pattern.replace(TASK, task).replace(ARRAY, array) if task else pattern


def job_of_task(pattern: str, environment: Mapping[str, str], *, is_chained: bool) -> str:
    """The job's directory, from --job: `%a` is the number of the task, `%A` that of the array (of the first one, where
    this task goes on with the work of another).

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
    if match := _CHAIN.fullmatch(environment.get(Env.CHAIN, "")):
        array = match[1]
    return pattern.replace(TASK, task).replace(ARRAY, array)
