"""Keeping a job away from nodes on which its attempts die.

Slurm takes a new list of excluded nodes for a job only while the job waits in the queue (seen with 22.05). So the job is
requeued first, from inside, and changed in the moment after that; a segment that waits behind it is changed where it is.
"""

from collections.abc import Callable, Mapping, Sequence

from lastgood.core import handback
from lastgood.core.errors import LastgoodError
from lastgood.core.handback import Means, Rules
from lastgood.core.suspects import limit_for
from lastgood.launch.ports import Left
from lastgood.schedulers.slurm_commands import SlurmCommands
from lastgood.schedulers.slurm_segments import Segments
from lastgood.schedulers.slurm_text import compress_hosts, expand_hosts, value_of

_LIMIT_S = 20.0
"""While slurmctld is away, the job rather goes on where it is than stand still."""
_UPDATE_S = 4.0
"""After the requeue there is KillWait, and the launcher has to leave in it, too."""


def may_avoid(job: Mapping[str, str], nodes_of_partition: str) -> int:
    """How many nodes a job may stay away from; 0 where the user has said which nodes it runs on.

    >>> may_avoid({"NumNodes": "1"}, "4"), may_avoid({"NumNodes": "1", "ReqNodeList": "n1"}, "4")
    (1, 0)
    """
    if value_of(dict(job), "ReqNodeList") or not nodes_of_partition.isdigit():
        return 0
    needed = job.get("NumNodes", "").partition("-")[0]
    left = int(nodes_of_partition) - len(_excluded(job))
    return limit_for(int(nodes_of_partition), int(nodes_of_partition) - left + int(needed)) if needed.isdigit() else 0


def avoid(
    nodes: Sequence[str],
    job: Mapping[str, str],
    rules: Rules,
    commands: SlurmCommands,
    segments: Segments,
    say: Callable[[str], None],
) -> Left | None:
    """Have the job started again, by the means that it has anyway, and not on these nodes; None if it cannot be."""
    chosen = handback.plan(rules)
    away = compress_hosts(sorted({*_excluded(job), *nodes}))
    where = f"on other nodes than {compress_hosts(nodes)}"
    try:
        if chosen.means in (Means.EXIT_CODE, Means.REQUEUE):
            commands.requeue(job["JobId"], limit_s=_LIMIT_S)
        elif chosen.means is Means.PERSON:
            return None
        else:
            waiting = segments.waiting() or [segments.ensure_own({**job, "ExcNodeList": away})]
            for job_id in waiting:
                commands.update(job_id, limit_s=_LIMIT_S, ExcNodeList=away)
            return Left(chosen.exit_code, f"Slurm job {waiting[0]} goes on with the work, {where}")
    except LastgoodError as error:
        say(f"warning: the job cannot be kept away from {compress_hosts(nodes)}: {error.what}")
        return None
    try:
        commands.update(job["JobId"], limit_s=_UPDATE_S, ExcNodeList=away)
    except LastgoodError as error:
        say(f"warning: the job is requeued, and may come back to {compress_hosts(nodes)}: {error.what}")
        where = "on any nodes"
    return Left(chosen.exit_code, f"Slurm has put the job back into its queue, to start it {where}")


def _excluded(job: Mapping[str, str]) -> list[str]:
    """What the job is kept away from already."""
    return expand_hosts(value_of(dict(job), "ExcNodeList"))
