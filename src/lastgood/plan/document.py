"""A plan as it is kept in a file: what `lastgood plan --json` prints and `lastgood submit --plan` reads."""

from typing import Annotated, Literal

import msgspec

from lastgood.core.errors import DamagedError, FormatVersionError, UsageError
from lastgood.core.segments import MOST_SEGMENTS

FORMAT: Literal["lastgood plan"] = "lastgood plan"
VERSION = 1
MOST_BYTES = 10_000_000


def _says(description: str) -> msgspec.Meta:
    return msgspec.Meta(description=description)


class _Member(msgspec.Struct, forbid_unknown_fields=True):
    """Strict when decoded, so that a test sees a member that is not documented."""


class PlannedSave(_Member):
    stall_s: Annotated[float, _says("the loop stands still for a save")]
    write_s: Annotated[float, _says("from the safe point until a checkpoint on shared storage counts")]
    bytes: Annotated[int, _says("size of a checkpoint; 0 if nobody said")]
    source: Annotated[str, _says("where these figures are from")]


class PlannedFailures(_Member):
    per_1000_node_days: Annotated[float, _says("of each node; 0 if the MTTI was stated")]
    others_per_day: Annotated[float, _says("what strikes the job as a whole")]
    shape: Annotated[float, _says("of the Weibull distribution; 1 has no memory")]
    mtti_s: Annotated[float, _says("mean time between interruptions of this job")]
    source: Annotated[str, _says("where the figures are from")]
    per_week: Annotated[float, _says("interruptions in a week, downtime included in the week")]


class PlannedRecovery(_Member):
    detection_s: Annotated[float, _says("from a failure until somebody acts")]
    queue_s: Annotated[float, _says("waiting for nodes")]
    restart_s: Annotated[float, _says("from a start to its first new step")]
    assumed: Annotated[list[str], _says("which of these nobody has said, or where they are from")]


class PlannedCandidate(_Member):
    name: Annotated[str, _says("formula or bound")]
    formula: Annotated[str, _says("C: the stall, M: the MTTI, D: down, R: restart")]
    interval_s: Annotated[float, _says("what it says")]


class PlannedCost(_Member):
    effective_share: Annotated[float, _says("share of the time that is work which is never done again")]
    save_share: Annotated[float, _says("share of the running time in which the loop stands still for saves")]
    rework_s: Annotated[float, _says("mean work to be done again after one interruption, first order: I/2 + lag")]
    rework_gpu_hours: Annotated[float | None, _says("that on all GPUs; null if nobody said how many")]
    rework_steps: Annotated[float | None, _says("that in steps; null without --step")]
    lost_per_failure_s: Annotated[float, _says("all that one interruption costs: rework, detection, queue, restart")]
    lost_per_week_s: Annotated[float, _says("that for all interruptions of a week")]
    lost_per_week_gpu_hours: Annotated[
        float | None, _says("that on all GPUs, without the queue, in which none are held")
    ]
    rework_per_week_steps: Annotated[float | None, _says("rework_steps of all interruptions of a week")]
    ettr: Annotated[float, _says("(1 - (u0 + T/2)/M) / (1 + w/T): Kokolis et al.")]
    ettr_formula: Annotated[str, _says("with the numbers")]


class PlannedSimulation(_Member):
    why: Annotated[str, _says("why the formulas are not trusted alone")]
    effective_share: Annotated[float, _says("as simulated; the plan's figures are these")]
    error: Annotated[float, _says("half of its 99 % confidence interval")]
    failures: Annotated[int, _says("how many were simulated")]
    formula_share: Annotated[float, _says("what the formula says")]


class PlannedMechanism(_Member):
    name: Annotated[str, _says("what it is")]
    verdict: Annotated[Literal["use", "ask for", "do not"], _says("ask for: the site has to set it")]
    setting: Annotated[str, _says("what to write; empty if nothing")]
    reason: Annotated[str, _says("why")]


class PlannedWrong(_Member):
    factor: Annotated[float, _says("the true figure by the planned one")]
    lost_as_planned: Annotated[float, _says("share of the time lost with the planned interval")]
    lost_at_best: Annotated[float, _says("the same with the interval that would be best")]


