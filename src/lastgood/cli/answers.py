"""What the commands that look after checkpoints print with --json, as types.

The reference page is made from these, and the tests decode real output with them. Members may be added
in later versions; none changes its meaning. Times are in seconds since 1970, sizes in bytes.
"""

from typing import Annotated, Any, Literal

import msgspec

from lastgood.audit.formats.answers import AuditAnswer, ExplainAnswer
from lastgood.drill.answer import DrillAnswer
from lastgood.plan.document import PlanAnswer
from lastgood.plan.history.answer import AccountingAnswer
from lastgood.prove.document import ComparedRuns, ProveAnswer
from lastgood.report.model import FleetReport


def _says(description: str) -> msgspec.Meta:
    return msgspec.Meta(description=description)


Name = Annotated[str, _says("name of the checkpoint's directory: step and attempt")]
Step = Annotated[int, _says("the step that it holds")]
AttemptNumber = Annotated[int, _says("the attempt that wrote it, from 1")]
JobPath = Annotated[str, _says("absolute path of the job directory")]


class _Answer(msgspec.Struct, forbid_unknown_fields=True):
    """Strict when decoded, so that a test sees a member that is not documented."""


class ListedCheckpoint(_Answer):
    name: Name
    step: Step
    attempt: AttemptNumber
    state: Annotated[
        Literal["good", "rejected", "damaged", "unreadable", "newer format", "incomplete"],
        _says("as far as its manifest tells"),
    ]
    problem: Annotated[str, _says("why it is not good; empty if it is")]
    is_last_good: Annotated[bool, _says("the one that a start tries first")]
    is_pinned: Annotated[bool, _says("never deleted by retention")]
    pin_reason: Annotated[str, _says("why it is pinned; empty if it is not")]
    is_set_aside: Annotated[bool, _says("a later attempt meant a new start (--fresh)")]
    stage: Annotated[str, _says("on this node only, in this stage; empty if it is in the job's own directory")]
    created: Annotated[float | None, _says("when it was committed; null without a readable manifest")]
    age_s: Annotated[float | None, _says("seconds since then, by this machine's clock")]
    bytes: Annotated[int | None, _says("size of all its parts")]
    world_size: Annotated[int | None, _says("ranks that wrote it")]
    metrics: Annotated[dict[str, float], _says("what was logged at that step")]


class LsAnswer(_Answer):
    job: JobPath
    id: Annotated[str, _says("the job's id")]
    checkpoints: Annotated[list[ListedCheckpoint], _says("newest first")]


class ShownArray(_Answer):
    name: Annotated[str, _says("place in the state, keys joined by dots")]
    dtype: Annotated[str, _says("element type, by its name in the safetensors format")]
    shape: Annotated[list[int], _says("extents")]
    bytes: Annotated[int, _says("size")]
    rank: Annotated[int, _says("rank whose file holds it")]


class ShowAnswer(_Answer):
    job: JobPath
    name: Name
    step: Step
    attempt: AttemptNumber
    created: Annotated[float, _says("when it was committed")]
    write_s: Annotated[float, _says("seconds from the start of the save to the commit")]
    bytes: Annotated[int, _says("size of all its parts")]
    world_size: Annotated[int, _says("ranks that wrote it")]
    constants_bytes: Annotated[int, _says("size of the constants that it refers to, which other checkpoints share")]
    rank_bytes: Annotated[list[int], _says("size of each rank's part")]
    metrics: Annotated[dict[str, float], _says("what was logged at that step")]
    config: Annotated[dict[str, Any], _says("hyperparameters given to Run(config=...)")]
    fingerprint: Annotated[dict[str, str], _says("the environment that wrote it")]
    rejected: Annotated[str, _says("why it was rejected; empty if it was not")]
    pin_reason: Annotated[str, _says("why it is pinned; empty if it is not")]
    rank: Annotated[int, _says("the rank whose state follows")]
    arrays: Annotated[list[ShownArray], _says("the arrays of that state")]
    entries: Annotated[dict[str, Any], _says("the skeleton of each entry of the state (see the format page)")]


VerifyResult = Literal["whole", "damaged", "unreadable", "newer format"]


