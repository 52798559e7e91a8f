"""Whether what the user asked to have compared is there at all: else a proof would be about something else."""

import fnmatch
import re
from collections.abc import Mapping, Sequence

from lastgood.prove.causes import Cause
from lastgood.prove.output_lines import attempts_of, begin_anew, steps_in
from lastgood.prove.shown import Shown
from lastgood.prove.statistics import Series, without_estimate
from lastgood.prove.watching import stamps_below

CHECK_THE_PATTERN = Cause(
    "what was asked for is not there",
    (),
    "hold the pattern against what the undisturbed run has printed and written: it is kept",
)


def asked_in_vain(
    shown: Shown, files: Sequence[str], values: Mapping[str, str], step_pattern: str, *, is_with_library: bool
) -> str:
    """What of it the undisturbed run does not have, with the option that asked for it; empty if all is there."""
    there = stamps_below(shown.place.work)
    for pattern in files:
        if not any(fnmatch.fnmatchcase(name, pattern) for name in there):
            return f"no final file matches --file {pattern}"
    lines = [text for part in attempts_of([(line.start, line.text) for line in shown.lines]) for text in part]
    for name, pattern in values.items():
        if not any(re.search(pattern, text) for text in lines):
            return f"no line of its output matches --value {name}={pattern}"
    if step_pattern and not is_with_library:
        steps = steps_in(lines, step_pattern)
        if not steps:
            return f"no line of its output matches --step-pattern {step_pattern}"
        if begin_anew(steps):
            why = "begin anew, and do not tell how much is done: take epochs, or the lines of one rank"
            return f"the steps of --step-pattern {step_pattern} {why}"
    return ""


def estimates_in_vain(series: Series, names: Sequence[tuple[str, str]]) -> str:
    """What of --statistical the undisturbed run has no estimate of; empty if it has all."""
    for name, why in without_estimate(series, names).items():
        return f"the undisturbed run has no estimate for --statistical {name}: {why}"
    return ""
