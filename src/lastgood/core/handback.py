"""Who starts a job again that Slurm has to start again, and by what means: exactly one owner. Pure.

| means | when | why in this order |
|---|---|---|
| the next segment | one is queued behind this one | it runs anyway; two starts of one job would only wait for each other |
| exit code | the job may be requeued, and `RequeueExit` lists codes | delivered even when slurmctld is away for a while |
| `scontrol requeue` | the job may be requeued | needs slurmctld: tried again for a while |
| a segment of our own | the job may not be requeued, and the user wants restarts | submitted when an attempt begins, so that it is there whatever ends the attempt; cancelled when it is not needed |

A code that `RequeueExit` lists brings back a job with `--no-requeue`, too (seen with 22.05). So where anything else starts
the job again, or nothing is to, it ends with a code that is not listed.

A node failure and a preemption without grace are Slurm's own to requeue where the job may be requeued: nothing is done
about them here. At a preemption with a grace time Slurm requeues a job only if it waits to be ended; one that ends by
itself counts by its own exit code, so the means above are used. See https://slurm.schedmd.com/slurm.conf.html (JobRequeue, RequeueExit, KillWait, GraceTime).
"""

from enum import StrEnum

import msgspec

from lastgood.core.errors import EXIT_SAVED_RUN_AGAIN
from lastgood.core.stopping import TIME_LIMIT
from lastgood.core.units import duration

_UNREMARKABLE = (1, 99, 70, 3)
"""Codes to end with where the one that says it best would be requeued."""


class Means(StrEnum):
    """By what means a job with work left is started again."""

    NEXT_SEGMENT = "the next segment, which is queued"
    EXIT_CODE = "exit code"
    REQUEUE = "scontrol requeue"
    OWN_SEGMENT = "a next segment of our own"
    PERSON = "a person"


class Interruption(StrEnum):
    """Why Slurm ends an allocation, or has told its steps to end."""

    NONE = ""
    CANCELLED = "scancel"
    REQUEUED = "requeued by Slurm"
    """For a preemption without grace, a node failure, or because an operator asked for it."""
    PREEMPTION = "told to end within its grace time"
    """Its grace time runs: the steps have been told, and the batch script has not. Or Slurm ends it and does not requeue it."""
    TIME_LIMIT = TIME_LIMIT
    NODE_FAILURE = "a node of it failed"
    """And Slurm does not requeue it."""
    UNKNOWN = "not known, slurmctld does not answer"


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """What slurmctld shows of a job that is still here to ask."""

    state: str
    """JobState: "RUNNING", "COMPLETING" ..."""
    reason: str = ""
    has_end: bool = True
    """EndTime is a time. It is not once Slurm has put the job back into the queue."""
    is_preempted: bool = False
    """PreemptTime is a time."""
    was_requeued: bool = False
    """Restarts has gone up since this start of the job. EndTime does not always tell: for a job with a time limit it may
    be a time ahead (seen with 22.05)."""


def interruption_of(job: JobState) -> Interruption:
    """Why Slurm ends the job, from what it shows while the job's processes still live (seen with 22.05).

    >>> interruption_of(JobState(state="COMPLETING", has_end=False)).value
    'requeued by Slurm'
    >>> interruption_of(JobState(state="COMPLETING", was_requeued=True)).value
    'requeued by Slurm'
    >>> interruption_of(JobState(state="RUNNING", has_end=False)) is Interruption.NONE
    True
    """
    if job.was_requeued:
        # It may run again elsewhere, where this is left of it on a node that is cut off.
        return Interruption.REQUEUED
    if job.state == "RUNNING":
        # EndTime is "Unknown" for a job without a time limit, if it was not backfill that started it.
        return Interruption.PREEMPTION if job.is_preempted else Interruption.NONE
    if job.state == "PENDING" or not job.has_end:
        return Interruption.REQUEUED
    if job.is_preempted:
        return Interruption.PREEMPTION
    if job.state == "TIMEOUT" or job.reason == "TimeLimit":
        return Interruption.TIME_LIMIT
    if job.state == "NODE_FAIL" or job.reason == "NodeDown":
        return Interruption.NODE_FAILURE
    return Interruption.CANCELLED if job.state in ("COMPLETING", "CANCELLED") else Interruption.NONE


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What this cluster does with this job, as far as it bears on starting it again."""

    is_batch: bool = True
    """False for an allocation that a person sits in (salloc): there is no script to start again."""
    may_requeue: bool = False
    """The job's own flag: `--requeue`, or JobRequeue=1 and no `--no-requeue`."""
    requeue_codes: frozenset[int] = frozenset()
    """RequeueExit."""
    hold_codes: frozenset[int] = frozenset()
    """RequeueExitHold: requeued, and held until a person releases it."""
    has_next_segment: bool = False
    """Another job of the same chain waits for this one to end."""
    may_submit: bool = True
    """False where the user wants no restarts: a job that may not be requeued gets no segment of ours then."""
    kill_wait_s: float = 30.0
    """From SIGTERM to SIGKILL."""
    grace_s: float = 0.0
    """GraceTime of the partition or the QOS: from the first signal of a preemption to its second."""
    unkillable_s: float | None = None
    """UnkillableStepTimeout: a node whose processes outlive SIGKILL for so long is drained."""
    preempts_by: str = ""
    """PreemptMode of the partition: "REQUEUE", "CANCEL", "SUSPEND", "OFF", or empty if not known."""


