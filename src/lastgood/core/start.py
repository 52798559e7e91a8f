"""How an attempt starts: fresh, resumed or refused. Never fresh by mistake.

"No checkpoints visible" can mean a new job, or an unmounted or emptied directory, or a listing that
failed. A start is fresh only if nothing at all says that the job ran before. (A mistyped path that was never
used cannot be told from a new job.)
"""

from enum import StrEnum

import msgspec


class StartKind(StrEnum):
    FRESH = "fresh"
    RESUMED = "resumed"
    REFUSED = "refused"


class Candidate(msgspec.Struct, frozen=True):
    """A committed checkpoint that was looked at; `problem` says why it cannot be used, if it cannot."""

    name: str
    step: int
    problem: str = ""
    stage: str = ""
    """Where it is staged on this node; empty for the job's own directory."""


class EarlierAttempt(msgspec.Struct, frozen=True):
    """What the journal says of an attempt before this one."""

    number: int
    last_saved_step: int | None
    """Newest step that it committed; None if it ended before its first save."""


class Expectation(msgspec.Struct, frozen=True):
    """A sign from outside the job directory that the job has run before; `step` if it is known to have saved."""

    source: str
    step: int | None = None


class Start(msgspec.Struct, frozen=True):
    kind: StartKind
    reason: str
    step: int = 0
    """The step that is already done: 0 for a fresh start."""
    name: str = ""
    warning: str = ""


def decide_start(
    usable: Candidate | None,
    unusable: list[Candidate],
    earlier: list[EarlierAttempt],
    expectations: list[Expectation],
    is_fresh_meant: bool,
) -> Start:
    """Decide from what was found in the directory and what is known from elsewhere.

    `usable` is the newest checkpoint that passed its checks; `unusable` are those that did not.

    >>> decide_start(None, [], [], [], False).kind
    <StartKind.FRESH: 'fresh'>
    >>> decide_start(None, [], [], [Expectation("SLURM_RESTART_COUNT=1")], False).kind
    <StartKind.REFUSED: 'refused'>
    """
    if is_fresh_meant:
        aside = f"; {len(unusable) + (usable is not None)} checkpoint(s) are set aside" if usable or unusable else ""
        return Start(StartKind.FRESH, f"a new start is meant (--fresh){aside}")
    known = [e.step for e in expectations if e.step is not None]
    if usable is not None:
        return Start(
            StartKind.RESUMED,
            _why_resumed(usable, unusable),
            usable.step,
            usable.name,
            _loss(usable, unusable, known),
        )
    if unusable:
        newest = unusable[0]
        return Start(
            StartKind.REFUSED,
            f"{len(unusable)} checkpoint(s) are there and none can be used; the newest, {newest.name}: {newest.problem}",
        )
    saved = [e for e in earlier if e.last_saved_step is not None]
    if saved:
        last = saved[-1]
        return Start(
            StartKind.REFUSED,
            f"attempt {last.number} saved step {last.last_saved_step}, but no checkpoint is there: they were deleted or moved",
        )
    for expectation in expectations:
        if expectation.step is not None:
            return Start(
                StartKind.REFUSED,
                f"{expectation.source} says that this job saved step {expectation.step}, but no checkpoint is there: "
                "the directory may be unmounted, emptied or another one",
            )
        if not earlier:
            return Start(
                StartKind.REFUSED,
                f"{expectation.source} says that this job ran before, but the directory knows of no earlier attempt: "
                "it may be unmounted, emptied or another one",
            )
    if earlier:
        return Start(StartKind.FRESH, f"{len(earlier)} earlier attempt(s) ended before the first save")
    return Start(StartKind.FRESH, "the job has not run before")


def _why_resumed(usable: Candidate, unusable: list[Candidate]) -> str:
    if not unusable:
        return f"{usable.name} is the newest checkpoint"
    return f"{usable.name} is the newest checkpoint that passes its checks"


def _loss(usable: Candidate, unusable: list[Candidate], known_steps: list[int]) -> str:
    """A warning when something newer is known to have been saved and is neither used nor explained."""
    explained = max([usable.step, *(candidate.step for candidate in unusable)])
    newest = max(known_steps, default=0)
    if newest > explained:
        return f"step {newest} is recorded as saved, but the newest checkpoint here is step {usable.step}: newer ones are missing"
    return ""
