"""The figures of an accounting, as they are printed with --json. Times are local to the cluster, as ISO 8601."""

from typing import Annotated

import msgspec

from lastgood.core.reliability import FailureRate


def _says(description: str) -> msgspec.Meta:
    return msgspec.Meta(description=description)


class _Answer(msgspec.Struct, forbid_unknown_fields=True):
    """Strict when decoded, so that a test sees a member that is not documented."""


Rate = Annotated[
    FailureRate | None, _says("failures per 1,000 node-days, with the 95 % interval; null where nothing ran")
]
Failures = Annotated[int, _says("runs that ended so, of a burst only one")]
LostNodeHours = Annotated[float, _says("by failures, as `assumption` says")]
LostGpuHours = Annotated[float, _says("the same on their GPUs")]


class EndingFigures(_Answer):
    name: Annotated[str, _says("how the runs ended")]
    is_failure: Annotated[bool, _says("it came from outside the job, and counts into the rate")]
    runs: Annotated[int, _says("how many")]
    events: Annotated[int, _says("how many of them independent of each other")]
    node_hours: Annotated[float, _says("they ran for")]
    gpu_hours: Annotated[float, _says("they ran for")]
    rate: Rate
    lost_node_hours: LostNodeHours
    lost_gpu_hours: LostGpuHours


class GroupFigures(_Answer):
    name: Annotated[str, _says("of the partition, or the type of GPU")]
    runs: Annotated[int, _says("that ended, or still run")]
    node_days: Annotated[float, _says("they ran for")]
    gpu_hours: Annotated[float, _says("they ran for")]
    failures: Failures
    causes: Annotated[dict[str, int], _says("the failures by how they ended")]
    rate: Rate
    lost_node_hours: LostNodeHours
    lost_gpu_hours: LostGpuHours


class NodeFigures(_Answer):
    name: Annotated[str, _says("of the node")]
    failures: Annotated[int, _says("of the machine; jobs that end together are one")]
    node_days: Annotated[float, _says("jobs ran on it for")]
    rate: Rate
    expected: Annotated[float, _says("failures, if all nodes were equal")]
    chance: Annotated[float, _says("that at least one of so many equal nodes would fail as often, by luck")]
    is_suspect: Annotated[bool, _says("that chance is below 1 %, and it failed twice or more")]


class PeriodFigures(_Answer):
    begin: Annotated[str, _says("its first day")]
    node_days: Annotated[float, _says("jobs ran for in it")]
    failures: Failures
    rate: Rate
    lost_node_hours: LostNodeHours


class CodeFigures(_Answer):
    exit_code: Annotated[str, _says("code:signal; codes from 128 on are shown less 128")]
    runs: Annotated[int, _says("that ended as FAILED with it")]
    events: Annotated[int, _says("of them, each burst counted once")]
    node_hours: Annotated[float, _says("they ran for")]


class BurstFigures(_Answer):
    of: Annotated[str, _says("the array or job, or the node")]
    ending: Annotated[str, _says("how they ended")]
    runs: Annotated[int, _says("that lived for less than a minute; they count as one event")]


class AttemptFigures(_Answer):
    jobs: Annotated[int, _says("that ran; a task of an array is a job")]
    restarted_jobs: Annotated[int, _says("that ran more than once")]
    most: Annotated[int, _says("runs of one job")]
    jobs_by_runs: Annotated[dict[str, int], _says("how many jobs ran once, twice, ...")]
    failures: Annotated[int, _says("runs that ended by a failure")]
    failures_restarted: Annotated[int, _says("of them, those after which the job ran again")]
    wait_median_s: Annotated[float | None, _says("from such an end to the next start; null without one")]
    wait_p90_s: Annotated[float | None, _says("nine of ten are not longer")]
    wait_total_s: Annotated[float, _says("all of them together")]


class MisreadFigures(_Answer):
    what: Annotated[str, _says("what is wrong")]
    rows: Annotated[int, _says("that are not used for this")]
    examples: Annotated[list[str], _says("with their lines")]


class AccountingAnswer(_Answer):
    source: Annotated[str, _says("the file, or the command that was run")]
    rows: Annotated[int, _says("below the heading")]
    step_rows: Annotated[int, _says("rows of steps, which say nothing more")]
    duplicate_rows: Annotated[int, _says("the same run once more")]
    joined_rows: Annotated[int, _says("rows that a line break had cut")]
    not_started: Annotated[int, _says("rows of jobs that never ran, or wait")]
    runs: Annotated[int, _says("that are counted below")]
    begin: Annotated[str, _says("of the first run, or of the time that was asked for; empty if unknown")]
    end: Annotated[str, _says("of the last run, or of the time that was asked for; empty if unknown")]
    node_days: Annotated[float, _says("exposed: nodes of each run times its length")]
    gpu_hours: Annotated[float, _says("the same for GPUs")]
    rate: Rate
    machine_rate: Annotated[FailureRate | None, _says("of node, boot and launch failures alone")]
    lost_node_hours: LostNodeHours
    lost_gpu_hours: LostGpuHours
    assumption: Annotated[str, _says("what is taken for lost")]
    endings: Annotated[list[EndingFigures], _says("by how the runs ended")]
    attempts: AttemptFigures
    partitions: Annotated[list[GroupFigures], _says("most node-days first")]
    gpu_types: Annotated[list[GroupFigures], _says("most node-days first")]
    nodes: Annotated[list[NodeFigures], _says("with failures of the machine, the 50 least likely, least likely first")]
    trend: Annotated[list[PeriodFigures], _says("by week or month")]
    exit_codes: Annotated[list[CodeFigures], _says("of FAILED, most runs first")]
    bursts: Annotated[list[BurstFigures], _says("largest first")]
    not_understood: Annotated[list[MisreadFigures], _says("rows that were left out")]
    notes: Annotated[list[str], _says("what these figures lack, and why")]