class PlannedSubmission(_Member):
    """What `lastgood submit --plan` and `lastgood script --plan` take from it."""

    grace_s: Annotated[float, _says("--grace")]
    lead_s: Annotated[float | None, _says("--signal=B:USR1@...; null without a time limit")]
    mtti_s: Annotated[float, _says('LASTGOOD_MTTI: what every="auto" goes by')]
    may_requeue: Annotated[bool, _says("--requeue or --no-requeue")]
    segments: Annotated[int | None, _says("--segments, where a chain is to be used; null: one job")]
    limit_s: Annotated[float | None, _says("the time limit that it was planned for: --time, where none is given")]
    nodes: Annotated[int, _says("the nodes that it was planned for")]
    interval_s: Annotated[float, _says("for a program that is told how often to save")]
    is_auto_enough: Annotated[bool, _says('false: every="auto" would not come to this interval by itself')]
    excluded: Annotated[list[str], _says("mechanisms not to be used")]


class PlanAnswer(_Member):
    format: Annotated[Literal["lastgood plan"], _says("what this is")]
    version: Annotated[int, _says("of this format; a reader refuses one that it does not know")]
    interval_s: Annotated[float, _says("work between two saves")]
    decided: Annotated[str, _says("what decided it: optimum, a bound, simulation, or stated")]
    reason: Annotated[str, _says("the same in words")]
    way: Annotated[str, _says("how to save: asynchronous shared, ...")]
    save: Annotated[PlannedSave, _says("what a save costs")]
    failures: Annotated[PlannedFailures, _says("how often the job is interrupted")]
    recovery: Annotated[PlannedRecovery, _says("what follows an interruption")]
    nodes: Annotated[int, _says("nodes of the job")]
    gpus: Annotated[int | None, _says("GPUs of the job")]
    candidates: Annotated[list[PlannedCandidate], _says("what each formula says")]
    bounds: Annotated[list[PlannedCandidate], _says("what each bound says")]
    cost: Annotated[PlannedCost, _says("what saves and failures cost")]
    simulation: Annotated[PlannedSimulation | None, _says("null where the formulas are good for it")]
    doubts: Annotated[list[str], _says("why not to trust it, or what it does not keep")]
    run_s: Annotated[float | None, _says("running time for the work; null without --work")]
    wall_s: Annotated[float | None, _says("the same with the queue")]
    segments: Annotated[
        int | None, _says("runs that the work takes on average: each ends at the time limit or with an interruption")
    ]
    mechanisms: Annotated[list[PlannedMechanism], _says("which to use, and which not")]
    wrong_rates: Annotated[list[PlannedWrong], _says("if failures are that many times as often")]
    wrong_saves: Annotated[list[PlannedWrong], _says("if stall and write take that many times as long")]
    submit: Annotated[PlannedSubmission, _says("what `lastgood submit --plan` takes")]


class _Head(msgspec.Struct):
    format: str = ""
    version: int = 0


class _Body(msgspec.Struct):
    submit: PlannedSubmission


def read_plan(data: bytes, name: str, safe: str = "nothing was submitted") -> PlannedSubmission:
    """What a submission takes from the file `name`; `safe` is for errors. Raises UsageError for what is no plan, FormatVersionError for one of
    another version, DamagedError for one whose content is not as it should be."""
    remedy = "lastgood plan ... --json > plan.json writes one"
    try:
        head = msgspec.json.decode(data, type=_Head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{name}: not a plan: {error}", safe=safe, remedy=remedy) from None
    if head.format != FORMAT:
        raise UsageError(f"{name}: JSON, but not a plan", safe=safe, remedy=remedy)
    if head.version != VERSION:
        raise FormatVersionError(
            f"{name}: a plan of version {head.version}, and this lastgood reads version {VERSION}",
            safe=safe,
            remedy="plan again with this lastgood",
        )
    try:
        found = msgspec.json.decode(data, type=_Body).submit
    except (msgspec.DecodeError, RecursionError) as error:
        raise DamagedError(f"{name}: a damaged plan: {error}", safe=safe, remedy=remedy) from None
    is_sound = (
        found.grace_s >= 0 and found.mtti_s > 0 and (found.segments is None or 1 <= found.segments <= MOST_SEGMENTS)
    )
    if not is_sound or (found.lead_s is not None and not 0 < found.lead_s <= 1e9) or found.grace_s > 1e9:
        raise DamagedError(f"{name}: a plan with impossible numbers", safe=safe, remedy=remedy)
    return found
