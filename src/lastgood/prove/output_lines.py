"""Steps and values in what a program prints, by patterns that are given or guessed. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from lastgood.core.errors import UsageError

NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf)"
_GUESSES = tuple(
    # A header names the step at which it will end.
    rf"(?i)(?<!up to )(?<!until )\b{name}\b['\"]?\s*[:=#]?\s*(\d+)"
    for name in ("(?:global[_ ]?)?step", "iter(?:ation)?", "(?:batch|sweep|generation|cycle|round)", "epoch")
)
"""What programs call a step, the most telling first."""
_LEAST_LINES = 3
_PAIR = re.compile(rf"(?i)(?<![\w.])([a-z_][\w./-]*)['\"]?\s*[:=]?\s*['\"]?({NUMBER})(?![\w.])")
_OF_TIME = re.compile(
    r"(?i)(?:^|[_./-])(?:s|ms|us|sec|secs|seconds?|time|times?tamp|elapsed|took|duration|eta|speed|throughput|"
    r"[a-z]+_per_s(?:ec(?:ond)?)?|per_second|fps|it|mem|memory|rss|runtime|date|pid|port|attempt|after)(?:$|[_./-])"
)
"""Names of what differs between any two runs."""
LAUNCHER = re.compile(r"lastgood: attempt (\d+) of ")
_OF_LAUNCHER = "lastgood: "
"""What our launcher says, of steps too, is not the program's."""

Series = dict[int, dict[str, str]]
"""Numbers stay as they are printed."""


class Finders(msgspec.Struct, frozen=True):
    """How steps and values are found in lines."""

    step: str = ""
    """A regular expression; empty: no line tells a step."""
    values: dict[str, str] = {}
    """A regular expression for each name."""
    is_step_guessed: bool = False
    is_values_guessed: bool = False
    """Every name with a number, on lines that tell a step, is a value."""
    inner: str = ""
    """A regular expression of steps that begin anew within each step, such as in an epoch; empty if there are none."""


def check_patterns(values: Mapping[str, str]) -> None:
    """Raises UsageError for a pattern that is no regular expression, or has no group."""
    for name, pattern in values.items():
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise UsageError(f"--value {name}={pattern}: no regular expression: {error}") from None
        if not compiled.groups:
            raise UsageError(
                f"--value {name}={pattern}: it has no group",
                remedy=rf"put the number in brackets, such as '{name}=loss ([-0-9.e]+)'",
            )


def guess_step_pattern(lines: Iterable[str]) -> str:
    """The pattern of the first kind of step that lines tell, rising; empty if none does.

    >>> guess_step_pattern([f"step {i} loss 0.5" for i in range(5)]) != ""
    True
    >>> guess_step_pattern(["hello", "step 1"])
    ''
    """
    return next((pattern for pattern, found in _rising(lines) if not begin_anew(found)), "")


def guess_inner_pattern(lines: Iterable[str]) -> str:
    """The pattern of steps that are more telling than those of `guess_step_pattern`, but begin anew, as in each epoch; empty
    if there are none."""
    inner = ""
    for pattern, found in _rising(lines):
        if not begin_anew(found):
            break
        inner = inner or pattern
    return inner


def begin_anew(steps: Sequence[int]) -> bool:
    """They come from far above back to one that was told before, and go on for at least half as long as the first time. Of
    several ranks one is behind the others by little, and a summary names few.

    >>> begin_anew([1, 2, 3, 1, 2, 3]), begin_anew([1, 2, 1, 2, 3, 4, 3, 4]), begin_anew([3, 1, 2, 3, 1])
    (True, False, False)
    """
    far = (max(steps, default=0) - min(steps, default=0)) / 2
    passes = [list(steps[:1])]
    for before, step in pairwise(steps):
        if before - step > far and any(step in one for one in passes):
            passes.append([])
        passes[-1].append(step)
    return any(2 * len(one) >= len(passes[0]) for one in passes[1:])


def _rising(lines: Iterable[str]) -> Iterator[tuple[str, list[int]]]:
    """The patterns of steps that rise, at least for a while, with these steps."""
    texts = [text for text in lines if not text.startswith(_OF_LAUNCHER)]
    for pattern in _GUESSES:
        found = steps_in(texts, pattern)
        rising = sum(a < b for a, b in pairwise(found))
        if len(set(found)) >= _LEAST_LINES and rising >= 0.8 * (len(set(found)) - 1):
            yield pattern, found