class VerifiedCheckpoint(_Answer):
    name: Name
    step: Step
    attempt: AttemptNumber
    result: Annotated[VerifyResult, _says("what reading all of it showed")]
    bytes: Annotated[int, _says("bytes that its manifest vouches for; 0 if the manifest is damaged")]
    problems: Annotated[list[str], _says("what is damaged, or could not be read: file, bytes and block")]
    rejected: Annotated[str, _says("why it is marked as rejected; empty if it is not (any more)")]
    was_cleared: Annotated[bool, _says("--clear-rejected removed its mark")]


class VerifyAnswer(_Answer):
    job: JobPath
    checkpoints: Annotated[list[VerifiedCheckpoint], _says("in the order asked for, else newest first")]


class PrunedCheckpoint(_Answer):
    name: Name
    is_kept: Annotated[bool, _says("false: deleted, or with --dry-run would be")]
    reason: Annotated[str, _says("why")]


class PruneAnswer(_Answer):
    job: JobPath
    is_dry_run: Annotated[bool, _says("true: nothing was touched")]
    checkpoints: Annotated[list[PrunedCheckpoint], _says("newest first")]
    incomplete: Annotated[list[str], _says("directories without a manifest that were swept, or would be")]
    freed_bytes: Annotated[int, _says("size of the deleted checkpoints, without the incomplete ones")]
    constants: Annotated[
        list[str], _says("constants files that were deleted because no checkpoint refers to them")
    ] = []


class PinAnswer(_Answer):
    job: JobPath
    name: Name
    is_pinned: Annotated[bool, _says("after the command")]
    reason: Annotated[str, _says("why; empty if it is not pinned")]
    was_pinned: Annotated[bool, _says("before the command")]


class ExportAnswer(_Answer):
    job: JobPath
    name: Name
    format: Annotated[Literal["safetensors", "torch", "dcp", "npz"], _says("what was written")]
    files: Annotated[list[str], _says("absolute paths of what was written")]
    arrays: Annotated[int, _says("number of arrays")]
    bytes: Annotated[int, _says("size of the arrays")]
    entries: Annotated[list[str], _says("entries of the state that were written")]
    left_out: Annotated[list[str], _says("entries that were not")]
    changed: Annotated[list[str], _says("values that the format cannot hold as they were, and what they became")]


class StatusAttempt(_Answer):
    attempt: AttemptNumber
    began: Annotated[float, _says("when it was claimed")]
    ended: Annotated[float | None, _says("when it ended; null while it runs")]
    how: Annotated[str, _says("fresh or resumed; empty if the program never said")]
    outcome: Annotated[str, _says("how it ended; empty while it runs")]
    reason: Annotated[str, _says("why that is thought")]
    from_step: Annotated[int | None, _says("step that it began after")]
    reached_step: Annotated[int | None, _says("last step that it is known to have finished")]
    saved_step: Annotated[int | None, _says("newest step that it committed")]
    steps_done: Annotated[int | None, _says("reached_step - from_step")]
    lost_steps: Annotated[int, _says("steps that were or will be done again, as far as is known")]
    lost_s: Annotated[float, _says("seconds spent on them")]
    is_loss_known: Annotated[bool, _says("false: more may be lost, nothing tells which step it had reached at its end")]
    is_inner: Annotated[bool, _says("restarted inside the attempt before it, by torchrun for example")]


class StatusLive(_Answer):
    step: Annotated[int, _says("last step that all ranks have finished")]
    total_steps: Annotated[int | None, _says("steps in all, if known")]
    steps_per_s: Annotated[float | None, _says("since the attempt began")]
    silent_s: Annotated[float, _says("since the last sign of life of the most silent rank")]
    phase: Annotated[str, _says("what that rank is doing")]


class StatusLastGood(_Answer):
    name: Annotated[str, _says("name of the checkpoint; a path for a command with checkpoints of its own")]
    step: Step
    created: Annotated[float, _says("when it was committed")]
    age_s: Annotated[float, _says("seconds since then")]
    bytes: Annotated[int | None, _says("size, if known")]


class StatusStaged(_Answer):
    name: Name
    step: Step
    stage: Annotated[str, _says("the stage on this node that it is on")]


