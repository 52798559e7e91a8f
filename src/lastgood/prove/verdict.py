"""What a proof answers, from what its runs have shown. Pure: every answer comes with its reason."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from lastgood.core.errors import EXIT_FINDINGS, EXIT_FINISHED, EXIT_UNKNOWN
from lastgood.core.signals import signal_name
from lastgood.core.units import duration
from lastgood.prove.difference import Comparison, Difference
from lastgood.prove.killing import Hit
from lastgood.prove.resuming import Resumed

VALUES = "logged values"
LAST_VALUES = "values in the end of its output"


class Answer(StrEnum):
    IDENTICAL = "identical"
    """All that was compared is equal bit for bit."""
    WITHIN = "within tolerance"
    """Not equal in every bit, and within the tolerance or the bound that was asked for."""
    DIVERGED = "diverged"
    """It came to its end as if nothing had happened, with other numbers."""
    LOST_WORK = "lost work"
    """It resumed from an earlier step than its newest checkpoint holds."""
    DID_NOT_RESUME = "did not resume"
    """It failed, refused, or began at zero although there was a checkpoint."""
    NOT_DETERMINISTIC = "not deterministic in itself"
    """Two undisturbed runs give different numbers."""
    UNKNOWN = "unknown"
    """What was tried does not tell."""

    @property
    def exit_code(self) -> int:
        if self in (Answer.IDENTICAL, Answer.WITHIN):
            return EXIT_FINISHED
        return EXIT_UNKNOWN if self is Answer.UNKNOWN else EXIT_FINDINGS


_GRAVITY = (
    Answer.IDENTICAL,
    Answer.WITHIN,
    Answer.UNKNOWN,
    Answer.NOT_DETERMINISTIC,
    Answer.LOST_WORK,
    Answer.DIVERGED,
    Answer.DID_NOT_RESUME,
)
"""Of several answers the last of these is the answer to all."""


class Part(msgspec.Struct, frozen=True):
    """One thing that was compared between two runs."""

    name: str
    """"logged values", "final files", "state"."""
    comparison: Comparison
    equal_to: int | None = None
    """The last step up to which all was equal; None if nothing differs, or where there are no steps."""
    ends_at: int | None = None
    """The step at which the other run ended, where that is not the undisturbed run's last."""
    should_end_at: int | None = None
    items: tuple[str, ...] = ()
    """What it consists of: names of values, of files."""

    @property
    def differs(self) -> bool:
        return self.comparison.kind == "differs" or self.ends_elsewhere

    @property
    def ends_elsewhere(self) -> bool:
        return self.ends_at is not None and self.ends_at != self.should_end_at


class Killed(msgspec.Struct, frozen=True):
    """What one disturbed run showed."""

    name: str
    hits: tuple[Hit, ...]
    resumed: tuple[Resumed, ...]
    """After each kill that hit."""
    exit_code: int | None
    """None if the limit passed."""
    limit_s: float
    last_word: str
    """The last line that it has printed."""
    parts: tuple[Part, ...]
    began: float = 0.0
    """Seconds since 1970."""
    took_s: float = 0.0
    undisturbed_s: float = 0.0
    """How long the whole work takes, started in the same way."""
    startup_s: float = 0.0
    """What of that goes by before its work begins, after a resume, too."""


class Judged(msgspec.Struct, frozen=True):
    answer: Answer
    reason: str
    also: tuple[tuple[Answer, str], ...] = ()
    """Other answers that are true, too, with their reasons."""


class Verdict(msgspec.Struct, frozen=True):
    answer: Answer
    reason: str
    runs: tuple[Judged, ...] = ()
    """Of each disturbed run."""


def judge(pair: Sequence[Part], runs: Sequence[Killed]) -> Verdict:
    """`pair`: the two undisturbed runs, held against each other."""
    is_deterministic = not any(part.differs for part in pair)
    judged = tuple(judge_run(run, pair) for run in runs)
    if not runs:
        return Verdict(Answer.UNKNOWN, "nothing was killed")
    worst = max(judged, key=lambda one: _GRAVITY.index(one.answer))
    if worst.answer in (Answer.IDENTICAL, Answer.WITHIN, Answer.UNKNOWN) and not is_deterministic:
        first = _first_of(pair)
        what = f"two undisturbed runs differ: {first}" if first else "two undisturbed runs end at different steps"
        return Verdict(Answer.NOT_DETERMINISTIC, what, judged)
    if worst.answer in (Answer.IDENTICAL, Answer.WITHIN) and not any(_shows_resume(run) for run in runs):
        return Verdict(Answer.UNKNOWN, _nothing_resumed(runs), judged)
    return Verdict(worst.answer, worst.reason, judged)


