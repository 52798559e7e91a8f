"""What a test looks for in the queue."""

import re

from .slurm import SlurmCluster
from .work import Work


def queued(cluster: SlurmCluster) -> list[str]:
    """Jobs that wait or run, tasks of arrays one by one, as "7 RUNNING"."""
    return cluster.run("squeue", "-h", "-a", "-r", "-o", "%i %T").stdout.splitlines()


def own_segments(work: Work) -> list[int]:
    """The jobs that the launchers have submitted to go on with the work, in order."""
    return [int(number) for number in re.findall(r"Slurm job (\d+) waits behind this one", work.text())]