class StatusAnswer(_Answer):
    job: JobPath
    id: Annotated[str, _says("the job's id")]
    state: Annotated[
        Literal[
            "running",
            "running without its launcher",
            "finished",
            "stopped, unfinished",
            "given up",
            "not started yet",
        ],
        _says("how it stands"),
    ]
    why: Annotated[str, _says("what makes us say so")]
    pid: Annotated[int | None, _says("process that runs it, if it is on this machine")]
    host: Annotated[str, _says("machine where it runs; empty if it does not")]
    live: Annotated[
        StatusLive | None,
        _says("from the heartbeats, or what an application says of itself; on the machine where it runs"),
    ]
    last_good: Annotated[StatusLastGood | None, _says("what the next attempt would resume from")]
    staged: Annotated[list[StatusStaged], _says("newer than all in the job's own directory: on this node only")]
    attempts: Annotated[list[StatusAttempt], _says("oldest first")]
    lost_steps: Annotated[int, _says("by all attempts, as far as is known")]
    lost_s: Annotated[float, _says("by all attempts, as far as is known")]
    standby: Annotated[str, _says("the standby of the running attempt; empty if nothing is known of one")]
    interval_s: Annotated[
        float | None, _says("seconds between two saves, as it promises; null if it counts steps or does not run")
    ]
    snapshots: Annotated[str, _says("the memory that its snapshots take, in words; empty if none, or it does not run")]
    restarts_left: Annotated[int | None, _says("failures that would still be restarted; null if no launcher said")]
    slurm: Annotated[str, _says("what Slurm says of the job whose number was given; empty if none was")] = ""


class HistoryRun(_Answer):
    job_id: Annotated[str, _says("the job's id")]
    state: Annotated[str, _says("as Slurm's accounting has it; empty if that does not answer")]
    exit_code: Annotated[str, _says("code:signal; codes from 128 on are shown less 128")]
    began: Annotated[float | None, _says("when it began")]
    ended: Annotated[float | None, _says("when it ended; null while it runs")]
    nodes: Annotated[list[str], _says("where")]
    gpus: Annotated[int | None, _says("GPUs that it had; null if nothing tells")]
    restart_count: Annotated[int | None, _says("how often Slurm had requeued it by then")]
    partition: Annotated[str, _says("its partition")]


class HistoryAttempt(_Answer):
    attempt: Annotated[int | None, _says("the attempt, from 1; null for a run of Slurm in which none began")]
    began: Annotated[float, _says("when it was claimed, or the run began")]
    ended: Annotated[float | None, _says("when it ended; null while it runs")]
    outcome: Annotated[str, _says("how it ended by our journal; empty while it runs")]
    reason: Annotated[str, _says("why that is thought")]
    from_step: Annotated[int | None, _says("step that it began after")]
    reached_step: Annotated[int | None, _says("last step that it is known to have finished")]
    lost_steps: Annotated[int, _says("steps that were or will be done again, as far as is known")]
    lost_s: Annotated[float, _says("seconds spent on them")]
    is_loss_known: Annotated[bool, _says("false: more may be lost, nothing tells which step it had reached at its end")]
    lost_gpu_hours: Annotated[float | None, _says("lost_s on all its GPUs; null if nothing tells how many")]
    slurm: Annotated[HistoryRun | None, _says("the run of Slurm that it was in; null if it was in none")]
    disagreement: Annotated[str, _says("where our journal and Slurm do not say the same; empty where they do")]


class HistoryAnswer(_Answer):
    job: JobPath
    id: Annotated[str, _says("the job's id")]
    state: Annotated[str, _says("how it stands, as `lastgood status` says it")]
    attempts: Annotated[list[HistoryAttempt], _says("oldest first")]
    lost_steps: Annotated[int, _says("by all attempts, as far as is known")]
    lost_s: Annotated[float, _says("by all attempts, as far as is known")]
    lost_gpu_hours: Annotated[float | None, _says("by all attempts that tell; null if none does")]
    run_s: Annotated[float, _says("seconds in which an attempt ran")]
    span_s: Annotated[float, _says("seconds from the begin of the first to the end of the last, or to now")]
    effective_share: Annotated[
        float | None, _says("(run_s - lost_s) / span_s, the effective training time ratio; null before the first")
    ]
    note: Annotated[str, _says("why Slurm's accounting is missing; empty if it is not, or was not needed")]


class ListedApp(_Answer):
    name: Annotated[str, _says("what `lastgood run --app` takes")]
    summary: Annotated[str, _says("what it is")]
    description: Annotated[str, _says("the file that describes it; empty for an adapter in code")]


