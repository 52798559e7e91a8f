"""Values that two runs logged, held against each other at the steps that both have.

A series is {step: {name: value}}: what `run.log` recorded exactly, or what a program printed. A printed number should stay
the text that it is: it is then compared as printed and as a number.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from lastgood.core import layout
from lastgood.prove.difference import EXACT, Comparison, Difference, Tolerance
from lastgood.prove.tally import Tally
from lastgood.prove.values import AS_PRINTED, hold, printed_number
from lastgood.runtime.values_log import read_log, read_logs_of_attempts
from lastgood.store.attempts import attempt_numbers
from lastgood.store.jobdir import JobDirectory, open_job

Series = Mapping[int, Mapping[str, Any]]

Steps = tuple[int, int]
"""The first and the last step of some that follow each other among the steps logged."""


class SeriesComparison(msgspec.Struct, frozen=True, kw_only=True):
    """What two series have in common, and what only one has."""

    comparison: Comparison
    """Over the steps that both have."""
    matched: int
    """How many steps both have."""
    only_left: tuple[Steps, ...] = ()
    """Steps that only the undisturbed run has: work that was lost, or never came to be logged."""
    only_right: tuple[Steps, ...] = ()
    """Steps that only the other run has: it went on too far, or counts steps in another way."""
    last_left: int | None = None
    last_right: int | None = None
    last_differing: int | None = None
    """The last step at which something differs by more than the tolerance allows."""
    equal_again_from: int | None = None
    """The first step after that: from there on all is equal to the end. None if the end differs, or nothing does."""

    @property
    def lacks_end(self) -> bool:
        """True if the other run logged nothing more at a step before the undisturbed run's last."""
        return self.last_left is not None and (self.last_right is None or self.last_right < self.last_left)

    def __str__(self) -> str:
        lines = [f"{self.matched:,} steps in both: {self.comparison}"]
        if self.equal_again_from is not None:
            lines.append(f"equal again from step {self.equal_again_from:,} on")
        if self.only_left:
            lines.append(f"only in the undisturbed run: {told_steps(self.only_left)}")
        if self.only_right:
            lines.append(f"only in the other run: {told_steps(self.only_right)}")
        return "\n".join(lines)


class Redone(msgspec.Struct, frozen=True):
    """A step that a run did twice, with another result the second time: nothing outside has to be known for that."""

    step: int
    earlier: int
    """Number of the attempt, or of the start, that did it first."""
    later: int
    difference: Difference
    """Left is the earlier."""


class RedoneSteps(msgspec.Struct, frozen=True):
    """Steps that a run did more than once, each held against the time before."""

    steps: int
    """How many there are."""
    changed: tuple[Redone, ...] = ()
    """Those with another result, by rising step; the first MAX_CHANGED of them."""
    changed_steps: int = 0

    def __str__(self) -> str:
        if not self.steps:
            return "no step was logged twice"
        if not self.changed:
            return f"{self.steps:,} steps were done again, with the same values"
        one = self.changed[0]
        return (
            f"{self.changed_steps:,} of {self.steps:,} steps done again had other values; first: {one.difference} "
            f"(attempt {one.earlier}, then {one.later})"
        )


MAX_CHANGED = 100


def compare_series(left: Series, right: Series, tolerance: Tolerance = EXACT, *, where: str = "") -> SeriesComparison:
    """Hold two series against each other; `left` is the undisturbed run's. By rising step, and by name in the order in
    which the left logged them.

    >>> found = compare_series({1: {"loss": 0.5}, 2: {"loss": 0.25}}, {1: {"loss": 0.5}})
    >>> found.comparison.kind, found.only_left, found.lacks_end
    ('identical', ((2, 2),), True)
    """
    tally = Tally(tolerance)
    matched = sorted(left.keys() & right.keys())
    last_differing: int | None = None
    again: int | None = None
    for step in matched:
        before = tally.beyond_in_all
        hold(tally, "", left[step], right[step], where=where, step=step)
        if tally.beyond_in_all > before:
            last_differing, again = step, None
        elif last_differing is not None and again is None:
            again = step
    if any(_is_printed(values) for step in matched[:1] for values in (left[step], right[step])):
        tally.note(AS_PRINTED)
    nothing = (
        "no step is in both"
        if left and right
        else f"{'the other run' if left else 'the undisturbed run'} logged nothing"
    )
    return SeriesComparison(
        comparison=tally.comparison(nothing),
        matched=len(matched),
        only_left=_ranges(left, right),
        only_right=_ranges(right, left),
        last_left=max(left, default=None),
        last_right=max(right, default=None),
        last_differing=last_differing,
        equal_again_from=again,
    )