def attempts_of(lines: Sequence[tuple[int, str]]) -> list[list[str]]:
    """The program's output in each start, in order, and in each attempt that our launcher announces; `lines` are pairs of
    the start and what was said in it."""
    parts: list[list[str]] = []
    of_start, of_attempt = 0, 0
    for start, text in lines:
        announced = LAUNCHER.match(text)
        attempt = int(announced[1]) if announced else of_attempt
        if not parts or start != of_start or (of_attempt and attempt != of_attempt):
            parts.append([])
            attempt = int(announced[1]) if announced else 0
        of_start, of_attempt = start, attempt
        if not text.startswith(_OF_LAUNCHER):
            parts[-1].append(text)
    return parts


def steps_in(lines: Iterable[str], pattern: str) -> list[int]:
    """Every step that lines tell, in order."""
    if not pattern:
        return []
    finder = re.compile(pattern)
    return [step for text in lines if not text.startswith(_OF_LAUNCHER) and (step := _step(finder, text)) is not None]


def series_of_attempts(parts: Sequence[Sequence[str]], finders: Finders) -> list[tuple[int, Series]]:
    """What the lines of each attempt tell, {step: {name: printed value}}, with its number from 1.

    A line without a step belongs to the step told last. Lines of the same step that follow each other, such as one for each
    rank, may have values of the same name: all count. Of a step that is come back to, and of lines without one, the last.
    Where steps begin anew within each, a value beside one has it in its name, too: "loss (batch 7)".
    """
    step_finder = re.compile(finders.step) if finders.step else None
    inner_finder = re.compile(finders.inner) if finders.inner else None
    value_finders = {name: re.compile(pattern) for name, pattern in finders.values.items()}
    found: list[tuple[int, Series]] = []
    # It stays from one attempt to the next: one that begins in the middle of an epoch may not tell which.
    step = 0
    for number, part in enumerate(parts, 1):
        series: Series = {}
        of_step: list[tuple[str, str]] = []
        for text in part:
            told = _step(step_finder, text) if step_finder is not None else None
            rest = step_finder.sub(" ", text) if step_finder is not None else text
            inner = inner_finder.search(rest) if inner_finder is not None else None
            if told is not None and (told != step or (inner_finder is not None and inner is None)):
                step, of_step = told, []
            has_step = told is not None or inner is not None
            values = _values(text, value_finders)
            if finders.is_values_guessed and has_step:
                values += named_numbers(rest.replace(inner[0], " ") if inner else rest)
            if inner:
                values = [(f"{name} ({inner[0]})", said) for name, said in values]
            of_step = [*of_step, *values] if has_step else of_step
            if values:
                series.setdefault(step, {}).update(counted(of_step) if has_step else dict(values))
        found.append((number, series))
    return found


def merged(attempts: Iterable[tuple[int, Series]], *, is_in_parts: bool = False) -> Series:
    """What counts in the end: what an attempt says of a step counts before what earlier ones said, and what those said of
    later steps was lost with them. `is_in_parts`: one may begin in the middle of a step, whose values have other names there.

    >>> merged([(1, {1: {"x": "1"}, 2: {"x": "2"}, 3: {"x": "9"}}), (2, {2: {"x": "2"}})])
    {1: {'x': '1'}, 2: {'x': '2'}}
    """
    found: Series = {}
    for _, series in attempts:
        if series:
            first = min(series)
            begun = found.get(first, {}) if is_in_parts else {}
            found = {step: values for step, values in found.items() if step < first}
            found.update({**series, first: {**begun, **series[first]}})
    return found


def counted(values: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Values by their names; of those that share one, the second and later ones have their number in it.

    >>> counted([("loss", "0.5"), ("loss", "0.25")])
    {'loss': '0.5', 'loss (2)': '0.25'}
    """
    counts: dict[str, int] = {}
    found = {}
    for name, said in values:
        counts[name] = counts.get(name, 0) + 1
        found[name if counts[name] == 1 else f"{name} ({counts[name]})"] = said
    return found


def _values(text: str, finders: "Mapping[str, re.Pattern[str]]") -> list[tuple[str, str]]:
    found = []
    for name, finder in finders.items():
        for match in finder.finditer(text):
            said = match["value"] if "value" in finder.groupindex else match[1]
            if said is not None:
                found.append((name, said))
    return found


def named_numbers(text: str) -> list[tuple[str, str]]:
    """Each name with its number, in order, without times and speeds.

    >>> named_numbers("RESULT mean y = 4.25 after 3 s, elapsed: 2.9")
    [('y', '4.25')]
    """
    return [(name, said) for name, said in _PAIR.findall(text) if not _OF_TIME.search(name)]


def _step(finder: "re.Pattern[str]", text: str) -> int | None:
    match = finder.search(text)
    if match is None:
        return None
    said = match["step"] if "step" in finder.groupindex else match[1]
    return int(said) if said is not None and said.isdigit() else None