class Plan(msgspec.Struct, frozen=True):
    """How the job is started again, and the exit code to end with where work is left."""

    means: Means
    exit_code: int


def plan(rules: Rules) -> Plan:
    """The means for these rules.

    >>> plan(Rules(may_requeue=True, requeue_codes=frozenset({75}))).means.value
    'exit code'
    >>> plan(Rules(may_requeue=True)).means.value
    'scontrol requeue'
    """
    if not rules.is_batch:
        return Plan(Means.PERSON, EXIT_SAVED_RUN_AGAIN)
    if rules.has_next_segment:
        return Plan(Means.NEXT_SEGMENT, unlisted(EXIT_SAVED_RUN_AGAIN, rules))
    usable = rules.requeue_codes - rules.hold_codes - {0}
    if rules.may_requeue and usable:
        code = EXIT_SAVED_RUN_AGAIN if EXIT_SAVED_RUN_AGAIN in usable else min(usable)
        return Plan(Means.EXIT_CODE, code)
    otherwise = Means.OWN_SEGMENT if rules.may_submit else Means.PERSON
    means = Means.REQUEUE if rules.may_requeue else otherwise
    return Plan(means, unlisted(EXIT_SAVED_RUN_AGAIN, rules))


def unlisted(code: int, rules: Rules) -> int:
    """A code that says what `code` says, or at least that it is no success, and for which Slurm does not requeue the job.

    Limits: `code` itself where every code is listed.

    >>> unlisted(1, Rules(may_requeue=True, requeue_codes=frozenset({1, 75})))
    99
    """
    listed = rules.requeue_codes | rules.hold_codes
    if code == 0 or code not in listed:
        return code
    return next((other for other in (*_UNREMARKABLE, *range(2, 128)) if other not in listed), code)


def introduction(rules: Rules) -> str:
    """Who starts the job again, for a person.

    >>> introduction(Rules(may_requeue=True, requeue_codes=frozenset({75})))
    'with work left it ends with code 75, which RequeueExit lists: Slurm starts it again'
    """
    chosen = plan(rules)
    if chosen.means is Means.PERSON and rules.is_batch:
        return "no restarts are wanted, and the job may not be requeued: with work left, nothing starts it again"
    if chosen.means is Means.PERSON:
        return "an interactive allocation: when it ends, nothing starts the job again"
    if chosen.means is Means.NEXT_SEGMENT:
        return "with work left it ends, and the next segment, which is queued, goes on"
    if chosen.means is Means.EXIT_CODE:
        return f"with work left it ends with code {chosen.exit_code}, which RequeueExit lists: Slurm starts it again"
    if chosen.means is Means.REQUEUE:
        listed = "lists no code for that" if not rules.requeue_codes else "lists no code that can be used"
        return f"with work left it asks Slurm to requeue it (scontrol requeue), because RequeueExit {listed}"
    return (
        "the job may not be requeued: a next segment waits behind this one (afterany), and is cancelled when not needed"
    )


def facts(rules: Rules) -> str:
    """What the cluster does with the job, for a person.

    >>> facts(Rules(may_requeue=True, requeue_codes=frozenset({75}), kill_wait_s=30, preempts_by="REQUEUE"))
    'Requeue=1, RequeueExit=75, KillWait 30 s, GraceTime 0 s, PreemptMode=REQUEUE'
    """
    codes = ",".join(map(str, sorted(rules.requeue_codes))) or "(none)"
    words = [f"Requeue={int(rules.may_requeue)}", f"RequeueExit={codes}"]
    words += [f"KillWait {duration(rules.kill_wait_s)}", f"GraceTime {duration(rules.grace_s)}"]
    if rules.preempts_by:
        words.append(f"PreemptMode={rules.preempts_by}")
    if rules.unkillable_s is not None:
        words.append(f"UnkillableStepTimeout {duration(rules.unkillable_s)}")
    return ", ".join(words)


def window_s(rules: Rules) -> float:
    """How long a save may take after Slurm's signal, at a preemption."""
    return rules.grace_s or rules.kill_wait_s


def window_warning(rules: Rules, write_s: float | None) -> str:
    """What to know before an attempt if a save on demand does not fit; empty if it does, or nothing is known.

    >>> window_warning(Rules(kill_wait_s=5.0), 12.0)[:66]
    'a save took up to 12 s, and Slurm leaves 5 s after its signal (Kil'
    """
    if write_s is None or write_s <= window_s(rules):
        return ""
    name = "GraceTime" if rules.grace_s else "KillWait"
    return (
        f"a save took up to {duration(write_s)}, and Slurm leaves {duration(window_s(rules))} after its signal ({name}): "
        "at a preemption the newest periodic checkpoint is what is left, so save more often or ask for a longer time"
    )


class Owner(StrEnum):
    """Who starts the job again."""

    NOBODY = "nobody"
    SLURM = "Slurm itself"
    MEANS = "the job, by the means that were chosen"


def owner(interruption: Interruption) -> Owner:
    """Exactly one, for an attempt that ended with work left.

    A job that was cancelled is left alone.
    """
    if interruption is Interruption.CANCELLED:
        return Owner.NOBODY
    return Owner.SLURM if interruption is Interruption.REQUEUED else Owner.MEANS