def judge_run(run: Killed, pair: Sequence[Part]) -> Judged:
    found = list(_findings(run, pair))
    if not found:
        found = [_equal(run)]
    found.sort(key=lambda one: -_GRAVITY.index(one[0]))
    return Judged(*found[0], also=tuple(found[1:]))


def _findings(run: Killed, pair: Sequence[Part]) -> list[tuple[Answer, str]]:
    found: list[tuple[Answer, str]] = []
    for hit, resumed in zip([hit for hit in run.hits if hit.is_hit], run.resumed, strict=False):
        found += _of_resume(hit, resumed)
    missed = [hit for hit in run.hits if not hit.is_hit]
    if missed:
        found.append((Answer.UNKNOWN, f"the kill did not hit: {missed[0].detail}"))
        if len(missed) == len(run.hits):
            return found
    if run.exit_code is None:
        took = f"; undisturbed it took {duration(run.undisturbed_s)}" if run.undisturbed_s else ""
        found.append((Answer.UNKNOWN, f"it did not end within the limit of {duration(run.limit_s)}{took}"))
    elif run.exit_code != 0:
        found.append((Answer.DID_NOT_RESUME, f"after the kill it ended with {_ending(run)}"))
    else:
        found += _of_numbers(run, pair)
        found += _not_compared(run)
        found += _of_time(run)
    return found


def _of_resume(hit: Hit, resumed: Resumed) -> list[tuple[Answer, str]]:
    if resumed.refused:
        return [(Answer.DID_NOT_RESUME, f"the start was refused: {resumed.refused}")]
    newest = f"{resumed.newest} (step {resumed.newest_step})" if resumed.newest_step is not None else resumed.newest
    if resumed.is_from_zero:
        what = "was destroyed by the kill" if resumed.is_destroyed else "was there"
        return [(Answer.DID_NOT_RESUME, f"it began again at zero, although {newest} {what}")]
    if resumed.is_too_early:
        used = f" ({resumed.used})" if resumed.used else ""
        lost = (resumed.newest_step or 0) - (resumed.step or 0)
        return [
            (
                Answer.LOST_WORK,
                f"it resumed from step {resumed.step}{used}, although {newest} was whole: {lost} steps lost",
            )
        ]
    if resumed.has_skipped:
        text = f"it went on after step {resumed.step}, and only step {resumed.killed_at} was seen to be done before"
        return [(Answer.UNKNOWN, f"{text}: it skips steps, or what it prints comes late")]
    return []


def _of_numbers(run: Killed, pair: Sequence[Part]) -> list[tuple[Answer, str]]:
    others = {part.name: part for part in pair if part.differs}
    differing = [part for part in run.parts if part.differs]
    for part in differing:
        if part.ends_elsewhere and not (part.name in others and others[part.name].ends_elsewhere):
            text = f"it ended at step {part.ends_at}, the undisturbed run at step {part.should_end_at}"
            return [(Answer.DIVERGED, text)]
    held = [(part, _other_of(part, others)) for part in differing]
    found = [_beside(part, other) for part, other in held if other is not None]
    if new := [part for part, other in held if other is None]:
        where = ", where two undisturbed runs are equal" if others else ""
        text = f"it ended with exit code 0 and other numbers{where}; first: {_first_of(new)}"
        found.insert(0, (Answer.DIVERGED, text))
    return found


def _other_of(part: Part, others: Mapping[str, Part]) -> Part | None:
    """What differs of the same kind between two undisturbed runs. Where their values on the way differ, a coarse number in
    the end may be equal in them by chance."""
    values = others.get(VALUES)
    if part.name == LAST_VALUES and values is not None and _largest(part) <= _NO_MORE * _largest(values) < float("inf"):
        return values
    return others.get(part.name)


