"""What a report says of jobs, as types: every way to show it (terminal, page, CSV, JSON, OpenMetrics) is made from these.

`lastgood report --format json` prints a FleetReport; the reference page is made from the descriptions. Members may be
added in later versions; none changes its meaning. Times are in seconds since 1970, sizes in bytes. What nothing tells is
null, never a guess.
"""

from bisect import bisect_left
from typing import Annotated, Literal, get_args

import msgspec

FORMAT: Literal["lastgood report"] = "lastgood report"
VERSION = 1

SpanKind = Literal["useful", "lost", "saving", "restarting", "stopping", "hung", "queued", "down", "unseen"]

KINDS: tuple[SpanKind, ...] = get_args(SpanKind)
"""In the order in which they are shown."""

MEANINGS: dict[SpanKind, str] = {
    "useful": "work that was not done again",
    "lost": "work that was done again, or has to be",
    "saving": "the loop stood still for a save",
    "restarting": "from the end of an attempt, or a launch, until the program did steps",
    "stopping": "from the program's last word, or a hang's, until the attempt had ended",
    "hung": "from the last sign of life until the launcher called it a hang",
    "queued": "between two allocations of a scheduler",
    "down": "nobody ran the job: no launcher, no allocation",
    "unseen": "nothing tells: it may have run for some of this time, and done work that nobody saw",
}

CheckpointState = Literal["good", "rejected", "damaged", "unreadable", "newer format", "incomplete", "seen"]


def _says(description: str) -> msgspec.Meta:
    return msgspec.Meta(description=description)


Attempt = Annotated[int, _says("number of the attempt, from 1")]
At = Annotated[float, _says("when")]
Step = Annotated[int, _says("the step")]


class _Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Strict when decoded, so that a test sees a member that is not documented."""


class Span(_Member, frozen=True):
    """A stretch of the job's time. Those of a job follow on one another without a gap."""

    kind: Annotated[SpanKind, _says("what the time went to")]
    begin: Annotated[float, _says("where it begins")]
    end: Annotated[float, _says("where it ends, and the next begins; later than its begin")]
    attempt: Annotated[int | None, _says("the attempt that it is of; null between two")]

    @property
    def seconds(self) -> float:
        return self.end - self.begin


class Share(_Member, frozen=True):
    """What became of the time, by kind."""

    kind: Annotated[SpanKind, _says("what the time went to")]
    seconds: Annotated[float, _says("sum of the spans of this kind")]
    share: Annotated[float, _says("of all the time, from 0 to 1")]
    gpu_hours: Annotated[
        float | None, _says("seconds on the GPUs of each attempt; null unless all attempts tell theirs")
    ]


class Ettr(_Member, frozen=True):
    """Effective training time ratio: the share of the time that was useful."""

    share: Annotated[float, _says("useful / all the time, from 0 to 1")]
    formula: Annotated[str, _says("in words")]
    with_numbers: Annotated[str, _says("the same with the numbers of this job")]
    running_share: Annotated[float | None, _says("useful / the time in which an attempt ran; null if none ran")]
    doubts: Annotated[list[str], _says("why it may be less or more")]


class AttemptLine(_Member, frozen=True):
    attempt: Attempt
    began: Annotated[float, _says("when it was claimed")]
    ended: Annotated[float | None, _says("when it ended, or was last heard of; null while it runs")]
    is_end_seen: Annotated[bool, _says("false: nobody saw when it ended; `ended` is the last line of its journal")]
    how: Annotated[str, _says('"fresh" or "resumed"; empty if the program never said')]
    from_checkpoint: Annotated[str, _says("name of the checkpoint that it resumed from; empty if none is known")]
    is_from_memory: Annotated[bool, _says("it resumed from a snapshot in memory")]
    is_standby: Annotated[bool, _says("it ran in a standby")]
    is_inner: Annotated[bool, _says("started by something below the launcher (torchrun restarting its workers)")]
    outcome: Annotated[str, _says("how it ended; empty while it runs")]
    reason: Annotated[str, _says("why that is thought")]
    exit_code: Annotated[int | None, _says("of its command; null if nobody saw it")]
    decided: Annotated[str, _says("what the launcher then did, and why; empty if it said nothing")]
    from_step: Annotated[int | None, _says("step that it began after")]
    reached_step: Annotated[int | None, _says("last step that it is known to have finished")]
    saved_step: Annotated[int | None, _says("newest step that it committed")]
    saves: Annotated[int, _says("checkpoints that it committed")]
    lost_steps: Annotated[int, _says("steps that were or will be done again, as far as is known")]
    lost_s: Annotated[
        float,
        _says("from the commit that the next attempt began at until the end, whatever went on in it, as in `history`"),
    ]
    is_loss_known: Annotated[bool, _says("false: more may be lost, nothing tells which step it had reached at its end")]
    first_step_at: Annotated[float | None, _says("when its first step was done; null if nothing tells")]
    restart_s: Annotated[
        float | None,
        _says("from the end of the attempt before (or its own launch) until it did steps; null if it never did"),
    ]
    host: Annotated[str, _says("where its launcher ran; empty if nothing tells")]
    allocation: Annotated[str, _says('such as "slurm 4711, restart 2"; empty without a scheduler')]
    nodes: Annotated[list[str], _says("nodes of its allocation")]
    gpus: Annotated[int | None, _says("GPUs of its allocation; null if nothing tells")]
    seconds: Annotated[
        dict[str, float], _says("its time by kind, for the kinds that it has; together from began to ended")
    ]


