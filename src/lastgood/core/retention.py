"""Which checkpoints to keep. Pure: decides from what is known, and says why for each.

The last good checkpoint is never deleted, whatever the settings; nor is one that is pinned.
"""

from typing import Literal

import msgspec

from lastgood.core.errors import UsageError


class Keep(msgspec.Struct, frozen=True):
    """What retention keeps: the newest `last`, the `best` by a logged metric, every n-th step, all pinned.

    `best` checkpoints are chosen among those with a value of `metric` that was logged (`run.log`) at their very
    step, and of equal ones the oldest; `mode` says whether `"max"` or `"min"` is better. An epoch whose body
    logs it after its batches is saved at its end; what is measured now and then elsewhere is seldom measured
    where a save is due: ask for one with `run.save()` when it is logged. `last=None` keeps everything.

    >>> Keep(last=2, best=1, metric="accuracy")
    Keep(last=2, best=1, metric='accuracy', mode='max', every=None)
    >>> Keep(last=0)
    Traceback (most recent call last):
    lastgood.core.errors.UsageError: Keep(last=0): at least the newest checkpoint must be kept
    """

    last: int | None = 3
    best: int = 0
    metric: str | None = None
    mode: Literal["max", "min"] = "max"
    every: int | None = None

    def __post_init__(self) -> None:
        if self.last is not None and self.last < 1:
            raise UsageError(f"Keep(last={self.last}): at least the newest checkpoint must be kept")
        if self.best < 0 or (self.best > 0) != (self.metric is not None):
            raise UsageError("Keep(best=..., metric=...): give both, or neither")
        if self.mode not in ("max", "min"):
            raise UsageError(f"Keep(mode={self.mode!r}): 'max' or 'min'")
        if self.every is not None and self.every < 1:
            raise UsageError(f"Keep(every={self.every}): a number of steps, 1 or more")


class Known(msgspec.Struct, frozen=True):
    """A committed checkpoint as retention sees it."""

    name: str
    step: int
    attempt: int
    metrics: dict[str, float] = {}
    is_rejected: bool = False
    is_pinned: bool = False

    @property
    def age_key(self) -> tuple[int, int]:
        """Orders by age: a later attempt continues, or deliberately replaces, what earlier ones wrote."""
        return (self.attempt, self.step)


class Verdict(msgspec.Struct, frozen=True):
    name: str
    is_kept: bool
    reason: str


def newest_first(checkpoints: list[Known]) -> list[Known]:
    """Newest first: by attempt, then by step. Numbers, never text: step 9 is older than step 10."""
    return sorted(checkpoints, key=lambda c: c.age_key, reverse=True)


def judge(checkpoints: list[Known], keep: Keep) -> list[Verdict]:
    """For each checkpoint whether it is kept and why, newest first.

    >>> known = [Known(str(s), s, 1) for s in (10, 20, 30)]
    >>> [(v.name, v.is_kept, v.reason) for v in judge(known, Keep(last=1, every=20))]
    [('30', True, 'last good'), ('20', True, 'every 20th step'), ('10', False, 'older than the last 1')]
    """
    ordered = newest_first(checkpoints)
    good = [c for c in ordered if not c.is_rejected]
    last = {c.name for c in (good if keep.last is None else good[: keep.last])}
    best = {c.name for c in _best(good, keep)}
    verdicts = []
    for c in ordered:
        if good and c is good[0]:
            verdict = (True, "last good")
        elif not good:
            verdict = (True, "nothing better is left")
        elif c.is_pinned:
            verdict = (True, "pinned")
        elif c.is_rejected:
            # Until something newer is whole, even a damaged one may be all that a person has left.
            verdict = (keep.last is None or c.age_key > good[0].age_key, "failed to restore")
        elif c.name in last:
            verdict = (True, "all are kept" if keep.last is None else f"one of the last {keep.last}")
        elif c.name in best:
            verdict = (True, f"one of the best {keep.best} by {keep.metric}")
        elif keep.every is not None and c.step % keep.every == 0:
            verdict = (True, f"every {keep.every}th step")
        else:
            verdict = (False, f"older than the last {keep.last}")
        verdicts.append(Verdict(c.name, *verdict))
    return verdicts


def _best(good: list[Known], keep: Keep) -> list[Known]:
    if keep.metric is None:
        return []
    sign = 1.0 if keep.mode == "max" else -1.0
    # A NaN is no value: it must neither win nor push out one that is.
    scored = [c for c in good if c.metrics.get(keep.metric, float("nan")) == c.metrics.get(keep.metric)]
    # Older versions gave a checkpoint the newest value, of whatever step: the oldest was nearest to its measurement.
    return sorted(scored, key=lambda c: (-sign * c.metrics[keep.metric or ""], c.age_key))[: keep.best]