class AppListAnswer(_Answer):
    applications: Annotated[list[ListedApp], _says("in the order of their names")]


class CheckedAppCheckpoint(_Answer):
    path: Annotated[str, _says("as the application is told of it")]
    step: Annotated[int, _says("the step that it holds; 0 if that is not known")]
    written: Annotated[float, _says("when its last file was written")]
    bytes: Annotated[int, _says("size of all its files")]
    problem: Annotated[str, _says("why it cannot be used; empty if nothing speaks against it")]
    is_used: Annotated[bool, _says("the one that a start would resume from")]


class AppCheckAnswer(_Answer):
    application: Annotated[str, _says("the name in the description")]
    description: Annotated[str, _says("the file that was tried")]
    directory: Annotated[str, _says("where it was tried")]
    checkpoints: Annotated[list[CheckedAppCheckpoint], _says("newest first")]
    total: Annotated[int | None, _says("the step at which the work is done; null if it is not known")]
    is_finished: Annotated[bool, _says("a finished test holds")]
    fresh: Annotated[list[str], _says("the command of a start from zero; empty if none was given")]
    resume: Annotated[
        list[str], _says("the command of a start from that checkpoint; empty without one, or if no command was given")
    ]
    notes: Annotated[list[str], _says("what would be done before the next start")]
    stop: Annotated[str, _says("how it is asked to save and stop")]


class TransparentLimit(_Answer):
    mechanism: Annotated[str, _says("what has the limit: CRIU, cuda-checkpoint, DMTCP or MANA")]
    limit: Annotated[str, _says("what must be so")]
    state: Annotated[Literal["met", "not met", "not known"], _says("on this machine, for this command")]
    looked_at: Annotated[str, _says("what makes us say so")]


class AppTransparentAnswer(_Answer):
    command: Annotated[list[str], _says("the command that was looked at; empty if none was given")]
    limits: Annotated[list[TransparentLimit], _says("by mechanism")]


class FingerprintFact(_Answer):
    name: Annotated[str, _says("what was looked at")]
    value: Annotated[str, _says("what it is")]
    effect: Annotated[
        Literal["changes numbers", "may change numbers", "does not"], _says("what another value does to numbers")
    ]
    why: Annotated[str, _says("how")]


class FingerprintAnswer(_Answer):
    of: Annotated[str, _says("whose environment it is")]
    edition: Annotated[
        str, _says("which items were looked at; facts of another edition are compared where both have them")
    ]
    facts: Annotated[list[FingerprintFact], _says("what was found; a variable that is not here is not set")]
    note: Annotated[str, _says("what could not be found out; empty if nothing")]


class FingerprintDifference(_Answer):
    name: Annotated[str, _says("what differs")]
    old: Annotated[str, _says("what it is in A")]
    new: Annotated[str, _says("what it is in B")]
    effect: Annotated[Literal["changes numbers", "may change numbers", "does not"], _says("what that does to numbers")]
    why: Annotated[str, _says("how")]


class FingerprintDiffAnswer(_Answer):
    old: Annotated[str, _says("whose environment A is")]
    new: Annotated[str, _says("whose environment B is")]
    may_differ: Annotated[bool, _says("something differs that can change numbers: exit code 1")]
    differences: Annotated[list[FingerprintDifference], _says("what changes numbers first, what does not last")]


ANSWERS: dict[str, type[msgspec.Struct]] = {
    "status": StatusAnswer,
    "history": HistoryAnswer,
    "history --sacct": AccountingAnswer,
    "report": FleetReport,
    "ls": LsAnswer,
    "show": ShowAnswer,
    "verify": VerifyAnswer,
    "prune": PruneAnswer,
    "pin": PinAnswer,
    "export": ExportAnswer,
    "audit": AuditAnswer,
    "explain": ExplainAnswer,
    "plan": PlanAnswer,
    "drill": DrillAnswer,
    "prove": ProveAnswer,
    "prove --compare": ComparedRuns,
    "app list": AppListAnswer,
    "app check": AppCheckAnswer,
    "app transparent": AppTransparentAnswer,
    "fingerprint": FingerprintAnswer,
    "fingerprint --diff": FingerprintDiffAnswer,
}
"""By command."""