def _beside(part: Part, other: Part) -> tuple[Answer, str]:
    """What differs after the resume, beside what differs of the same kind between two undisturbed runs."""
    if part.comparison.kind != "differs":
        return Answer.NOT_DETERMINISTIC, "it ended at another step, and so did two undisturbed runs"
    first = _first_of([part])
    if _largest(other) == float("inf") > _largest(part):
        text = "two undisturbed runs are equal in all numbers, and this one is not"
        return Answer.DIVERGED, f"it ended with exit code 0, and {text}; first: {first}"
    sizes = f"{_as_share(_largest(part))} against {_as_share(_largest(other))}"
    if _largest(part) <= _NO_MORE * _largest(other):
        text = f"the resumed run differs from an undisturbed one no more than two undisturbed ones do: {sizes}"
        return Answer.NOT_DETERMINISTIC, text
    text = f"two undisturbed runs differ already, and the resumed one differs more: {sizes}; first: {first}"
    return Answer.DIVERGED, text


_NO_MORE = 3.0
"""The difference of one pair of runs is one sample: others like it may be somewhat larger."""


def _not_compared(run: Killed) -> list[tuple[Answer, str]]:
    """That the rest is equal does not answer for what cannot be compared."""
    return [
        (Answer.UNKNOWN, f"{part.name} {part.comparison}")
        for part in run.parts
        if part.comparison.kind == "not comparable"
    ]


def _of_time(run: Killed) -> list[tuple[Answer, str]]:
    """Where no step can be seen, a job that begins anew shows in the time that it takes."""
    hits = [hit for hit in run.hits if hit.is_hit]
    if not hits or hits[-1].step is not None or any(one.step is not None for one in run.resumed):
        return []
    saved_s = _saved_s(run, hits)
    after_s = run.began + run.took_s - hits[-1].at
    if saved_s < _LEAST_SAVED * run.undisturbed_s:
        text = "its newest checkpoint was so early that going on from there takes about as long as beginning at zero"
    elif after_s > run.undisturbed_s - saved_s / 2:
        text = f"it took {duration(after_s)} after the kill, nearer to all of its work than to what was left to do"
    else:
        return []
    return [(Answer.UNKNOWN, f"no step can be seen, and {text}: give --step-pattern")]


_LEAST_SAVED = 0.1
"""Of an undisturbed run: two runs of the same work may well differ by half of that."""


def _saved_s(run: Killed, hits: Sequence[Hit]) -> float:
    """How much of its work was in the newest checkpoint that was there before the last kill; 0 if none was."""
    began, saved_s = run.began, 0.0
    for hit, resumed in zip(hits, run.resumed, strict=False):
        saved_s += max((resumed.newest_at or began) - began - run.startup_s, 0.0)
        began = hit.at
    return saved_s


def _equal(run: Killed) -> tuple[Answer, str]:
    compared = [part for part in run.parts if part.comparison.compared]
    if not compared:
        notes = [note for part in run.parts for note in part.comparison.notes]
        return Answer.UNKNOWN, "nothing could be compared" + (f": {'; '.join(notes[:3])}" if notes else "")
    told = ", ".join(f"{part.comparison.compared:,} {part.name}" for part in compared)
    if any(part.comparison.kind == "within" for part in compared):
        return Answer.WITHIN, f"{told} compared: not all equal, and all within what was allowed"
    return Answer.IDENTICAL, f"{told} equal bit for bit"


def _shows_resume(run: Killed) -> bool:
    """It was seen to go on after a step, or no step can be seen and `_of_time` had nothing to say: that the numbers of a
    run that began at zero are equal proves nothing."""
    has_steps = any(hit.step is not None for hit in run.hits)
    return any((one.step or 0) > 0 or (one.step is None and not has_steps) for one in run.resumed)


def _nothing_resumed(runs: Sequence[Killed]) -> str:
    if all(one.step is not None for run in runs for one in run.resumed):
        return "every kill came before a first checkpoint: nothing was resumed; let it run longer, or save more often"
    return "which step it went on after was not seen in any run: nothing shows that it resumed"


def _ending(run: Killed) -> str:
    code = run.exit_code or 0
    words = f": {run.last_word}" if run.last_word else ""
    return (signal_name(-code) if code < 0 else f"exit code {code}") + words


def _first_of(parts: Sequence[Part]) -> Difference | None:
    """By step; what has no step comes after."""
    firsts = [
        one
        for part in parts
        if part.differs and (one := part.comparison.first_beyond or part.comparison.first) is not None
    ]
    return min(firsts, key=lambda one: (one.step is None, one.step or 0), default=None)


def _largest(part: Part) -> float:
    """Relative; infinite for what is no number."""
    one = part.comparison.largest_relative
    return one.relative if one is not None and one.relative is not None else float("inf")


def _as_share(relative: float) -> str:
    return f"relative {relative:.2g}" if relative < float("inf") else "not in numbers"