class Mark(_Member, frozen=True):
    """Something that happened, for the time line."""

    at: At
    attempt: Attempt
    kind: Annotated[
        Literal["fault", "hang", "stop asked", "trouble", "finished"],
        _says("fault: an attempt was ended by something; trouble: it went on"),
    ]
    what: Annotated[str, _says("short: an outcome, or the kind of trouble")]
    text: Annotated[str, _says("in full")]
    step: Annotated[int | None, _says("step reached then; null if nothing tells")]


class Save(_Member, frozen=True):
    """A checkpoint that was committed; whether it is still there, `checkpoints` says."""

    attempt: Attempt
    step: Step
    at: Annotated[float, _says("when it was committed")]
    name: Annotated[str, _says("of its directory, or the file that an application wrote")]
    bytes: Annotated[int | None, _says("its size")]
    write_s: Annotated[float | None, _says("from the safe point to the commit")]
    stall_s: Annotated[float | None, _says("the loop stood still for it: the median of then; null if nothing tells")]
    stage: Annotated[str, _says("on which stage it was committed first; empty if on none")]
    promoted_at: Annotated[float | None, _says("when it came from the stage to the job's directory")]


class FailedSave(_Member, frozen=True):
    attempt: Attempt
    step: Annotated[int | None, _says("the step")]
    at: At
    rank: Annotated[int | None, _says("whose part failed")]
    error: Annotated[str, _says("why")]


class SaveFigures(_Member, frozen=True):
    saves: Annotated[int, _says("committed")]
    failed: Annotated[int, _says("that did not work")]
    median_write_s: Annotated[float | None, _says("middle one of the writes")]
    fastest_write_s: Annotated[float | None, _says("the shortest")]
    slowest_write_s: Annotated[float | None, _says("the longest")]
    median_stall_s: Annotated[float | None, _says("middle one of the stalls; null if nothing tells")]
    bytes: Annotated[int | None, _says("of the newest")]
    bytes_in_all: Annotated[int, _says("written in all, as far as told")]


class RankWrite(_Member, frozen=True):
    rank: Annotated[int, _says("whose part")]
    bytes: Annotated[int, _says("size of its part")]
    write_s: Annotated[
        float | None,
        _says("from the safe point until its part was there, by the time of its file; null if that cannot be"),
    ]


class Checkpoint(_Member, frozen=True):
    """One that is there now, on storage."""

    name: Annotated[str, _says("of its directory, or the file that an application wrote")]
    step: Step
    attempt: Attempt
    state: Annotated[
        CheckpointState, _says("as far as its manifest tells; seen: an application's own, as its launcher saw it last")
    ]
    problem: Annotated[str, _says("why it is not good; empty if it is")]
    created: Annotated[float | None, _says("when it was committed")]
    age_s: Annotated[float | None, _says("how old it was when the report was made")]
    bytes: Annotated[int | None, _says("size of all its parts")]
    world_size: Annotated[int | None, _says("ranks that wrote it")]
    is_last_good: Annotated[bool, _says("the one that a start tries first")]
    is_pinned: Annotated[bool, _says("never deleted by retention")]
    stage: Annotated[str, _says("on this node only, in this stage; empty if it is in the job's own directory")]
    verified: Annotated[
        Literal["no", "restored", "read", "failed"],
        _says("restored: an attempt read all of it, checked, and went on from it; read: this report did"),
    ]
    verified_by: Annotated[str, _says('such as "attempt 3, which resumed from it", "this report"; empty if nobody')]
    verified_at: Annotated[float | None, _says("when")]
    ranks: Annotated[list[RankWrite], _says("what each rank wrote, in order; empty without a readable manifest")]


class RankFigures(_Member, frozen=True):
    """Over the checkpoints that are there."""

    rank: Annotated[int, _says("the rank")]
    checkpoints: Annotated[int, _says("whose write by this rank has a known time")]
    median_write_s: Annotated[float, _says("middle one")]
    slowest_write_s: Annotated[float, _says("the longest")]
    bytes: Annotated[int, _says("of its part of the newest")]


class IntervalUsed(_Member, frozen=True):
    """From one commit of an attempt to the next, or from its first step to its first commit."""

    at: Annotated[float, _says("when the later one was committed")]
    attempt: Attempt
    step: Step
    interval_s: Annotated[float, _says("seconds between the two")]
    steps: Annotated[int | None, _says("steps between the two")]


class IntervalSaid(_Member, frozen=True):
    """What the program said that it would keep to, from then on."""

    at: At
    attempt: Attempt
    interval_s: Annotated[float, _says("seconds of work between two saves")]