def compare_redone(attempts: Sequence[tuple[int, Series]], tolerance: Tolerance = EXACT) -> RedoneSteps:
    """Hold each step that is done again against the time before, within one run; `attempts` by rising number."""
    newest: dict[int, tuple[int, Mapping[str, Any]]] = {}
    redone: set[int] = set()
    changed: dict[int, Redone] = {}
    for number, series in attempts:
        for step, values in series.items():
            if step in newest:
                redone.add(step)
                earlier, before = newest[step]
                tally = Tally(tolerance)
                both = before.keys() & values.keys()
                hold(
                    tally,
                    "",
                    {name: before[name] for name in before if name in both},
                    {name: values[name] for name in values if name in both},
                    step=step,
                )
                difference = tally.comparison().first_beyond
                if difference is not None:
                    changed[step] = Redone(step, earlier, number, difference)
            newest[step] = (number, values)
    found = tuple(changed[step] for step in sorted(changed))
    return RedoneSteps(len(redone), found[:MAX_CHANGED], len(found))


def series_of_job(job: JobDirectory | Path | str) -> dict[int, dict[str, Any]]:
    """What all ranks of a job logged, where the newest attempt counts. Names of rank 1 and up say which rank:
    "loss (rank 1)". Raises NoSuchJobError if there is no job in the directory."""
    job = job if isinstance(job, JobDirectory) else open_job(job)
    found: dict[int, dict[str, Any]] = {}
    for rank in ranks_that_logged(job):
        for step, values in read_log(job, rank).items():
            found.setdefault(step, {}).update(_of_rank(values, rank))
    return dict(sorted(found.items()))


def attempts_of_job(job: JobDirectory | Path | str) -> list[tuple[int, dict[int, dict[str, Any]]]]:
    """What each attempt logged, all ranks, since the newest start from zero: for `compare_redone`."""
    job = job if isinstance(job, JobDirectory) else open_job(job)
    found: dict[int, dict[int, dict[str, Any]]] = {}
    for rank in ranks_that_logged(job):
        for number, log in read_logs_of_attempts(job, rank):
            of_attempt = found.setdefault(number, {})
            for step, values in log.items():
                of_attempt.setdefault(step, {}).update(_of_rank(values, rank))
    return sorted(found.items())


def ranks_that_logged(job: JobDirectory) -> list[int]:
    """Every rank with a file of values in any attempt."""
    numbers = set(attempt_numbers(job))
    ranks = set[int]()
    for path in job.attempts.iterdir():
        parsed = layout.parse_values_file(path.name)
        if parsed is not None and parsed[0] in numbers:
            ranks.add(parsed[1])
    return sorted(ranks)


def told_steps(ranges: Iterable[Steps]) -> str:
    """As people read it, the first three of them.

    >>> told_steps([(1, 1), (5, 9)])
    'step 1, steps 5 to 9'
    """
    all_of_them = list(ranges)
    texts = [f"step {a:,}" if a == b else f"steps {a:,} to {b:,}" for a, b in all_of_them[:3]]
    return ", ".join(texts) + (f" and {len(all_of_them) - 3:,} more ranges" if len(all_of_them) > 3 else "")


def _ranges(those: Series, without: Series) -> tuple[Steps, ...]:
    """Steps of one series that the other lacks; neighbours among `those` are joined, whatever the stride."""
    found: list[Steps] = []
    is_open = False
    for step in sorted(those):
        if step in without:
            is_open = False
        elif is_open:
            found[-1] = (found[-1][0], step)
        else:
            found.append((step, step))
            is_open = True
    return tuple(found)


def _of_rank(values: Mapping[str, Any], rank: int) -> dict[str, Any]:
    return dict(values) if rank == 0 else {f"{name} (rank {rank})": value for name, value in values.items()}


def _is_printed(values: Mapping[str, Any]) -> bool:
    return any(isinstance(value, str) and printed_number(value) is not None for value in values.values())
