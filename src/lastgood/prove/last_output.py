"""What a program prints in the end: all that there is to compare where nothing else can be."""

from lastgood.prove.difference import Comparison, Tolerance
from lastgood.prove.output_lines import Finders, attempts_of, counted, named_numbers, steps_in
from lastgood.prove.shown import Shown
from lastgood.prove.tally import Tally
from lastgood.prove.values import hold

_MOST_LINES = 20


def last_output(shown: Shown, finders: Finders) -> list[str]:
    """The lines that the last attempt has printed after its last step; where no step is told, its last line."""
    parts = attempts_of([(line.start, line.text) for line in shown.lines])
    own = [text for text in (parts[-1] if parts else []) if text.strip()]
    told = [i for i, text in enumerate(own) if steps_in([text], finders.step) or steps_in([text], finders.inner)]
    return own[told[-1] + 1 :][-_MOST_LINES:] if told else own[-1:]


def last_values(shown: Shown, finders: Finders) -> dict[str, str]:
    """Numbers with a name in these lines, as they are printed: most programs print their result there. All of a name that
    comes more than once; times and speeds are left out."""
    return counted(pair for text in last_output(shown, finders) for pair in named_numbers(text))


def compare_last_values(
    left: dict[str, str], right: dict[str, str], names: tuple[str, ...], tolerance: Tolerance
) -> Comparison:
    """`names`: those that are alike in two undisturbed runs."""
    tally = Tally(tolerance)
    ours, theirs = ({name: values[name] for name in names if name in values} for values in (left, right))
    hold(tally, "", ours, theirs, where="the end of its output")
    return tally.comparison()


def compare_last_output(left: Shown, right: Shown, finders: Finders, tolerance: Tolerance) -> Comparison | None:
    """Line by line; None where neither has printed anything in the end."""
    one, other = last_output(left, finders), last_output(right, finders)
    if not one and not other:
        return None
    tally = Tally(tolerance)
    hold(tally, "", _numbered(one), _numbered(other))
    return tally.comparison()


def _numbered(lines: list[str]) -> dict[str, str]:
    return {f"line {i}": text for i, text in enumerate(lines, 1)}
