"""Whether a job's directory is where its next attempt finds it, on whatever node that runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from lastgood.core.errors import UsageError
from lastgood.core.filesystem import Reach, reach_of
from lastgood.launch.mounts import type_of

Tolerance = Literal["refuse", "warn", "allow"]


def check_reach(job: Path, tolerance: Tolerance | None) -> str:
    """A warning about a directory that only this node has, for a job that may go on elsewhere; empty if there is
    nothing to say. Without a `tolerance` a directory in memory is refused, and one on a disk is warned of.

    Raises UsageError where it is refused.
    """
    kind = type_of(job)
    reach = reach_of(kind)
    if reach not in (Reach.MEMORY, Reach.NODE) or tolerance == "allow":
        return ""
    text = f"{job} is {reach.value} ({kind}): an attempt on another node would not find its checkpoints"
    if tolerance == "refuse" or (tolerance is None and reach is Reach.MEMORY):
        raise UsageError(
            text,
            safe="nothing was started",
            remedy="put the job on shared storage, and write fast with Run(stage=...); or say --local-storage allow",
        )
    return text


def check_seen(job: Path, sees: Mapping[str, bool]) -> None:
    """Raises UsageError, with their names, if nodes of the allocation do not see the job's directory."""
    blind = sorted(node for node, can in sees.items() if not can)
    if blind:
        raise UsageError(
            f"{job} is not there on {', '.join(blind[:10])}: ranks there could not save",
            safe="the command was not started",
            remedy="put the job on storage that all nodes share",
        )