class Interval(_Member, frozen=True):
    planned_s: Annotated[float | None, _says("seconds between two saves by the plan; null if none is known")]
    planned_by: Annotated[str, _says("which plan; empty if none is known")]
    planned_ettr: Annotated[float | None, _says("the ETTR that the plan expected; null if it does not say")]
    median_used_s: Annotated[float | None, _says("middle one of those used; null before the first")]
    used: Annotated[list[IntervalUsed], _says("oldest first")]
    said: Annotated[list[IntervalSaid], _says("oldest first; empty if steps are counted")]


class Outcome(_Member, frozen=True):
    outcome: Annotated[str, _says('how attempts ended, "running" for one that has not')]
    attempts: Annotated[int, _says("how many")]
    lost_steps: Annotated[int, _says("by them, as far as is known")]
    lost_s: Annotated[float, _says("by them, as far as is known")]
    mean_restart_s: Annotated[float | None, _says("until the next attempt did steps; null if none did")]


class Problem(_Member, frozen=True):
    """Something that could not be read, and what was done about it. The rest is used."""

    where: Annotated[str, _says('such as "attempts/0003.events.jsonl, line 7"')]
    what: Annotated[str, _says("what is wrong, and what follows for the report")]


class Report(_Member, frozen=True):
    """All about one job."""

    job: Annotated[str, _says("absolute path of the job directory")]
    id: Annotated[str, _says("the job's id")]
    state: Annotated[str, _says("how it stands, as `lastgood status` says it")]
    why: Annotated[str, _says("what makes us say so")]
    command: Annotated[str, _says("of its newest attempt; empty if nothing tells")]
    made_at: Annotated[float, _says("when the report was made; a job that runs is looked at up to then")]
    began: Annotated[float | None, _says("when its first attempt began; null before")]
    ended: Annotated[float | None, _says("when its last attempt ended; null if it runs, or before the first")]
    reached_step: Annotated[int | None, _says("highest step that is known to have been done")]
    last_good_step: Annotated[int | None, _says("step of the newest good checkpoint; null without one")]
    total_steps: Annotated[int | None, _says("steps in all; null if nothing tells")]
    lost_steps: Annotated[int, _says("by all attempts, as far as is known")]
    lost_s: Annotated[float, _says("by all attempts, as `lastgood history` counts")]
    unsaved_s: Annotated[float | None, _says("counted as useful, but lost if it failed now; null unless it runs")]
    ettr: Annotated[Ettr | None, _says("null before the first attempt")]
    shares: Annotated[
        list[Share], _says("one for each kind of span, in the order of the reference; together all the time")
    ]
    spans: Annotated[list[Span], _says("from the first start to the last end, or to now, without a gap")]
    attempts: Annotated[list[AttemptLine], _says("oldest first")]
    marks: Annotated[list[Mark], _says("oldest first")]
    outcomes: Annotated[list[Outcome], _says("most frequent first")]
    interval: Annotated[Interval, _says("how often it saved, said and planned")]
    save_figures: Annotated[SaveFigures, _says("of all saves")]
    saves: Annotated[list[Save], _says("oldest first")]
    failed_saves: Annotated[list[FailedSave], _says("oldest first")]
    checkpoints: Annotated[list[Checkpoint], _says("those that are there, newest first")]
    ranks: Annotated[list[RankFigures], _says("write times of each rank; empty if nothing tells")]
    problems: Annotated[list[Problem], _says("what could not be read")]
    notes: Annotated[list[str], _says("what the figures do not tell, and why")]

    @property
    def is_running(self) -> bool:
        return self.state.startswith("running")

    @property
    def seconds(self) -> float:
        """All the time that is accounted for."""
        return self.spans[-1].end - self.spans[0].begin if self.spans else 0.0

    def row_of(self, span: Span) -> int:
        """The attempt with which a span is shown: time beside attempts with the one that follows it, or else the last."""
        if span.attempt is not None:
            return span.attempt
        at = bisect_left(self.attempts, span.end, key=lambda one: one.began)
        return self.attempts[min(at, len(self.attempts) - 1)].attempt

    def share_of(self, kind: SpanKind) -> Share | None:
        return next((share for share in self.shares if share.kind == kind), None)


class NotRead(_Member, frozen=True):
    job: Annotated[str, _says("what was named")]
    error: Annotated[str, _says("why there is no report of it")]
    remedy: Annotated[str, _says("what to do; empty if nothing is known")]


class FleetReport(_Member, frozen=True, kw_only=True):
    """Of one job or several; this is what `--format json` prints, however many there are."""

    format: Annotated[Literal["lastgood report"], _says("what this is")] = FORMAT
    version: Annotated[int, _says("of this format; a reader refuses one that it does not know")] = VERSION
    made_at: Annotated[float, _says("when it was made")]
    jobs: Annotated[list[Report], _says("in the order in which they were named")]
    not_read: Annotated[list[NotRead], _says("named, and not reported on")]
    ettr: Annotated[Ettr | None, _says("of all jobs together, each second counted once per job; null before any ran")]
    shares: Annotated[list[Share], _says("of all jobs together")]
    outcomes: Annotated[list[Outcome], _says("of all attempts of all jobs, most frequent first")]
